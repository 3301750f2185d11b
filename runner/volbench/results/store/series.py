"""series.parquet: every sampled value of a cell, in long format; read back whole or in buckets of time."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from volbench.core.base.parse import NUMBER_MAX
from volbench.core.base.text import counted
from volbench.core.records.named_metrics import NamedMetric
from volbench.core.records.series import SeriesRow
from volbench.results.store.scratch_columns import ScratchColumn
from volbench.results.store.tables import (
    Columns,
    TableWriter,
    check_name,
    check_series_count,
    damaged,
    damaged_values,
    open_table,
    read_batches,
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
SERIES_MAX = 20_000
"""Of one cell; a cell of volbench has some hundreds."""
BUCKET_SLACK_S = 1e-6
"""A tick that should end a bucket is not moved into the next by its float's last bit."""
_NAMES = ("source", "metric", "entity")
_ROWS_COUNTED = 1 << 20
_ROWS_OF_BATCH = 1 << 16
"""So that a row's time is a number of 16 bits among those of its batch."""
_CODES_COUNTED = 1 << 17
"""As many codes are counted in 2 MiB, and need no sorting."""
_TIMES_COMPARED = 8
"""A series follows others of its source in the order of keys."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, order=True)
class SeriesKey:
    """What tells one series of a cell from the others."""

    source: str
    metric: str
    entity: str = ""

    @classmethod
    def of(cls, metric: NamedMetric, entity: str = "") -> Self:
        """Return the key of a metric."""
        return cls(source=metric.source, metric=metric.name, entity=entity)


@dataclass(frozen=True, kw_only=True)
class Series:
    """All values of one series: `t_s` and `value`, both of shape (samples,), ascending in time."""

    t_s: Floats
    value: Floats

    def shifted(self, seconds: float) -> Series:
        """Return the samples at times so much later."""
        return Series(t_s=self.t_s + seconds, value=self.value)

    def where(self, mask: NDArray[np.bool_]) -> Series:
        """Return the samples of a mask of shape (samples,)."""
        return Series(t_s=self.t_s[mask], value=self.value[mask])


class _Stored(Series):
    """A series of a long cell: its values are read from a file each time that they are asked for."""

    _values: ScratchColumn[np.float64]
    _begin: int

    def __init__(self, *, t_s: Floats, values: ScratchColumn[np.float64], begin: int) -> None:
        object.__setattr__(self, "t_s", t_s)
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_begin", begin)

    @property
    def value(self) -> Floats:
        """Return a copy."""
        return self._values.read(self._begin, self._begin + len(self.t_s))


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


def series_within(series: Mapping[SeriesKey, Series], begin_s: float, end_s: float) -> dict[SeriesKey, Series]:
    """Return the samples with begin_s < t_s <= end_s; series without any are left out."""
    masks = {key: (samples.t_s > begin_s) & (samples.t_s <= end_s) for key, samples in series.items()}
    return {key: series[key].where(mask) for key, mask in masks.items() if mask.any()}


class SeriesWriter(TableWriter[SeriesRow]):
    """`with SeriesWriter(path) as writer: writer.append(rows)`; rows of one series come in order of time."""

    arrow_schema = SERIES_COLUMNS
    rows_in_group = 131_072

    def columns_of(self, rows: list[SeriesRow]) -> Columns:
        """Return one list a column."""
        return {name: list(map(attrgetter(name), rows)) for name in SERIES_COLUMNS.names}


def write_series(path: Path, rows: Iterable[SeriesRow]) -> int:
    """Write all rows; returns how many. A crash leaves no file or the old one."""
    with SeriesWriter(path) as writer:
        writer.append(rows)
    return writer.rows_written


def read_series(
    path: Path,
    *,
    sources: Collection[str] | None = None,
    metrics: Collection[str] | None = None,
    window_s: tuple[float, float] | None = None,
) -> dict[SeriesKey, Series]:
    """Return series at full resolution, sorted by their keys; only what is asked for is kept.

    The file is decoded piece by piece, first the names and then the numbers. Times that series share are kept once.
    A sample's value has 8 bytes, and 4 more while the file is read: in memory, or of a long cell in a file without
    a name, from which the values of a series are read when they are asked for.

    Args:
        path: series.parquet.
        sources, metrics: names to read; None: all.
        window_s: only samples with window_s[0] < t_s <= window_s[1].

    Raises RunUnreadable.
    """
    return _read(path, _Selection(sources=sources, metrics=metrics, window_s=window_s))


def bucketed(series: Series, *, window_s: tuple[float, float], width_s: float) -> BucketedSeries:
    """Return a series' samples of a window in buckets of `width_s`, each with mean, lowest and highest value.

    A sample is about the interval that ends at its t_s, so t_s on a bucket's end belongs to that bucket.

    Args:
        series: at full resolution.
        window_s: start and end of the first and last bucket.
        width_s: length of a bucket; below twice the sampling interval, ticks that come a little late leave
            buckets empty that are no gaps: use the full resolution instead.

    Raises ValueError for more than BUCKETS_MAX buckets.
    """
    count = _bucket_count(window_s, width_s)
    first, end = np.searchsorted(series.t_s, window_s, side="right")
    t_s, value = series.t_s[first:end], series.value[first:end]
    bucket = np.ceil((t_s - window_s[0] - BUCKET_SLACK_S) / width_s).astype(np.int64) - 1
    bucket = np.clip(bucket, 0, count - 1)
    samples = np.bincount(bucket, minlength=count)
    mean, low, high = np.full((3, count), np.nan)
    if len(bucket):
        starts = np.flatnonzero(np.diff(bucket, prepend=-1))
        filled = bucket[starts]
        mean[filled] = np.bincount(bucket, value, minlength=count)[filled] / samples[filled]
        low[filled], high[filled] = np.minimum.reduceat(value, starts), np.maximum.reduceat(value, starts)
    return BucketedSeries(t0_s=window_s[0], width_s=width_s, mean=mean, low=low, high=high)


def _bucket_count(window_s: tuple[float, float], width_s: float) -> int:
    count = int(np.ceil((window_s[1] - window_s[0]) / width_s - 1e-9))
    if not 0 < count <= BUCKETS_MAX:
        raise ValueError(
            f"{counted(count, 'bucket')} of {width_s} s in {window_s[0]} .. {window_s[1]} s: at most {BUCKETS_MAX}"
        )
    return count


def _in_order(t_s: Floats, values: ScratchColumn[np.float64], begin: int) -> Series:
    """Return the samples ascending in time, and in value where times are equal; volbench writes them so."""
    is_ascending = bool(np.all(t_s[1:] > t_s[:-1]))
    if is_ascending and values.is_on_disk:
        return _Stored(t_s=t_s, values=values, begin=begin)
    value = values.read(begin, begin + len(t_s))
    if not is_ascending:
        order = np.lexsort((value, t_s))
        t_s, value = t_s[order], value[order]
    return Series(t_s=t_s, value=value)


@dataclass(frozen=True, kw_only=True)
class _Selection:
    """Which samples are read; None: all."""

    sources: Collection[str] | None = None
    metrics: Collection[str] | None = None
    window_s: tuple[float, float] | None = None

    def series(self, source: str, metric: str) -> bool:
        """Return whether a series is selected."""
        return all(
            names is None or name in names for names, name in ((self.sources, source), (self.metrics, metric))
        )


@dataclass
class _Names:
    """The series of a file, numbered in the order in which they are met."""

    path: Path
    numbers: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.numbers)

    def number(self, names: tuple[str, str, str]) -> int:
        """Return the number of a series. Raises RunUnreadable for too many and for names too long."""
        if names not in self.numbers:
            check_series_count(self.path, len(self.numbers) + 1, SERIES_MAX)
            for name in names:
                check_name(self.path, name)
            self.numbers[names] = len(self.numbers)
        return self.numbers[names]

    def ordered(self) -> list[tuple[SeriesKey, int]]:
        """Return the keys, sorted, with their numbers."""
        return sorted(
            (SeriesKey(source=source, metric=metric, entity=entity), number)
            for (source, metric, entity), number in self.numbers.items()
        )


def _read(path: Path, selection: _Selection) -> dict[SeriesKey, Series]:
    names = _Names(path)
    with open_table(path, SERIES_COLUMNS) as file:
        numbers = _row_numbers(path, file, names, selection)
        counts = _counts(numbers)
        ordered = [(key, number) for key, number in names.ordered() if counts[number]]
        ends = np.cumsum([counts[number] for _, number in ordered], dtype=np.int64).tolist()
        begins = [0, *ends][:-1]
        free = np.zeros(SERIES_MAX, np.int64)
        free[[number for _, number in ordered]] = begins
        values = ScratchColumn(int(counts.sum()), np.float64)
        times = _Times([number for _, number in ordered], len(values.array))
        row = 0
        for batch in read_batches(path, file, ["t_s", "value"], rows=_ROWS_OF_BATCH):
            series = numbers.array[row : row + len(batch)]
            row += len(batch)
            rows = np.argsort(series, kind="stable")
            sizes = np.bincount(series, minlength=SERIES_MAX + 1)
            rows = rows[: len(rows) - sizes[SERIES_MAX]]  # those that are not selected have the highest number
            sizes = sizes[:SERIES_MAX]
            targets = np.arange(len(rows)) + (free - (np.cumsum(sizes) - sizes))[series[rows]]
            _finite(path, batch, "t_s", rows)
            times.add(batch.column("t_s").to_numpy(), rows, targets, sizes)
            values.array[targets] = _finite(path, batch, "value", rows)
            free += sizes
            for column in (numbers, times.codes, values):
                column.release()
    del numbers
    spans = list(zip(begins, ends, strict=True))
    return {
        key: _in_order(t_s, values, begin)
        for (key, _), t_s, (begin, _) in zip(ordered, _shared(times.of_series(spans)), spans, strict=True)
    }


class _Times:
    """The times of a file's samples, as numbers among the distinct ones of their batch.

    All series of a source have one time a tick, so that these are few.
    """

    def __init__(self, numbers: list[int], samples: int) -> None:
        self._numbers = np.array(numbers, np.intp)
        self.codes = ScratchColumn(samples, np.uint16)
        self._distinct: list[Floats] = []
        self._sizes: list[NDArray[np.int32]] = []

    def add(
        self, t_s: Floats, rows: NDArray[np.intp], targets: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> None:
        """Take the times of a batch; `rows` of them go to `targets`, `sizes` says how many each series has."""
        begins = np.flatnonzero(np.append(True, t_s[1:] != t_s[:-1])[: len(t_s)])
        distinct, of_run = np.unique(t_s[begins], return_inverse=True)
        codes = np.repeat(of_run.reshape(-1).astype(np.uint16), np.diff(begins, append=len(t_s)))
        self.codes.array[targets] = codes[rows]
        self._distinct.append(distinct)
        self._sizes.append(sizes[self._numbers].astype(np.int32))

    def of_series(self, spans: list[tuple[int, int]]) -> Iterator[Floats]:
        """Yield the times of each series, whose samples are at a span of the targets."""
        distinct = np.concatenate([np.empty(0), *self._distinct])
        bases = np.cumsum([0, *map(len, self._distinct)])[:-1]
        sizes = np.array(self._sizes, np.int32).reshape(len(bases), len(spans))
        for at, (begin, end) in enumerate(spans):
            yield distinct[np.repeat(bases, sizes[:, at]) + self.codes.read(begin, end)]


def _counts(numbers: ScratchColumn[np.uint16]) -> NDArray[np.int64]:
    """Return how many rows each series has; by blocks, since each row's number becomes one of 8 bytes."""
    counts, rows = np.zeros(SERIES_MAX + 1, np.int64), len(numbers.array)
    for begin in range(0, rows, _ROWS_COUNTED):
        block = numbers.read(begin, min(begin + _ROWS_COUNTED, rows))
        counts += np.bincount(block, minlength=SERIES_MAX + 1)
    return counts[:SERIES_MAX]


def _shared(times: Iterable[Floats]) -> Iterator[Floats]:
    """Yield the same times, those that are equal once: a source samples all of its series at one time."""
    distinct: dict[int, list[Floats]] = {}
    for t_s in times:
        of_length = distinct.setdefault(len(t_s), [])
        equal = next((earlier for earlier in of_length[-_TIMES_COMPARED:] if np.array_equal(earlier, t_s)), None)
        if equal is None:
            of_length.append(t_s)
        yield t_s if equal is None else equal


def _finite(path: Path, batch: pa.RecordBatch, name: str, rows: NDArray[np.intp]) -> Floats:
    """Return the selected rows of a column. Raises RunUnreadable for values that are absent or not finite."""
    column = batch.column(name)
    if column.null_count:
        raise damaged_values(path, name)
    values: Floats = column.to_numpy()[rows]
    if not (np.abs(values) <= NUMBER_MAX).all():
        raise damaged_values(path, name)
    return values


def _row_numbers(
    path: Path, file: pq.ParquetFile, names: _Names, selection: _Selection
) -> ScratchColumn[np.uint16]:
    """Return the number of each row's series, SERIES_MAX where it is not selected. Raises RunUnreadable."""
    numbers = ScratchColumn(file.metadata.num_rows, np.uint16)
    row = 0
    columns = [*_NAMES, *(["t_s"] if selection.window_s is not None else [])]
    for batch in read_batches(path, file, columns):
        for name in columns:
            if batch.column(name).null_count:
                raise damaged_values(path, name)
        of_batch = _numbers(path, batch, names, selection)
        if selection.window_s is not None:
            t_s = batch.column("t_s").to_numpy()
            of_batch[~((t_s > selection.window_s[0]) & (t_s <= selection.window_s[1]))] = SERIES_MAX
        numbers.array[row : row + len(of_batch)] = of_batch
        row += len(of_batch)
        numbers.release()
    numbers.array[row:] = SERIES_MAX
    return numbers


def _numbers(path: Path, batch: pa.RecordBatch, names: _Names, selection: _Selection) -> NDArray[np.uint16]:
    """Return the number of each row's series.

    The names are decoded once and not for each row, of which there are many.
    """
    arrays = [_encoded(batch.column(name)) for name in _NAMES]
    try:
        texts = [array.dictionary.to_pylist() for array in arrays]
    except UnicodeDecodeError as error:
        raise damaged(path, error) from error
    combined = np.zeros(len(batch), np.int64)
    for array in arrays:
        combined = combined * max(1, len(array.dictionary)) + array.indices.to_numpy()
    codes, of_row = _distinct(combined, math.prod(max(1, len(array.dictionary)) for array in arrays))
    numbers = np.empty(len(codes), np.uint16)
    for index, code in enumerate(codes):
        source_and_metric, entity = divmod(code, max(1, len(texts[2])))
        source, metric = divmod(source_and_metric, max(1, len(texts[1])))
        key = (texts[0][source], texts[1][metric], texts[2][entity])
        numbers[index] = names.number(key) if selection.series(key[0], key[1]) else SERIES_MAX
    return numbers[of_row]


def _distinct(codes: NDArray[np.int64], bound: int) -> tuple[list[int], NDArray[np.intp]]:
    """Return the distinct ones of codes from 0 to below a bound, ascending, and each code's index among them."""
    if bound > _CODES_COUNTED:
        distinct, positions = np.unique(codes, return_inverse=True)
        return distinct.tolist(), positions.reshape(-1)
    present = np.flatnonzero(np.bincount(codes, minlength=bound))
    positions = np.zeros(bound, np.intp)
    positions[present] = np.arange(len(present))
    return present.tolist(), positions[codes]


def _encoded(names: pa.Array) -> pa.DictionaryArray:
    """Return the names as a dictionary, as volbench writes them; another program may have written plain text."""
    return names if pa.types.is_dictionary(names.type) else names.dictionary_encode()
