"""Writes what steps measure, from any thread, to the cell's two tables."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from volbench.records.series import HistogramRow, SeriesRow
from volbench.store.histograms import HistogramWriter
from volbench.store.run_directory import HISTOGRAMS_FILE, SERIES_FILE
from volbench.store.series import SeriesWriter


class CellRecorder:
    """Appends to series.parquet and histograms.parquet; see `recording`."""

    def __init__(self, series: SeriesWriter, histograms: HistogramWriter) -> None:
        self._series = series
        self._histograms = histograms
        self._lock = threading.Lock()

    def series(self, rows: Iterable[SeriesRow]) -> None:
        """Append rows of series.parquet."""
        with self._lock:
            self._series.append(rows)

    def histogram(self, row: HistogramRow) -> None:
        """Append one row of histograms.parquet."""
        self.histograms((row,))

    def histograms(self, rows: Iterable[HistogramRow]) -> None:
        """Append rows of histograms.parquet."""
        with self._lock:
            self._histograms.append(rows)


@contextmanager
def recording(out: Path) -> Iterator[CellRecorder]:
    """Write both tables. They exist only if the block ends without an exception, and then they are complete."""
    with (
        SeriesWriter(out / SERIES_FILE) as series,
        HistogramWriter(out / HISTOGRAMS_FILE) as histograms,
    ):
        yield CellRecorder(series, histograms)
