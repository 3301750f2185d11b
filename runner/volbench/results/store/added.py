"""Series that came after a cell had ended, in a directory of their own: `added/NAME.parquet`, same columns.

What was measured is never changed; what is added can be added again, or removed with the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from volbench.core.records.series import SeriesRow
from volbench.results.store.files import held_parent
from volbench.results.store.run_directory import SERIES_FILE
from volbench.results.store.series import Series, SeriesKey, write_series

ADDED = "added"


def write_added(cell_dir: Path, name: str, series: Mapping[SeriesKey, Series]) -> int:
    """Keep series, in seconds since the cell's zero, replacing those of the same name; returns the samples."""
    with held_parent(cell_dir / ADDED) as parent, suppress(FileExistsError):
        os.mkdir(ADDED, dir_fd=parent)
    rows = (
        SeriesRow(t_s=t_s, source=key.source, metric=key.metric, entity=key.entity, value=value)
        for key, samples in sorted(series.items())
        for t_s, value in zip(samples.t_s.tolist(), samples.value.tolist(), strict=True)
    )
    return write_series(cell_dir / ADDED / f"{name}.parquet", rows)


def series_files(cell_dir: Path) -> tuple[Path, ...]:
    """Return the cell's own series first, then what was added."""
    own = cell_dir / SERIES_FILE
    return (*((own,) if own.exists() else ()), *sorted((cell_dir / ADDED).glob("*.parquet")))
