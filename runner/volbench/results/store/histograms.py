"""histograms.parquet: all latencies of each interval; read back merged, since percentiles cannot be averaged."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from volbench.core.base.parse import NUMBER_MAX
from volbench.core.records.series import HistogramRow
from volbench.errors import RunUnreadable
from volbench.results.store.tables import Columns, TableWriter, batches, values_of_lists

_NAME = pa.string()
HISTOGRAM_COLUMNS = pa.schema(
    [
        pa.field("t_s", pa.float64(), nullable=False),
        pa.field("interval_s", pa.float64(), nullable=False),
        pa.field("step", _NAME, nullable=False),
        pa.field("source", _NAME, nullable=False),
        pa.field("events", pa.int64(), nullable=False),
        pa.field("errors", pa.int64(), nullable=False),
        pa.field("edge_mult", pa.float64(), nullable=False),
        pa.field("edge_deduct", pa.float64(), nullable=False),
        pa.field("bin", pa.list_(pa.int32()), nullable=False),
        pa.field("count", pa.list_(pa.int64()), nullable=False),
        pa.field("below", pa.int64(), nullable=False),
        pa.field("above", pa.int64(), nullable=False),
        pa.field("measured", pa.bool_(), nullable=False),
    ]
)
BINS_MAX = 4_096
EDGE_MULT_MIN = 0.01
"""Of a bin as wide as a factor of e^100."""
LOG_EDGE_MAX = math.log(NUMBER_MAX)
"""Of edges in ms, upwards and downwards."""
BLOCK_BUCKETS = 512
COUNT_MAX = 2**50
"""Of an interval: sums over all intervals of a cell stay exact."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, order=True)
class HistogramKey:
    """What tells the histograms of one cell apart; those of one key share their bins and may be merged."""

    step: str
    source: str
    edge_mult: float
    edge_deduct: float


@dataclass(frozen=True, kw_only=True)
class MergedHistograms:
    """Histograms added up over buckets of time, of one key.

    `counts` has shape (buckets, bins); the others have shape (buckets,). `seconds` is the length of all intervals,
    `rows` how many intervals were merged: 0 is a gap. A bucket with rows and no events is a stall.
    """

    key: HistogramKey
    counts: Ints
    below: Ints
    above: Ints
    events: Ints
    errors: Ints
    rows: Ints
    seconds: Floats


class HistogramWriter(TableWriter[HistogramRow]):
    """`with HistogramWriter(path) as writer: writer.append(rows)`."""

    arrow_schema = HISTOGRAM_COLUMNS
    rows_in_group = 4_096

    def columns_of(self, rows: list[HistogramRow]) -> Columns:
        """Return one list a column. Raises ValueError for a row whose bins and counts do not match."""
        for row in rows:
            if len(row.bin) != len(row.count) or any(not 0 <= i < BINS_MAX for i in row.bin):
                raise ValueError(f"bins and counts of {row.step} at {row.t_s} s do not match: {row.bin}")
        return {name: list(map(attrgetter(name), rows)) for name in HISTOGRAM_COLUMNS.names}


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """When histograms were taken, in order of time, and how many events each has: arrays of shape (rows,)."""

    t_s: Floats
    interval_s: Floats
    events: Ints


@dataclass(frozen=True, kw_only=True)
class Histograms:
    """The histograms of one cell, as they were read."""

    tables: tuple[_Table, ...] = ()

    @property
    def nbytes(self) -> int:
        """Their size in memory."""
        return sum(table.nbytes for table in self.tables)

    def intervals(self, source: str) -> Intervals:
        """Return the intervals of one source, without their bins."""
        columns: dict[str, NDArray[Any]] = {}
        for name in ("t_s", "interval_s", "events"):
            pieces = [table.scalars[name][table.scalars["source"] == source] for table in self.tables]
            columns[name] = np.concatenate(pieces) if pieces else np.empty(0)
        order = np.argsort(columns["t_s"], kind="stable")
        return Intervals(**{name: column[order] for name, column in columns.items()})

    def merged(
        self,
        *,
        grid_s: Collection[float] | Floats | None = None,
        measured: bool | None = None,
        steps: Collection[str] | None = None,
    ) -> dict[HistogramKey, MergedHistograms]:
        """Return histograms of each step and source, added up.

        Args:
            grid_s: ends of the buckets, ascending, the start of the first before them: shape (buckets + 1,);
                None: one bucket for everything. An interval belongs to the bucket that its end lies in.
            measured: only intervals inside (True) or outside (False) the step's window; None: all.
            steps: names wanted; None: all.
        """
        return _merged(self.tables, grid_s, measured, steps)

    def key_of(self, step: str, source: str) -> HistogramKey | None:
        """Return the first key of a step and source; None without histograms of them."""
        keys = {key for table in self.tables for key, _ in table.by_key()}
        return min((key for key in keys if (key.step, key.source) == (step, source)), default=None)

    def blocks(self, key: HistogramKey, grid_s: Floats) -> Iterator[tuple[slice, MergedHistograms]]:
        """Yield a key's histograms on a grid, as `merged` has them, by at most BLOCK_BUCKETS of its buckets.

        On a long grid, all at once would take 8 KiB a bucket. Blocks without an interval are left out.
        """
        for start in range(0, len(grid_s) - 1, BLOCK_BUCKETS):
            ends = grid_s[start : start + BLOCK_BUCKETS + 1]
            near = (table.near(ends) for table in self.tables)
            tables = [table for table in near if table is not None]
            if (merged := _merged(tables, ends, None, [key.step]).get(key)) is not None:
                yield slice(start, start + len(ends) - 1), merged


def load_histograms(path: Path) -> Histograms:
    """Return all histograms of a cell in memory: 8 bytes for each bin of each interval. Raises RunUnreadable."""
    return Histograms(tables=tuple(_tables(path)))


def _tables(path: Path) -> Iterator[_Table]:
    for batch in batches(path, HISTOGRAM_COLUMNS, rows=4_096):
        try:
            table = _Table.of(batch)
        except ValueError as error:
            raise RunUnreadable("the file is damaged", where=str(path), evidence=str(error)) from error
        yield table


def _merged(
    tables: Iterable[_Table],
    grid_s: Collection[float] | Floats | None,
    measured: bool | None,
    steps: Collection[str] | None,
) -> dict[HistogramKey, MergedHistograms]:
    grid = None if grid_s is None else np.asarray(list(grid_s), dtype=np.float64)
    sums: dict[HistogramKey, _Sums] = {}
    for table in tables:
        bucket = np.zeros(len(table.t_s), np.int64) if grid is None else _bucket_of(table.t_s, grid)
        selected = bucket >= 0
        if measured is not None:
            selected &= table.measured == measured
        for key, of_key in table.by_key():
            if steps is None or key.step in steps:
                sums.setdefault(key, _Sums(buckets=1 if grid is None else len(grid) - 1)).add(
                    table, bucket, np.flatnonzero(of_key & selected)
                )
    return {key: totals.merged(key) for key, totals in sorted(sums.items())}


def _bucket_of(t_s: Floats, grid: Floats) -> Ints:
    """Return the bucket of each time, -1 outside; 1 us of slack, as in series."""
    indices = np.searchsorted(grid, t_s - 1e-6, side="left").astype(np.int64) - 1
    indices[indices >= len(grid) - 1] = -1
    return indices


@dataclass(frozen=True, kw_only=True)
class _Table:
    """A batch as arrays: scalars of shape (rows,), the lists flat with the row that each entry belongs to."""

    t_s: Floats
    measured: NDArray[np.bool_]
    scalars: dict[str, NDArray[np.generic]]
    bin: NDArray[np.int16]
    count: NDArray[np.integer[Any]]
    row_of_entry: NDArray[np.int16]

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> _Table:
        scalars = {
            name: batch.column(name).to_numpy(zero_copy_only=False)
            for name in HISTOGRAM_COLUMNS.names
            if name not in ("bin", "count")
        }
        bins, counts = batch.column("bin"), batch.column("count")
        lengths = np.diff(bins.offsets.to_numpy())
        if not np.array_equal(lengths, np.diff(counts.offsets.to_numpy())):
            raise ValueError("bins and counts do not match")
        flat = values_of_lists(bins).to_numpy()
        if len(flat) and not 0 <= int(flat.min()) <= int(flat.max()) < BINS_MAX:
            raise ValueError(f"a bin outside 0 .. {BINS_MAX - 1}")
        row_of_entry = np.repeat(np.arange(len(lengths), dtype=np.int16), lengths)
        if ((np.diff(flat) <= 0) & (np.diff(row_of_entry) == 0)).any():
            raise ValueError("bins that do not ascend")
        _check_edges(scalars, flat, row_of_entry)
        counts_of_bins = values_of_lists(counts).to_numpy()
        amounts = [*(scalars[name] for name in ("events", "errors", "below", "above")), counts_of_bins]
        if any(
            len(counts_of_kind) and not 0 <= int(counts_of_kind.min()) <= int(counts_of_kind.max()) < COUNT_MAX
            for counts_of_kind in amounts
        ):
            raise ValueError(f"a count outside 0 .. {COUNT_MAX}")
        return cls(
            t_s=scalars["t_s"],
            measured=scalars["measured"].astype(bool),
            scalars=scalars,
            bin=flat.astype(np.int16),
            count=_smaller(counts_of_bins),
            row_of_entry=row_of_entry,
        )

    def near(self, grid: Floats) -> _Table | None:
        """Return the rows from the first to the last that may lie on a grid; None without any."""
        rows = np.flatnonzero((self.t_s >= grid[0] - 1e-3) & (self.t_s <= grid[-1] + 1e-3))
        if not len(rows):
            return None
        first, end = int(rows[0]), int(rows[-1]) + 1
        entries = slice(*np.searchsorted(self.row_of_entry, [first, end]).tolist())
        return _Table(
            t_s=self.t_s[first:end],
            measured=self.measured[first:end],
            scalars={name: column[first:end] for name, column in self.scalars.items()},
            bin=self.bin[entries],
            count=self.count[entries],
            row_of_entry=self.row_of_entry[entries] - np.int16(first),
        )

    @property
    def nbytes(self) -> int:
        """Its size in memory."""
        arrays = (*self.scalars.values(), self.bin, self.count, self.row_of_entry)
        return sum(array.nbytes for array in arrays)

    def by_key(self) -> Iterator[tuple[HistogramKey, NDArray[np.bool_]]]:
        """Yield each key of the batch with a mask of its rows."""
        columns = [self.scalars[name] for name in ("step", "source", "edge_mult", "edge_deduct")]
        for step, source, mult, deduct in sorted(set(zip(*(c.tolist() for c in columns), strict=True))):
            mask = (columns[0] == step) & (columns[1] == source)
            mask &= (columns[2] == mult) & (columns[3] == deduct)
            yield HistogramKey(step=step, source=source, edge_mult=mult, edge_deduct=deduct), mask


def _smaller(counts: Ints) -> NDArray[np.integer[Any]]:
    """Return the counts in half the memory where all of them fit: a day has a hundred million."""
    fits = not len(counts) or int(counts.max()) <= np.iinfo(np.int32).max
    return counts.astype(np.int32 if fits else np.int64)


def _check_edges(
    scalars: Mapping[str, NDArray[np.generic]], bins: NDArray[np.int32], row_of_entry: NDArray[np.int16]
) -> None:
    """Raise ValueError for intervals of negative length, and for bins whose edges are no latencies."""
    interval_s, mult, deduct = (
        np.asarray(scalars[name], np.float64) for name in ("interval_s", "edge_mult", "edge_deduct")
    )
    if (interval_s < 0).any():
        raise ValueError("an interval of negative length")
    if len(mult) and not EDGE_MULT_MIN <= float(mult.min()) <= float(mult.max()) <= BINS_MAX:
        raise ValueError(f"edge_mult outside {EDGE_MULT_MIN:g} .. {BINS_MAX}")
    highest = np.abs(deduct)
    np.maximum.at(highest, row_of_entry, (bins + 1) / mult[row_of_entry] + deduct[row_of_entry])
    if len(highest) and float(highest.max()) > LOG_EDGE_MAX:
        raise ValueError("a bin whose edges are no latencies")


@dataclass(kw_only=True)
class _Sums:
    buckets: int
    counts: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    scalars: dict[str, Floats] = field(default_factory=dict)

    def add(self, table: _Table, bucket: Ints, rows: Ints) -> None:
        for name in ("below", "above", "events", "errors", "interval_s", "rows"):
            weights = np.ones(len(rows)) if name == "rows" else table.scalars[name][rows].astype(np.float64)
            so_far = self.scalars.setdefault(name, np.zeros(self.buckets))
            so_far += np.bincount(bucket[rows], weights, minlength=self.buckets)
        entries = np.isin(table.row_of_entry, rows)
        bins, counts = table.bin[entries], table.count[entries]
        if not len(bins):
            return
        width = max(int(bins.max()) + 1, self.counts.shape[1])
        if width > self.counts.shape[1]:
            wider = np.zeros((self.buckets, width), np.int64)
            wider[:, : self.counts.shape[1]] = self.counts[: self.buckets] if self.counts.size else 0
            self.counts = wider
        np.add.at(self.counts, (bucket[table.row_of_entry[entries]], bins), counts.astype(np.int64))

    def merged(self, key: HistogramKey) -> MergedHistograms:
        integers = {name: column.astype(np.int64) for name, column in self.scalars.items() if name != "interval_s"}
        counts = self.counts if self.counts.size else np.zeros((self.buckets, 1), np.int64)
        return MergedHistograms(key=key, counts=counts, seconds=self.scalars["interval_s"], **integers)
