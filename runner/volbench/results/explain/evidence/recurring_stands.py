"""Stands that come in every interval: too short and too many for calm intervals to compare with.

All N clients of a closed loop stand together for d, and again after each T. A transaction is far shorter than T,
so that it stands once or not at all: there are two kinds of transactions, those that take m and those that take
m + d, and hardly any between or beyond. Of each interval the median is m, and p95, p99 and the slowest are about
m + d. A tail is not flat like that: an exponential one has a p99 of 1.5 times its p95, and who meets rare long
operations meets two now and then. The mean is N / X by Little's law, so that of the clients' time

    1 - m X / N

is spent in stands, without knowing d or T.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volbench.results.explain import thresholds as limit
from volbench.results.stats.grid import Floats, mean, median

TOGETHER_MS = 100.0
"""A stand that clients feel: beyond what waits for a CPU and single slow operations take."""
APART_MIN = 3.0
"""p95 of an interval against its median: those that stood are that much longer."""
FLAT_MAX = 1.2
"""p99 of an interval against its p95: 1.04 to 1.1 in stands of 0.39 s, 1.5 of an exponential tail."""
SLOW_SHARE = (0.05, 0.5)
"""Of the transactions, those that stood: else p95 is not theirs, or the median is."""
INTERVALS_MIN = 0.75
"""Of the intervals, those that look like that."""


@dataclass(frozen=True, kw_only=True)
class RecurringStands:
    """Stands of `length_ms` that take `share` of the clients' time."""

    length_ms: float
    share: float


def stands_by_quantiles(
    tps: Floats, p50_ms: Floats, p95_ms: Floats, p99_ms: Floats, *, clients: int
) -> RecurringStands | None:
    """Return stands that quantiles of each interval show, arrays of shape (buckets,).

    Args:
        tps: transactions a second.
        p50_ms, p95_ms, p99_ms: of the transactions of each interval.
        clients: of the closed loop.
    """
    usable = np.isfinite(p50_ms) & np.isfinite(p95_ms) & np.isfinite(p99_ms) & (np.nan_to_num(tps) > 0)
    rate = mean(tps[usable]) if int(usable.sum()) >= limit.PLATEAU_SAMPLES_MIN else None
    if not rate:
        return None
    usual, late, last = p50_ms[usable], p95_ms[usable], p99_ms[usable]
    alike = (late >= APART_MIN * usual) & (late - usual >= TOGETHER_MS) & (last <= FLAT_MAX * late)
    if float(alike.mean()) < INTERVALS_MIN:
        return None
    each_ms, typical_ms = 1000 * clients / rate, median(usual) or 0.0
    length_ms = (median(late) or 0.0) - typical_ms
    share = 1 - typical_ms / each_ms
    slow = share * each_ms / length_ms
    if share < limit.SHARE_MIN or not SLOW_SHARE[0] <= slow <= SLOW_SHARE[1]:
        return None
    return RecurringStands(length_ms=length_ms, share=share)
