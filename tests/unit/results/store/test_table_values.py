"""Values that a table's types allow and no measurement gives: each is refused, and the file is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from volbench.errors import RunUnreadable
from volbench.results.store.histograms import HISTOGRAM_COLUMNS, load_histograms
from volbench.results.store.series import SERIES_COLUMNS, read_series
from volbench.results.store.tables import SCHEMA_KEY, TABLE_SCHEMA

SERIES = {"t_s": 1.0, "source": "diskstats", "metric": "reads_per_s", "entity": "sda", "value": 5.0}
HISTOGRAM: dict[str, Any] = {
    "t_s": 1.0,
    "interval_s": 1.0,
    "step": "load",
    "source": "client",
    "events": 3,
    "errors": 0,
    "edge_mult": 55.5,
    "edge_deduct": -6.9,
    "bin": [1, 7],
    "count": [2, 1],
    "below": 0,
    "above": 0,
    "measured": True,
}
OF_SERIES: tuple[dict[str, Any], ...] = (
    {"value": 1e308},
    {"value": -1e21},
    {"value": float("inf")},
    {"value": float("nan")},
    {"t_s": 1e300},
)
OF_HISTOGRAMS: tuple[dict[str, Any], ...] = (
    {"bin": [7, 1]},
    {"bin": [7, 7]},
    {"bin": [-1, 2]},
    {"bin": [1, 2**31 - 1]},
    {"count": [-1, 1]},
    {"count": [1]},
    {"interval_s": -1.0},
    {"edge_mult": 0.0},
    {"edge_mult": -1.0},
    {"edge_mult": 5e-324},
    {"edge_mult": 1e9},
    {"edge_deduct": 1e20},
    {"edge_deduct": -700.0},
    {"edge_deduct": 60.0},
    {"t_s": 1e30},
    {"events": -1},
)


def write(path: Path, schema: pa.Schema, row: dict[str, Any]) -> None:
    table = pa.Table.from_pylist([row], schema=schema)
    pq.write_table(table.replace_schema_metadata({SCHEMA_KEY: str(TABLE_SCHEMA).encode()}), path)


def test_what_volbench_writes_is_read(tmp_path: Path) -> None:
    write(tmp_path / "s.parquet", SERIES_COLUMNS, SERIES)
    write(tmp_path / "h.parquet", HISTOGRAM_COLUMNS, HISTOGRAM)
    assert len(read_series(tmp_path / "s.parquet")) == 1
    (merged,) = load_histograms(tmp_path / "h.parquet").merged().values()
    assert merged.counts.sum() == 3


@pytest.mark.parametrize("change", OF_SERIES, ids=str)
def test_a_sample_that_is_not_measured_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path / "s.parquet", SERIES_COLUMNS, {**SERIES, **change})
    with pytest.raises(RunUnreadable, match=r"s\.parquet"):
        read_series(tmp_path / "s.parquet")


@pytest.mark.parametrize("change", OF_HISTOGRAMS, ids=str)
def test_bins_that_no_histogram_has_are_refused(change: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path / "h.parquet", HISTOGRAM_COLUMNS, {**HISTOGRAM, **change})
    with pytest.raises(RunUnreadable, match=r"h\.parquet"):
        load_histograms(tmp_path / "h.parquet")
