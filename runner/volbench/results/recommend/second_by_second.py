"""The check of a recorded load's forecast: the load second by second through its limits, as requests queue.

It shares neither formulas nor credits with the forecast. Each second's requests are drawn, and go through the
limits by the virtual scheduling of a GCRA (ITU-T I.371), as a volume meters: with `tat = max(tat, arrival) + cost /
rate`, a request waits until `tat - burst / rate`. What is not served at once is served later, and delays what
follows.
"""

from __future__ import annotations

import numpy as np

from volbench.core.profile.arrays import Floats
from volbench.core.profile.limits import Limits, VolumeLimit
from volbench.results.credits.work import Work
from volbench.results.recommend.lateness import LATE_MAX, PERIOD_S, RateSpread

DAYS_MAX = 14
SEEDS = (1, 2, 3)
_TOLERANCE_S = 1.0
"""Of a limit without credits: requests of one second are taken as spread over it."""


def worst_late_share(limits: Limits, work: Work, spread: RateSpread, slack_s: float, *, seed: int) -> float:
    """Return the share of late requests in the worst period of a load that comes for the second time.

    Args:
        limits: with full buckets at first.
        work: the recording; of a longer one, its last DAYS_MAX days.
        spread: of seconds around its means.
        slack_s: how long a request may wait for the limits.
        seed: of the draws.
    """
    random = np.random.default_rng(seed)
    index = _seconds(work)
    rates = work.iops[index]
    means = random.lognormal(-spread.variance / 2, np.sqrt(spread.variance), len(index)) if spread.variance else 1.0
    drawn = rates * _normalised(np.broadcast_to(means, index.shape), index)
    requests = random.poisson(np.minimum(drawn, 1e9)).astype(np.float64)
    requests[~work.is_known[index]] = 0.0
    waits = np.zeros(2 * len(index))
    for limit in limits.all:
        each = work.demand(limit.charge) / np.where(work.iops > 0, work.iops, 1.0)
        waits = np.maximum(waits, _waits_s(limit, np.tile(requests * each[index], 2)))
    late = waits[len(index) :] > slack_s
    period = (np.arange(len(index)) // PERIOD_S).astype(np.int64)
    done = np.bincount(period, weights=requests)
    slow = np.bincount(period, weights=requests * late)
    busy = done > 0
    return float(np.max(slow[busy] / done[busy], initial=0.0))


def keeps(limits: Limits, work: Work, spread: RateSpread, slack_s: float) -> tuple[bool | None, float]:
    """Return whether no period of any draw has too many late requests, and the median draw's worst share.

    None where the draws disagree.
    """
    shares = [worst_late_share(limits, work, spread, slack_s, seed=seed) for seed in SEEDS]
    is_kept = [share <= LATE_MAX for share in shares]
    return (is_kept[0] if len(set(is_kept)) == 1 else None), float(np.median(shares))


def _seconds(work: Work) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return of each second the interval that it lies in; of a long recording the last days."""
    ends_s = work.ends_s
    seconds = np.arange(max(1, round(float(ends_s[-1])))) + 0.5
    index = np.minimum(np.searchsorted(ends_s, seconds), len(ends_s) - 1)
    return np.asarray(index[-int(DAYS_MAX * 86_400) :], dtype=np.int64)


def _normalised(factors: Floats, index: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Floats:
    """Return factors whose mean over each interval is 1: the recording has its means already."""
    counts, sums = np.bincount(index), np.bincount(index, weights=factors)
    means = sums / np.maximum(counts, 1)
    return np.asarray(factors / np.where(means[index] > 0, means[index], 1.0), dtype=np.float64)


def _waits_s(limit: VolumeLimit, costs: Floats) -> Floats:
    """Return how long the last request of each second waits, shape (seconds,)."""
    arrivals = np.arange(len(costs), dtype=np.float64)
    passed = np.cumsum(costs) / limit.rate_per_s
    before = np.concatenate([[0.0], passed[:-1]])
    tat = passed + np.maximum.accumulate(arrivals - before)
    burst_s = (limit.capacity or 0.0) / limit.rate_per_s + _TOLERANCE_S
    return np.maximum(0.0, tat - burst_s - arrivals)
