"""series.parquet: every sampled value of a cell, in long format; read back whole or in buckets of time."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import closing
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from volbench.errors import RunUnreadable
from volbench.records.series import SeriesRow
from volbench.store.files import open_file
from volbench.store.tables import Columns, TableWriter, damaged_values, open_table

_NAME = pa.dictionary(pa.int32(), pa.string())
SERIES_COLUMNS = pa.schema(
    [
        pa.field("t_s", pa.float64(), nullable=False),
        pa.field("source", _NAME, nullable=False),
        pa.field("metric", _NAME, nullable=False),
        pa.field("entity", _NAME, nullable=False),
        pa.field("value", pa.float64(), nullable=False),
    ]
)
BUCKETS_MAX = 100_000
_MEMORY_LIMIT = "512MB"
_SELECT_ALL = "SELECT source, metric, entity, t_s, value FROM series"
_SELECT_EXTENTS = """
SELECT source, metric, entity, min(t_s) AS first, max(t_s) AS last, count(*) AS samples
FROM series GROUP BY ALL ORDER BY ALL"""
# 1 us of slack: a tick that should end a bucket is not moved into the next by its float's last bit.
_SELECT_BUCKETS = """
SELECT source, metric, entity, CAST(greatest(ceil((t_s - $t0 - 0.000001) / $width) - 1, 0) AS BIGINT) AS bucket,
       avg(value) AS mean, min(value) AS low, max(value) AS high
FROM series"""

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, order=True)
class SeriesKey:
    """What tells one series of a cell from the others."""

    source: str
    metric: str
    entity: str = ""


@dataclass(frozen=True, kw_only=True)
class Series:
    """All values of one series: `t_s` and `value`, both of shape (samples,), ascending in time."""

    t_s: Floats
    value: Floats


@dataclass(frozen=True, kw_only=True)
class Extent:
    """First and last t_s of a series, and how many samples it has."""

    first_s: float
    last_s: float
    samples: int


@dataclass(frozen=True, kw_only=True)
class BucketedSeries:
    """A series in buckets of equal length; a bucket without a sample is NaN in all of `mean`, `low`, `high`.

    All arrays have shape (buckets,). Bucket i is about the time `t0_s + i * width_s` .. `t0_s + (i + 1) * width_s`.
    """

    t0_s: float
    width_s: float
    mean: Floats
    low: Floats
    high: Floats


class SeriesWriter(TableWriter[SeriesRow]):
    """`with SeriesWriter(path) as writer: writer.append(rows)`; rows of one series come in order of time."""

    arrow_schema = SERIES_COLUMNS
    rows_in_group = 131_072

    def columns_of(self, rows: list[SeriesRow]) -> Columns:
        """One list a column."""
        return {name: list(map(attrgetter(name), rows)) for name in SERIES_COLUMNS.names}


def write_series(path: Path, rows: Iterable[SeriesRow]) -> int:
    """Write all rows; returns how many. A crash leaves no file or the old one."""
    with SeriesWriter(path) as writer:
        writer.append(rows)
    return writer.rows_written


def series_extents(path: Path) -> dict[SeriesKey, Extent]:
    """The series that the file holds, sorted. Raises RunUnreadable."""
    found = _fetch(path, _SELECT_EXTENTS)
    return {
        key: Extent(
            first_s=found["first"][part].item(),
            last_s=found["last"][part].item(),
            samples=found["samples"][part].item(),
        )
        for key, part in _parts(found)
    }


def read_series(
    path: Path,
    *,
    sources: Collection[str] | None = None,
    metrics: Collection[str] | None = None,
    window_s: tuple[float, float] | None = None,
) -> dict[SeriesKey, Series]:
    """Series at full resolution; only what is asked for is read.

    Args:
        path: series.parquet.
        sources, metrics: names wanted; None: all.
        window_s: only samples with window_s[0] < t_s <= window_s[1].

    Raises RunUnreadable.
    """
    where, parameters = _where(sources, metrics, window_s)
    found = _fetch(path, f"{_SELECT_ALL} {where} ORDER BY ALL", parameters)
    return {key: Series(t_s=found["t_s"][part], value=found["value"][part]) for key, part in _parts(found)}


def read_bucketed_series(
    path: Path,
    *,
    window_s: tuple[float, float],
    width_s: float,
    sources: Collection[str] | None = None,
    metrics: Collection[str] | None = None,
) -> dict[SeriesKey, BucketedSeries]:
    """Series of a window in buckets of `width_s`, each with mean, lowest and highest value.

    A sample is about the interval that ends at its t_s, so t_s on a bucket's end belongs to that bucket.

    Args:
        path: series.parquet.
        window_s: start and end of the first and last bucket.
        width_s: length of a bucket; below twice the sampling interval, ticks that come a little late leave
            buckets empty that are no gaps: read the full resolution instead.
        sources, metrics: names wanted; None: all.

    Raises RunUnreadable, and ValueError for more than BUCKETS_MAX buckets.
    """
    t0_s, t1_s = window_s
    buckets = int(np.ceil((t1_s - t0_s) / width_s - 1e-9))
    if not 0 < buckets <= BUCKETS_MAX:
        raise ValueError(f"{buckets} buckets of {width_s} s in {t0_s} .. {t1_s} s: at most {BUCKETS_MAX}")
    where, parameters = _where(sources, metrics, window_s)
    sql = f"{_SELECT_BUCKETS} {where} GROUP BY ALL ORDER BY ALL"
    found = _fetch(path, sql, {**parameters, "t0": t0_s, "width": width_s})
    result = {}
    for key, part in _parts(found):
        columns = np.full((3, buckets), np.nan)
        at = np.minimum(found["bucket"][part].astype(np.int64), buckets - 1)
        for column, name in zip(columns, ("mean", "low", "high"), strict=True):
            column[at] = found[name][part]
        result[key] = BucketedSeries(t0_s=t0_s, width_s=width_s, mean=columns[0], low=columns[1], high=columns[2])
    return result


def _where(
    sources: Collection[str] | None, metrics: Collection[str] | None, window_s: tuple[float, float] | None
) -> tuple[str, dict[str, object]]:
    conditions, parameters = [], dict[str, object]()
    for name, wanted in (("source", sources), ("metric", metrics)):
        if wanted is not None:
            conditions.append(f"list_contains(${name}_wanted, {name})")
            parameters[f"{name}_wanted"] = sorted(wanted)
    if window_s is not None:
        conditions.append("t_s > $after AND t_s <= $until")
        parameters |= {"after": window_s[0], "until": window_s[1]}
    return ("WHERE " + " AND ".join(conditions) if conditions else ""), parameters


def _fetch(path: Path, sql: str, parameters: dict[str, object] | None = None) -> dict[str, NDArray[Any]]:
    """The answer's columns. Memory is bounded however long the cell was."""
    open_table(path, SERIES_COLUMNS).close()
    with (
        os.fdopen(open_file(path), "rb") as file,
        closing(duckdb.connect(config={"memory_limit": _MEMORY_LIMIT})) as connection,
    ):
        try:
            connection.read_parquet(f"/proc/self/fd/{file.fileno()}").create_view("series")
            found = connection.execute(sql, parameters or {}).fetchnumpy()
        except (duckdb.Error, UnicodeDecodeError) as error:
            raise RunUnreadable(
                "the file is damaged", where=str(path), evidence=str(error).splitlines()[0]
            ) from error
    arrays = {
        name: column if isinstance(column, np.ndarray) else np.asarray(column) for name, column in found.items()
    }
    for name, array in arrays.items():
        if np.ma.getmaskarray(array).any() or (array.dtype.kind == "f" and not np.isfinite(array).all()):
            raise damaged_values(path, name)
    return {name: np.asarray(array) for name, array in arrays.items()}


def _parts(found: dict[str, NDArray[Any]]) -> list[tuple[SeriesKey, slice]]:
    """Where each series lies in columns that are sorted by source, metric, entity."""
    names = [found[name].astype(str) for name in ("source", "metric", "entity")]
    size = len(names[0])
    if size == 0:
        return []
    changes = np.zeros(size, dtype=bool)
    changes[0] = True
    for column in names:
        changes[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(changes)
    ends = np.append(starts[1:], size)
    return [
        (SeriesKey(source=names[0][a], metric=names[1][a], entity=names[2][a]), slice(a, b))
        for a, b in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
