"""Quantiles of latency histograms with log bins, interpolated within a bin on the log scale.

What lies above the last bin is known only to be above: a quantile there has no value. An interval without events
has no quantile at all. Intervals are merged by adding counts, never by averaging percentiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
        """Return latency at a position in bins, 2.5 being the middle of bin 2 on the log scale; any shape."""
        return np.asarray(np.exp(np.asarray(position) / self.mult + self.deduct), dtype=np.float64)


def quantiles_ms(
    bins: LogBins, counts: ArrayLike, *, below: ArrayLike, above: ArrayLike, levels: Sequence[float]
) -> _Floats:
    """Return quantiles of each interval, shape (T, levels), NaN where there is no value.

    Args:
        counts: events by interval and bin, shape (T, size).
        below, above: events outside the bins, shape (T,). Those below lie evenly between 0 and the first edge.
        levels: shares of events, 0.99 for the 99th percentile, each above 0, at most 1.

    Raises ValueError for another level, other shapes, and negative counts.
    """
    if not all(0 < level <= 1 for level in levels):
        raise ValueError(f"quantiles are shares above 0, at most 1, not {list(levels)}")
    table, low, high = (np.asarray(column, dtype=np.int64) for column in (counts, below, above))
    if table.ndim != 2 or low.shape != table.shape[:1] or high.shape != table.shape[:1]:
        raise ValueError(
            "counts are a table of intervals by bins, with one number below and above for each interval"
        )
    if any(column.size and column.min() < 0 for column in (table, low, high)):
        raise ValueError("a negative count: was a counter reset not noticed?")
    totals = np.cumsum(table, axis=1)
    inside = totals[:, -1] if table.shape[1] else np.zeros(len(table), dtype=np.int64)
    value = np.full((len(table), len(levels)), np.nan)
    for column, level in enumerate(levels):
        rank = _near_whole(inside + low + high, level) - low  # the wanted event, counted from the first bin
        rows = np.flatnonzero((rank > 0) & (rank <= inside))
        # Totals are whole numbers, so the first one that reaches the rank is the first that reaches its ceiling.
        entry = (totals[rows] < np.ceil(rank[rows])[:, None]).sum(axis=1)
        count = table[rows, entry]
        value[rows, column] = bins.edge_ms(entry + (rank[rows] - totals[rows, entry] + count) / count)
        first = np.flatnonzero((rank <= 0) & (low > 0))
        value[first, column] = (rank[first] / low[first] + 1) * bins.edge_ms(0)
    return value


def _near_whole(events: _Ints, level: float) -> _Floats:
    exact = np.asarray(events * level, dtype=np.float64)
    rounded = np.rint(exact)
    return np.where(np.abs(exact - rounded) <= _LEVEL_SLACK * np.maximum(1.0, exact), rounded, exact)
