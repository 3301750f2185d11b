"""Histograms of a cell written and read row by row, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from volbench.core.records.series import HistogramRow
from volbench.results.store.histograms import HISTOGRAM_COLUMNS, HistogramWriter
from volbench.results.store.tables import batches


def write_histograms(path: Path, rows: Iterable[HistogramRow]) -> int:
    """Write all rows; returns how many. A crash leaves no file or the old one."""
    with HistogramWriter(path) as writer:
        writer.append(rows)
    return writer.rows_written


def read_histograms(path: Path) -> Iterator[HistogramRow]:
    """All rows, one by one. Raises RunUnreadable."""
    for batch in batches(path, HISTOGRAM_COLUMNS, rows=4_096):
        for row in batch.to_pylist():
            yield HistogramRow(**{**row, "bin": tuple(row["bin"]), "count": tuple(row["count"])})
