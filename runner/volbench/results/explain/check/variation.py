"""How much a transaction's file waits vary around their mean: pure functions of counts, each an upper bound.

Where nothing is counted but how often a transaction waits, each wait is taken to be random. Counts of seconds can
say that it is not: operations whose times vary by themselves make means of seconds that vary, by less the more of
them there are. Whatever else changes from second to second makes this larger, and not smaller. No quantile of the
clients is part of it.
"""

from __future__ import annotations

import numpy as np

from volbench.results.stats.grid import Floats

RANDOM = 1.0
"""Squared variation of a time whose end is as likely at each moment (exponential)."""
OPERATIONS_MIN = 5.0
"""Of an interval whose mean is compared."""
INTERVALS_MIN = 4
"""With fewer differences nothing is said."""


def operation_variation(operations: Floats, seconds: Floats) -> float:
    """Return the squared variation of one operation's time, at most RANDOM.

    Of n independent operations with a squared variation c, the mean of a second has c / n. Successive differences
    have the variances of two means, and little of a slow change (von Neumann, Annals of Mathematical Statistics
    12, 1941).

    Args:
        operations: in each interval, shape (buckets,).
        seconds: that they took together, shape (buckets,).
    """
    used = np.isfinite(operations) & np.isfinite(seconds) & (operations >= OPERATIONS_MIN)
    if used.sum() < INTERVALS_MIN:
        return RANDOM
    counts, each_s = operations[used], seconds[used] / operations[used]
    mean_s = float(seconds[used].sum() / counts.sum())
    if mean_s <= 0:
        return RANDOM
    squares = np.diff(each_s) ** 2 / (mean_s**2 * (1 / counts[1:] + 1 / counts[:-1]))
    return min(RANDOM, float(squares.mean()))


def waits_variation(
    reads: float, syncs: float, read_ms: float, sync_ms: float, *, read: float, sync: float, miss_ratio: float
) -> float | None:
    """Return the squared variation of a transaction's file waits; None where it has none.

    The number of its reads varies as well: of those pages that it asks for, each is missed with a probability p,
    and a binomial number with the mean k has a squared variation of (1 - p) / k.

    Args:
        reads, syncs: of a transaction.
        read_ms, sync_ms: that they took together.
        read, sync: squared variation of one, by `operation_variation`.
        miss_ratio: p, of all pages; that of leaves is larger, so that it is an upper bound.
    """
    total_ms = read_ms + sync_ms
    if total_ms <= 0 or reads + syncs <= 0:
        return None
    variation = 0.0
    if reads > 0:
        variation += (read_ms / total_ms) ** 2 * (read + 1 - miss_ratio) / max(1.0, reads)
    if syncs > 0:
        variation += (sync_ms / total_ms) ** 2 * (sync + 1) / max(1.0, syncs)
    return variation
