"""Mean and quantiles of each interval's latencies, from a step's histograms, some intervals at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from volbench.results.stats.grid import Floats
from volbench.results.store.histograms import HistogramKey, Histograms, MergedHistograms

QUANTILE_EVENTS = {0.5: 10, 0.95: 100, 0.99: 500}
"""Transactions of an interval from which on its quantile stands on at least five slower ones."""


@dataclass(frozen=True, kw_only=True)
class IntervalLatencies:
    """Latencies of the transactions that ended in each interval, NaN where none did: shape (intervals,).

    `quantiles_ms` has a level where an interval has enough transactions for it, NaN in the others.
    """

    mean_ms: Floats
    quantiles_ms: Mapping[float, Floats]


def interval_latencies(histograms: Histograms, key: HistogramKey, grid_s: Floats) -> IntervalLatencies:
    """Return the latencies of each interval of a grid: memory holds the bins of few of them at one time."""
    intervals = len(grid_s) - 1
    mean_ms = np.full(intervals, np.nan)
    quantiles = {level: np.full(intervals, np.nan) for level in QUANTILE_EVENTS}
    for block, merged in histograms.blocks(key, grid_s):
        middles, events = _bin_middles_ms(merged), merged.counts.sum(axis=1)
        with np.errstate(invalid="ignore"):
            mean_ms[block] = np.where(events > 0, (merged.counts @ middles) / events, np.nan)
        below = np.cumsum(merged.counts, axis=1)
        for level, least in QUANTILE_EVENTS.items():
            numbers = np.minimum((below < level * events[:, None]).sum(axis=1), len(middles) - 1)
            quantiles[level][block] = np.where(events >= least, middles[numbers], np.nan)
    measured = {level: values for level, values in quantiles.items() if np.isfinite(values).any()}
    return IntervalLatencies(mean_ms=mean_ms, quantiles_ms=measured)


def _bin_middles_ms(histogram: MergedHistograms) -> Floats:
    """Return the geometric middle of each bin; bins are logarithmic, at most 2 % wide."""
    bins = np.arange(histogram.counts.shape[1])
    return np.asarray(np.exp((bins + 0.5) / histogram.key.edge_mult + histogram.key.edge_deduct), dtype=np.float64)
