"""series.parquet: every sampled value of a cell, in long format; read back whole or in buckets of time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from volbench.records.series import SeriesRow
from volbench.store.files import open_file
from volbench.store.tables import (
    Columns,
    TableWriter,
    check_columns,
    check_name,
    check_series_count,
    damaged,
    damaged_values,
    open_table,
)

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
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "memory_limit": "512MB",
    "max_temp_directory_size": "8GB",
}
SERIES_MAX = 20_000
"""Of one cell; a cell of volbench has some hundreds."""
_NAMES = "source, metric, entity"
_SELECT_KEYS = """
SELECT source, metric, entity, count(*) AS samples {extra} FROM {rows}
GROUP BY source, metric, entity ORDER BY source, metric, entity LIMIT {most}"""
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
    with _open_series(path) as connection:
        keys = _fetch(path, connection, _keys_sql("series", ", min(t_s) AS first, max(t_s) AS last"))
        return {
            key: Extent(first_s=first, last_s=last, samples=samples)
            for key, first, last, samples in zip(
                _keys_of(path, keys),
                keys["first"].tolist(),
                keys["last"].tolist(),
                keys["samples"].tolist(),
                strict=True,
            )
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
    rows = f"SELECT {_NAMES}, t_s, value FROM series {where}"  # noqa: S608 - names of ours
    return {
        key: Series(t_s=columns["t_s"], value=columns["value"])
        for key, columns in _fetch_by_key(path, rows, ("t_s", "value"), parameters)
    }


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
    rows = f"{_SELECT_BUCKETS} {where} GROUP BY ALL"
    parameters |= {"t0": t0_s, "width": width_s}
    result = {}
    for key, columns in _fetch_by_key(path, rows, ("bucket", "mean", "low", "high"), parameters):
        values = np.full((3, buckets), np.nan)
        at = np.minimum(columns["bucket"].astype(np.int64), buckets - 1)
        values[:, at] = [columns[name] for name in ("mean", "low", "high")]
        result[key] = BucketedSeries(t0_s=t0_s, width_s=width_s, mean=values[0], low=values[1], high=values[2])
    return result


def _where(
    sources: Collection[str] | None, metrics: Collection[str] | None, window_s: tuple[float, float] | None
) -> tuple[str, dict[str, object]]:
    conditions, parameters = [], dict[str, object]()
    for name, names in (("source", sources), ("metric", metrics)):
        if names is not None:
            conditions.append(f"list_contains(${name}_wanted, {name})")
            parameters[f"{name}_wanted"] = sorted(names)
    if window_s is not None:
        conditions.append("t_s > $after AND t_s <= $until")
        parameters |= {"after": window_s[0], "until": window_s[1]}
    return ("WHERE " + " AND ".join(conditions) if conditions else ""), parameters


@contextmanager
def _open_series(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the table as the view `series`. Memory is bounded however long the cell was."""
    open_table(path, SERIES_COLUMNS).close()
    with (
        os.fdopen(open_file(path), "rb") as file,
        tempfile.TemporaryDirectory(prefix="volbench-series-") as scratch,
        closing(duckdb.connect(config={**_SETTINGS, "temp_directory": scratch})) as connection,
    ):
        name = f"/proc/self/fd/{file.fileno()}"
        check_columns(path, connection, name)
        try:
            connection.read_parquet(name).create_view("series")
        except duckdb.Error as error:
            raise damaged(path, error) from error
        yield connection


def _fetch_by_key(
    path: Path, rows: str, columns: Sequence[str], parameters: dict[str, object]
) -> Iterator[tuple[SeriesKey, dict[str, NDArray[Any]]]]:
    """The columns of each series, ordered by the first column.

    The names of a series are fetched once and not for each row, of which there may be millions.
    """
    with _open_series(path) as connection:
        keys = _fetch(path, connection, _keys_sql(f"({rows})"), parameters)
        ends = np.cumsum(keys["samples"], dtype=np.int64)
        series_keys = _keys_of(path, keys)
        order = f"{_NAMES}, {', '.join(columns)}"
        sql = f"SELECT {', '.join(columns)} FROM ({rows}) ORDER BY {order}"  # noqa: S608 - names of ours
        numbers = _fetch(path, connection, sql, parameters)
    for key, begin, end in zip(series_keys, [0, *ends.tolist()], ends.tolist(), strict=False):
        yield key, {name: column[begin:end] for name, column in numbers.items()}


def _fetch(
    path: Path, connection: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, object] | None = None
) -> dict[str, NDArray[Any]]:
    """The answer's columns. Raises RunUnreadable for values that are no numbers, and for none."""
    try:
        answer = connection.execute(sql, parameters or {}).fetchnumpy()
    except (duckdb.Error, UnicodeDecodeError) as error:
        raise damaged(path, error) from error
    arrays = {
        name: column if isinstance(column, np.ndarray) else np.asarray(column) for name, column in answer.items()
    }
    for name, array in arrays.items():
        if np.ma.getmaskarray(array).any() or (array.dtype.kind == "f" and not np.isfinite(array).all()):
            raise damaged_values(path, name)
    return {name: np.asarray(array) for name, array in arrays.items()}


def _keys_sql(rows: str, extra: str = "") -> str:
    return _SELECT_KEYS.format(rows=rows, extra=extra, most=SERIES_MAX + 1)


def _keys_of(path: Path, keys: dict[str, NDArray[Any]]) -> list[SeriesKey]:
    """The series of an answer to `_SELECT_KEYS`. Raises RunUnreadable for too many and for names too long."""
    check_series_count(path, len(keys["samples"]), SERIES_MAX)
    names = [keys[name].astype(object).tolist() for name in ("source", "metric", "entity")]
    for column in names:
        for name in column:
            check_name(path, name)
    return [
        SeriesKey(source=source, metric=metric, entity=entity)
        for source, metric, entity in zip(*names, strict=True)
    ]
