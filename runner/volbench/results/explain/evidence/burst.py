"""Burst: a volume that gave more, and gives a baseline from one second on while the queue stays.

Source of the formulas: Amazon EBS User Guide, gp2: a bucket fills at the baseline's rate and is spent at what the
volume does above its baseline.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from volbench.results.explain import thresholds as limit
from volbench.results.explain.evidence.cliffs import cliffs
from volbench.results.explain.evidence.device import Device, Resource
from volbench.results.explain.evidence.limits import Plateau
from volbench.results.stats.grid import Floats, median

FALL_MAX = 0.67
"""After / before of a fall that ends a burst; less is a wobble."""
AWAIT_RISE_MIN = 1.5
BALANCE_EMPTY_PERCENT = 0.5
COME_BACK_SAMPLES = 3
"""Intervals after a plateau that show whether the volume came back to what it gave before."""


@dataclass(frozen=True, kw_only=True)
class Burst:
    """What the series tell of a bucket. Levels in operations/s or MiB/s, credits in operations or MiB.

    `spent` is what was taken from the bucket within the series: the bucket held at least that.
    `balance_percent` is what the volume said of it after the fall, where it says so.
    """

    resource: Resource
    burst: float
    baseline: float
    exhausted_at_s: float
    index: int
    spent: float
    await_before_ms: float | None
    await_after_ms: float | None
    in_flight_after: float
    balance_percent: float | None = None

    @property
    def refill_s(self) -> float:
        """Time without load until what was spent is there again, at the baseline's rate."""
        return refill_s(self.spent, self.baseline)


def refill_s(credits_missing: float, baseline_per_s: float) -> float:
    """Seconds until a bucket is full again without load."""
    return credits_missing / baseline_per_s if baseline_per_s > 0 else math.inf


def credits_spent(device: Device, resource: Resource, baseline: float) -> float:
    """What was taken above the baseline less what flowed back, summed over buckets; a full bucket takes no more.

    In operations/s or MiB/s times buckets: times the width of a bucket it is credits.
    """
    values = device.carried(resource)
    missing = 0.0
    for value in [] if values is None else values[np.isfinite(values)].tolist():
        missing = max(0.0, missing + value - baseline)
    return missing


def fit_burst(
    t_s: Floats,
    device: Device,
    levels: Sequence[Plateau],
    *,
    balance_percent: Floats | None = None,
) -> Burst | None:
    """The burst that ended within the series, or None. `levels` are the plateaus, those that are limits first.

    It is one when operations (or bytes) fell at a cliff while the queue stayed and the waiting time rose, and a
    plateau follows that nothing speaks against. A load that ends takes its queue with it; a volume that merely got
    slower has no plateau that holds against its queue, unless its own counters tell of an empty bucket.
    """
    for plateau in levels:
        values = device.carried(plateau.resource)
        if values is None or not _may_be_baseline(plateau, balance_percent):
            continue
        for cliff in cliffs(t_s, values):
            if cliff.ratio > FALL_MAX or abs(cliff.index - plateau.first) > 2:
                continue
            burst = _burst(t_s, device, plateau, values, cliff.index, balance_percent)
            if burst is not None:
                return burst
    return None


def _may_be_baseline(plateau: Plateau, balance_percent: Floats | None) -> bool:
    refuted = any(check.holds is False for check in plateau.checks)
    return plateau.is_limit or (not refuted and _empty(plateau.first, balance_percent) is True)


def _empty(index: int, balance_percent: Floats | None) -> bool | None:
    """Whether the volume's own balance was gone from the bucket `index` on; None: it does not say."""
    after = None if balance_percent is None else median(balance_percent[index:])
    return None if after is None else after <= BALANCE_EMPTY_PERCENT


def _came_back(values: Floats, plateau: Plateau, index: int) -> bool:
    """Whether the volume gave as much again after the plateau: a bucket that is empty gives no more under load."""
    before, later = median(values[:index]), values[plateau.last :]
    later = later[np.isfinite(later)]
    return before is not None and len(later) >= COME_BACK_SAMPLES and bool(np.median(later) >= FALL_MAX * before)


def _other_load(device: Device, plateau: Plateau, index: int) -> bool:
    """Whether bytes rose while operations fell, or the other way round: another load, such as a backup's reads."""
    counterpart = device.carried("throughput" if plateau.resource == "iops" else "iops")
    if counterpart is None:
        return False
    before, during = median(counterpart[:index]), median(counterpart[index : plateau.last])
    return before is not None and during is not None and during > before


def _burst(
    t_s: Floats,
    device: Device,
    plateau: Plateau,
    values: Floats,
    index: int,
    balance_percent: Floats | None,
) -> Burst | None:
    if device.in_flight is None or _empty(index, balance_percent) is False:
        return None
    before, after = slice(0, index), slice(index, plateau.last)
    queue = median(device.in_flight[after]) or 0.0
    waits = [None if device.await_ms is None else median(device.await_ms[span]) for span in (before, after)]
    rose = waits[0] is None or waits[1] is None or waits[1] >= AWAIT_RISE_MIN * waits[0]
    if queue < limit.QUEUE_MIN or not rose:
        return None
    width = float(t_s[1] - t_s[0])
    high = values[before][values[before] > plateau.level]
    if not len(high) or _came_back(values, plateau, index) or _other_load(device, plateau, index):
        return None
    served = replace(device, iops=device.served[before], empty_writes=None, mib_per_s=None)
    if plateau.resource == "throughput":
        served = replace(served, mib_per_s=values[before])
    return Burst(
        resource=plateau.resource,
        burst=float(np.quantile(high, limit.LEVEL_QUANTILE)),
        baseline=plateau.level,
        exhausted_at_s=float(t_s[index - 1]),
        index=index,
        spent=credits_spent(served, plateau.resource, plateau.level) * width,
        await_before_ms=waits[0],
        await_after_ms=waits[1],
        in_flight_after=queue,
        balance_percent=None if balance_percent is None else median(balance_percent[index:]),
    )
