"""Latency histograms with log bins: merged by adding counts, never by averaging percentiles.

`LogBins` says where bins lie, `Histograms` holds one sparse histogram for each interval (the rows of
histograms.parquet as they are); their sum is a `Histograms` of one interval. Quantiles are interpolated within a
bin on the log scale. What lies above the last bin is known only to be above: a quantile there has no value but
the flag `beyond_range`. An interval without events has no quantile at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volbench.errors import MustNotCompare
from volbench.records.series import HistogramRow

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]

_LEVEL_SLACK = 1e-9  # of an event: 0.07 x 100 events is the 7th, not a little more


@dataclass(frozen=True, kw_only=True)
class LogBins:
    """Bin i covers exp(i / mult + deduct) .. exp((i + 1) / mult + deduct) ms, for i = 0, 1, ..."""

    mult: float
    deduct: float

    def __post_init__(self) -> None:
        if not (self.mult > 0 and math.isfinite(self.mult) and math.isfinite(self.deduct)):
            raise ValueError(f"no such bins: {self}")

    def edge_ms(self, position: ArrayLike) -> _Floats:
        """Latency at a position in bins, 2.5 being the middle of bin 2 on the log scale; any shape."""
        return np.asarray(np.exp(np.asarray(position) / self.mult + self.deduct), dtype=np.float64)


def sysbench_bins(*, range_mult: float, range_deduct: float) -> LogBins:
    """Where the bins of sysbench's histogram lie once `split_clamped` took off its first and last counter.

    sysbench rounds to the *nearest* index, floor(x + 0.5), so exp(i / range_mult + range_deduct) is the middle
    of counter i and its edges lie half a bin lower and higher: taking it for the lower edge would make every
    latency half a bin (0.9 %) too long.

    Args:
        range_mult, range_deduct: of sysbench's C structure.

    Source: sysbench 1.0.20, src/sb_histogram.c, sb_histogram_update.
    """
    return LogBins(mult=range_mult, deduct=range_deduct + 0.5 / range_mult)


def mysql_bins() -> LogBins:
    """Where the buckets of performance_schema's statement histograms lie, after `split_clamped`.

    Bucket 0 ends at 10 us, each further edge is 10^(1/50) times the one before, and the last bucket has no end.
    BUCKET_TIMER_LOW and _HIGH are picoseconds, 1e-9 ms.
    """
    return LogBins(mult=50 / math.log(10), deduct=math.log(0.01))


@dataclass(frozen=True, kw_only=True)
class SplitCounts:
    """The non-empty bins of one interval, and the events outside: what a row of histograms.parquet wants."""

    bin: tuple[int, ...]
    count: tuple[int, ...]
    below: int
    above: int


def split_clamped(counters: ArrayLike) -> SplitCounts:
    """Splits counters whose first and last also take everything below and above the range.

    Args:
        counters: events of each counter in one interval, shape (size,), size >= 3; counter i becomes bin i - 1.

    Raises ValueError for a negative count (a reset between two readings) and for a wrong shape.
    """
    counts = np.asarray(counters, dtype=np.int64)
    if counts.ndim != 1 or len(counts) < 3:
        raise ValueError("counters are a flat list with at least one between the first and the last")
    if counts.min() < 0:
        raise ValueError("a negative count: the counters were reset between two readings")
    bins = np.flatnonzero(counts[1:-1])
    return SplitCounts(
        bin=tuple(bins.tolist()),
        count=tuple(counts[1:-1][bins].tolist()),
        below=int(counts[0]),
        above=int(counts[-1]),
    )


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """Quantiles by interval: `value_ms` has shape (intervals, levels) and NaN where there is no value.

    `beyond_range` of the same shape marks those that lie above the last bin; the other NaNs had no events.
    """

    value_ms: _Floats
    beyond_range: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Quantile:
    """One quantile; `value_ms` is None when there were no events or when it lies above the last bin."""

    value_ms: float | None
    beyond_range: bool


@dataclass(frozen=True, kw_only=True)
class Histograms:
    """One histogram for each of T intervals, sparse: interval t owns entries offsets[t] .. offsets[t + 1].

    `bin` and `count` have one entry for each non-empty bin, bins ascending within an interval; `offsets` has
    shape (T + 1,); `below` and `above` count events outside the bins, shape (T,). All are int64.
    """

    bins: LogBins
    bin: _Ints
    count: _Ints
    offsets: _Ints
    below: _Ints
    above: _Ints

    def __post_init__(self) -> None:
        if not (len(self.below) == len(self.above) == len(self) and len(self.bin) == len(self.count)):
            raise ValueError("columns of histograms differ in length")
        if self.offsets[0] != 0 or self.offsets[-1] != len(self.bin) or np.any(np.diff(self.offsets) < 0):
            raise ValueError("offsets of histograms do not cover their entries")
        if any(len(column) and column.min() < 0 for column in (self.bin, self.count, self.below, self.above)):
            raise ValueError("a negative bin or count: was a counter reset not noticed?")
        falls = np.flatnonzero(self.bin[1:] <= self.bin[:-1]) + 1
        if not np.isin(falls, self.offsets).all():
            raise ValueError("bins must ascend within an interval")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def events(self) -> _Ints:
        """Events of each interval, shape (T,)."""
        return np.asarray(np.diff(_before(self.count)[self.offsets]) + self.below + self.above)

    @property
    def has_overflow(self) -> bool:
        """Whether any event lies above the last bin."""
        return bool(self.above.any())

    def merged(self) -> Histograms:
        """The sum of all intervals, as one; without intervals, an empty one."""
        return self.grouped(np.array([0, len(self)]))

    def grouped(self, starts: ArrayLike) -> Histograms:
        """Sums of neighbouring intervals: group g is intervals starts[g] .. starts[g + 1], shape (groups + 1,).

        Raises ValueError when `starts` falls or leaves 0 .. T.
        """
        edges = np.asarray(starts, dtype=np.int64)
        if edges.ndim != 1 or len(edges) < 2 or edges[0] < 0 or edges[-1] > len(self) or np.any(np.diff(edges) < 0):
            raise ValueError(f"groups of {len(self)} intervals must rise within 0..{len(self)}")
        sums = [self._dense_sum(int(first), int(last)) for first, last in pairwise(edges)]
        return _from_parts(
            self.bins,
            [np.flatnonzero(counts) for counts in sums],
            [counts[counts > 0] for counts in sums],
            np.diff(_before(self.below)[edges]),
            np.diff(_before(self.above)[edges]),
        )

    def quantiles(self, levels: Sequence[float]) -> Quantiles:
        """Quantiles of each interval, interpolated within the bin on the log scale.

        Args:
            levels: shares of events, 0.99 for the 99th percentile, shape (levels,), each above 0, at most 1.

        Raises ValueError for another level. An event below the first bin is placed linearly from 0 to its edge.
        """
        if not all(0 < level <= 1 for level in levels):
            raise ValueError(f"quantiles are shares above 0, at most 1, not {list(levels)}")
        before = _before(self.count)
        start, end = before[self.offsets[:-1]], before[self.offsets[1:]]
        events = end - start + self.below + self.above
        value = np.full((len(self), len(levels)), np.nan)
        beyond = np.zeros(value.shape, dtype=np.bool_)
        for column, level in enumerate(levels):
            rank = _near_whole(events, level) - self.below  # the event looked for, counted from the first bin
            beyond[:, column] = (events > 0) & (rank > end - start)
            inside = np.flatnonzero((rank > 0) & ~beyond[:, column])
            target = start[inside] + rank[inside]
            # The entry whose running total reaches the target; totals are whole, so the target's ceiling will do.
            entry = np.searchsorted(before, np.ceil(target).astype(np.int64)) - 1
            share = (target - before[entry]) / self.count[entry]
            value[inside, column] = self.bins.edge_ms(self.bin[entry] + share)
            low = np.flatnonzero((rank <= 0) & (self.below > 0))
            value[low, column] = (rank[low] / self.below[low] + 1) * self.bins.edge_ms(0)
        return Quantiles(value_ms=value, beyond_range=beyond)

    def quantile(self, level: float) -> Quantile:
        """The quantile of all events together: the quantile of the merged histogram."""
        quantiles = self.merged().quantiles([level])
        value = float(quantiles.value_ms[0, 0])
        return Quantile(
            value_ms=None if math.isnan(value) else value, beyond_range=bool(quantiles.beyond_range[0, 0])
        )

    def mean_ms(self) -> float | None:
        """Mean latency of all events, each bin's events spread evenly on the log scale.

        None without events, and when an event lies above the last bin: it might be of any length. Within a bin the
        mean is (high - low) / ln(high / low), below the first bin half of its edge.
        """
        events = int(self.events.sum())
        if events == 0 or self.has_overflow:
            return None
        low, high = self.bins.edge_ms(self.bin), self.bins.edge_ms(self.bin + 1)
        total = float(np.sum(self.count * (high - low))) * self.bins.mult
        return (total + float(self.below.sum() * self.bins.edge_ms(0)) / 2) / events

    def _dense_sum(self, first: int, last: int) -> _Ints:
        """Counts of all bins up to the highest used, summed over intervals first .. last."""
        entries = slice(int(self.offsets[first]), int(self.offsets[last]))
        # The weights are added as float64: exact below 2^53 events.
        summed = np.bincount(self.bin[entries], weights=self.count[entries])
        return np.rint(summed).astype(np.int64)


def from_rows(rows: Iterable[HistogramRow]) -> Histograms:
    """The histograms of rows of one source, one interval a row, in their order.

    Raises MustNotCompare when rows have different bins, ValueError when there are none or one is malformed.
    """
    checked = list(rows)
    layouts = {(row.edge_mult, row.edge_deduct) for row in checked}
    if len(layouts) > 1:
        raise MustNotCompare(
            f"histograms with different bins: (mult, deduct) {sorted(layouts)}",
            evidence=", ".join(sorted({row.source for row in checked})),
            next_step="merge each source by itself, and runs of one configuration of sysbench only",
        )
    if not checked:
        raise ValueError("no rows: there is no histogram")
    return Histograms(
        bins=LogBins(mult=checked[0].edge_mult, deduct=checked[0].edge_deduct),
        bin=np.fromiter(chain.from_iterable(row.bin for row in checked), dtype=np.int64),
        count=np.fromiter(chain.from_iterable(row.count for row in checked), dtype=np.int64),
        offsets=_before(np.array([len(row.bin) for row in checked], dtype=np.int64)),
        below=np.array([row.below for row in checked], dtype=np.int64),
        above=np.array([row.above for row in checked], dtype=np.int64),
    )


def from_dense(bins: LogBins, counts: ArrayLike, *, below: ArrayLike, above: ArrayLike) -> Histograms:
    """The histograms of a table of counts.

    Args:
        counts: events by interval and bin, shape (T, size).
        below, above: events outside the bins, shape (T,).

    Raises ValueError for other shapes and for negative counts.
    """
    table = np.asarray(counts)
    if table.ndim != 2:
        raise ValueError("counts are a table: intervals by bins")
    filled = np.flatnonzero(table)
    return Histograms(
        bins=bins,
        bin=filled % table.shape[1],
        count=table.ravel()[filled].astype(np.int64),
        offsets=_before(np.count_nonzero(table, axis=1)),
        below=np.asarray(below, dtype=np.int64),
        above=np.asarray(above, dtype=np.int64),
    )


def concatenated(histograms: Sequence[Histograms]) -> Histograms:
    """All intervals of all parts: `concatenated(cells).merged()` is the histogram of several cells.

    Raises MustNotCompare when bins differ, ValueError when there are no parts.
    """
    if len({histogram.bins for histogram in histograms}) > 1:
        raise MustNotCompare(
            "histograms with different bins cannot be added",
            evidence=", ".join(sorted({str(histogram.bins) for histogram in histograms})),
            next_step="merge each source by itself, and runs of one configuration of sysbench only",
        )
    if not histograms:
        raise ValueError("no histograms to join")
    return Histograms(
        bins=histograms[0].bins,
        bin=np.concatenate([histogram.bin for histogram in histograms]),
        count=np.concatenate([histogram.count for histogram in histograms]),
        offsets=_before(np.concatenate([np.diff(histogram.offsets) for histogram in histograms])),
        below=np.concatenate([histogram.below for histogram in histograms]),
        above=np.concatenate([histogram.above for histogram in histograms]),
    )


def _from_parts(
    bins: LogBins, bin_: Sequence[_Ints], count: Sequence[_Ints], below: _Ints, above: _Ints
) -> Histograms:
    return Histograms(
        bins=bins,
        bin=np.concatenate(bin_),
        count=np.concatenate(count),
        offsets=_before(np.array([len(entries) for entries in bin_], dtype=np.int64)),
        below=below,
        above=above,
    )


def _before(counts: _Ints) -> _Ints:
    """Running totals before each entry, and at last of all: shape (entries + 1,)."""
    totals = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=totals[1:])
    return totals


def _near_whole(events: _Ints, level: float) -> _Floats:
    exact = np.asarray(events * level, dtype=np.float64)
    rounded = np.rint(exact)
    return np.where(np.abs(exact - rounded) <= _LEVEL_SLACK * np.maximum(1.0, exact), rounded, exact)
