"""What CPUs can be of a load at most, by the seconds in which it did most while they were as busy.

A closed loop of N clients at X transactions/s takes N / X for one (Little's law). In the best seconds, at X', a
whole transaction took N / X', what it ran and waited for CPUs among it. Where CPUs were as busy then, with others'
work as well, one takes no longer on and before them in the rest of the step. There, CPUs are at most

    (N / X') / (N / X) = X / X'

of the clients' time. What is there all along does not explain what comes and goes.
"""

from __future__ import annotations

import numpy as np

from volbench.results.explain import thresholds as limit
from volbench.results.explain.evidence.processors import CpuAccount
from volbench.results.stats.grid import Floats, mean

BEST_S = 2.0
"""How long the best time is at least: within one second what was held before it may end at once."""
TRANSACTIONS_MIN = 30.0
"""In it: of 30 that come by chance, 18 % more or fewer come within a standard deviation."""
CLEARLY = 0.5
"""Of the best rate: a load that makes more of it on average varies as loads do."""
AS_BUSY = 0.75
"""Of the CPUs that others have on average: a load that does more takes some of theirs."""


def best_seconds_share(
    tps: Floats | None, account: CpuAccount | None, busy: Floats | None, width_s: float
) -> float | None:
    """Return the most of the clients' time that CPUs can be; None where no such seconds are clearly better.

    Args:
        tps: of a closed loop, shape (buckets,).
        account: who used the CPUs.
        busy: CPU seconds of all, a second, shape (buckets,).
        width_s: of an interval.
    """
    usual = mean(tps)
    if tps is None or account is None or busy is None or not usual:
        return None
    length = max(1, round(BEST_S / width_s))
    foreign = mean(account.foreign) or 0.0
    best = 0.0
    for first in range(len(tps) - length + 1):
        span = slice(first, first + length)
        rate = float(np.mean(tps[span]))
        all_busy, foreign_busy = mean(busy[span]), mean(account.foreign[span])
        if not rate * length * width_s >= TRANSACTIONS_MIN or all_busy is None or foreign_busy is None:
            continue
        if all_busy >= limit.CPU_BUSY_MIN * account.cpus and foreign_busy >= AS_BUSY * foreign:
            best = max(best, rate)
    return usual / best if best and usual <= CLEARLY * best else None
