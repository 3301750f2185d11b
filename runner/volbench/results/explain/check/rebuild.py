"""Rebuild what clients and the device must have seen, if a claim is true: pure functions of numbers and arrays.

A transaction that waits k times, one wait after the other, each for a time of its own with the mean W / k, takes a
time with a gamma distribution of shape k: its mean is W, whatever its tail is. So a tail that is rebuilt comes from
the mean and from how often a transaction waits; no recorded quantile is part of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from volbench.results.stats.grid import Floats, Mask

SHAPE_MAX = 25.0
"""Beyond it a tail comes from what all waits of a transaction have in common, not from their number."""
WAITS_PER_SHAPE = 2.0
"""Squared variation of one wait of storage, 1 for a random service, more with a queue: two waits count as one."""
CPU_WAITS = 3.0
"""Waits for a CPU, all alike, that a transaction's time in the queue of saturated CPUs varies like: their number
says less, since what one waits for is in front of it each time."""
EVEN = math.inf
"""Waits of a transaction that are all alike, as of a limit or of a constant delay."""
_STEPS = 60
_NORMAL = NormalDist()


@dataclass(frozen=True, kw_only=True)
class Level:
    """A number of transactions that are alike.

    Args:
        transactions: of them.
        mean_ms: time of one, the sum of its accounted pieces.
        variation: of that time, squared: variance over the square of the mean.
    """

    transactions: float
    mean_ms: float
    variation: float


def variation_of_waits(waits: float, queued_share: float = 0.0) -> float:
    """Return the squared variation of a transaction's time: the variances of its pieces add up.

    Args:
        waits: how often it waits, one wait after the other; math.inf: all its waits are alike.
        queued_share: of its time, what it spends in the queue of the CPUs, which varies by itself.
    """
    of_waits = 1 / min(SHAPE_MAX, max(1.0, waits / WAITS_PER_SHAPE))
    return queued_share**2 / CPU_WAITS + (1 - queued_share) ** 2 * of_waits


def rebuilt_quantile(levels: Sequence[Level], level: float) -> float | None:
    """Milliseconds below which this share of all transactions lies; None without a transaction.

    Args:
        levels: the parts of the step.
        level: 0.95 for p95.

    A gamma variable's distribution function is that of Wilson and Hilferty (PNAS 17, 1931): its cube root is nearly
    normal.
    """
    total = sum(alike.transactions for alike in levels)
    if total <= 0:
        return None
    low, high = 0.0, 100 * max(alike.mean_ms for alike in levels)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        below = sum(alike.transactions * _share_below(middle, alike) for alike in levels) / total
        low, high = (middle, high) if below < level else (low, middle)
    return (low + high) / 2


def _share_below(ms: float, level: Level) -> float:
    if level.mean_ms <= 0:
        return 1.0
    spread = math.sqrt(level.variation / 9)
    return _NORMAL.cdf(((ms / level.mean_ms) ** (1 / 3) - (1 - spread**2)) / spread)


def little_ms(clients: float, rate: Floats) -> float | None:
    """Mean time of a transaction of N clients that ask again at once, in ms: N over the mean rate (Little)."""
    mean_rate = float(np.nanmean(rate)) if np.isfinite(rate).any() else 0.0
    return 1000 * clients / mean_rate if mean_rate > 0 else None


def summed_ms(rate: Floats | None, each_ms: Floats | None) -> float | None:
    """Mean time of one operation over all operations, not over intervals: sum of rate x time over sum of rate.

    Args:
        rate, each_ms: shape (buckets,), NaN where nothing is known.
    """
    if rate is None or each_ms is None:
        return None
    both = np.isfinite(rate) & np.isfinite(each_ms)
    operations = float(rate[both].sum())
    return float((rate[both] * each_ms[both]).sum()) / operations if operations > 0 else None


def weighted_median(values: Floats, weights: Floats) -> float | None:
    """The value at which half of all weights is reached; None without one.

    Args:
        values, weights: shape (buckets,); a bucket without either does not count.
    """
    counts = np.isfinite(values) & (np.nan_to_num(weights) > 0)
    if not counts.any():
        return None
    order = np.argsort(values[counts])
    reached = np.cumsum(weights[counts][order])
    return float(values[counts][order][int(np.searchsorted(reached, reached[-1] / 2))])


def served_at_least(values: Floats, inside: Mask, samples: int) -> float | None:
    """The most that was served over some intervals in a row, their mean; None where they are too few.

    Args:
        values: a second, shape (buckets,).
        inside: the intervals of the claim, shape (buckets,).
        samples: intervals in a row.
    """
    inside = inside & np.isfinite(values)
    if samples > len(values):
        return None
    sums = np.convolve(np.where(inside, values, 0.0), np.ones(samples), "valid")
    counts = np.convolve(inside.astype(float), np.ones(samples), "valid")
    is_full = counts > samples - 0.5
    return float(sums[is_full].max()) / samples if is_full.any() else None


def spread_of_logarithm(values: Floats) -> float:
    """Standard deviation of the logarithm of positive values, by their quartiles; 0 for fewer than three."""
    positive = values[np.isfinite(values) & (values > 0)]
    if len(positive) < 3:
        return 0.0
    low, high = np.quantile(np.log(positive), [0.25, 0.75])
    return float(high - low) / 1.349


def foreign_part(foreign: Floats, total: Floats, inside: Mask) -> float | None:
    """What others did of all that a device did, cumulated over some intervals; None where it did nothing.

    Args:
        foreign, total: operations or MiB a second, shape (buckets,).
        inside: shape (buckets,).
    """
    both = inside & np.isfinite(foreign) & np.isfinite(total)
    done = float(total[both].sum())
    return float(foreign[both].sum()) / done if done > 0 else None


def pooled_quantile(weights: Floats, by_level: dict[float, Floats], level: float) -> float | None:
    """A quantile of all transactions together, of quantiles of each interval; None where they are not known.

    Args:
        weights: transactions of each interval, shape (buckets,).
        by_level: the quantiles of each interval in ms, shape (buckets,), NaN where nothing ended.
        level: of the quantile that is wanted.

    Between two known quantiles the logarithm of the time is taken to be even; what lies below the lowest one, or
    above the highest one, counts as that one.
    """
    levels = sorted(by_level)
    if not levels:
        return None
    columns = np.log(np.maximum(np.stack([by_level[key] for key in levels]), 1e-6))
    usable = np.isfinite(columns).all(axis=0) & np.isfinite(weights) & (weights > 0)
    if not usable.any():
        return None
    columns, weights = np.maximum.accumulate(columns[:, usable], axis=0), weights[usable]
    low, high = float(columns.min()), float(columns.max())
    for _ in range(_STEPS):
        middle = (low + high) / 2
        shares = [np.interp(middle, column, levels, left=0.0, right=1.0) for column in columns.T]
        below = float((weights * shares).sum() / weights.sum())
        low, high = (middle, high) if below < level else (low, middle)
    return math.exp((low + high) / 2)
