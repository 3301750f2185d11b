"""Whether anything tells a volume that takes long for each operation from one that is at a limit.

Of a closed loop as many operations wait all along, and each takes the queue over the rate, whatever makes it
(Little). A meter's rate is even and a volume's is not, as long as the CPUs have time for both; on saturated CPUs
any rate is uneven, and one that rises again is at no other limit. What is left to tell them is a depth that varies,
a time without a queue, a load of another depth, the other direction, or waits that differ by more than those of one
queue do.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from volbench.core.records.named_metrics import Client
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.check.contrast import grows_with_depth
from volbench.results.explain.check.distribution import waits_of_transaction
from volbench.results.explain.check.rebuild import weighted_median
from volbench.results.explain.evidence.device import Device
from volbench.results.explain.evidence.plateau_checks import elasticity
from volbench.results.explain.evidence.size_contrasts import levels_of
from volbench.results.explain.objection import Objection
from volbench.results.explain.wording import number
from volbench.results.stats.grid import Mask, mean, median

BUSY_MIN = 0.9
"""Share of the time in which an operation is in flight: a limit that is not used up holds none back."""
APART = 2.0
"""Squared variation of a transaction's waits: twice that of times by chance, as `rebuild.WAITS_PER_SHAPE` has it.
It was 0.0 to 0.8 in eleven recorded runs of limits and of constant delays, and 3.0 and more in five of slow regions
and of tails, on CPUs that were all busy."""
TIMES_APART = 1.75
"""p95 of the transactions of an interval against their median: less than that CPUs make as well. It was 1.0 to 1.3
at limits and 1.9 to 2.0 in slow regions and tails, with 18 and more waits each."""
_P95 = NormalDist().inv_cdf(0.95)


def undecided_limit(case: Case, inside: Mask) -> Objection | None:
    """Return why a latency all along may as well be a limit; None where evidence tells, or nothing can be said.

    Args:
        case: the step.
        inside: the intervals of the finding, shape (buckets,).
    """
    device = case.waited_device
    if device is None or device.await_ms is None or device.in_flight is None:
        return None
    if not case.cpu_bound or case.exceeded.is_counted or int(inside.sum()) < limit.PLATEAU_SAMPLES_MIN:
        return None
    if case.flushes_all_along and case.waited_direction != "read":
        return None  # writes come as flushes end, which no limit counts
    rate, queue, waits = device.iops[inside], device.in_flight[inside], device.await_ms[inside]
    level, each_ms = weighted_median(rate, queue), median(waits)
    if level is None or each_ms is None or not _is_busy(case.device or device, inside):
        return None
    slope = elasticity(rate, queue) if device.knows_queue else None
    base_ms = case.base_await_ms
    if (
        (slope is not None and slope >= limit.ELASTICITY_FREE)
        or (base_ms is not None and each_ms <= limit.INFLATION_FREE * base_ms)
        or _writes_are_quick(case.device, inside)
        or waits_differ(case, inside)
        or (case.device is not None and grows_with_depth(case.device, inside, [*levels_of(case.size_contrasts)]))
    ):
        return None
    text = (
        f"about {number(median(queue) or 0.0)} operations are in flight all along, and on saturated CPUs any rate"
        f" is uneven: a limit of {number(level)}/s makes the same waits of {number(each_ms)} ms, and no figure"
        " tells; a load with half as many would (a limit keeps its rate)"
    )
    claimed, recorded = limit.ELASTICITY_FREE, 0.0 if slope is None else slope
    return Objection(law="consistency", text=text, claimed=claimed, recorded=recorded, refutes=False)


def _is_busy(device: Device, inside: Mask) -> bool:
    busy = device.util if device.util is not None else device.in_flight
    share = None if busy is None else median(np.minimum(1.0, busy[inside]))
    return share is not None and share >= BUSY_MIN


def _writes_are_quick(device: Device | None, inside: Mask) -> bool:
    """Whether writes pass while reads wait; the reverse says nothing: writes come many at a time, and wait so."""
    if device is None or device.reads is None or device.writes is None:
        return False
    reads_ms, writes_ms = (
        None if waits is None else median(waits[inside]) for waits in (device.r_await_ms, device.w_await_ms)
    )
    reads, writes = mean(device.reads[inside]) or 0.0, mean(device.writes[inside]) or 0.0
    if not reads_ms or not writes_ms or writes < limit.DIRECTION_SHARE_MIN * (reads + writes):
        return False
    return reads_ms >= limit.INFLATION_CAPPED * writes_ms


def waits_differ(case: Case, inside: Mask) -> bool:
    """Whether a transaction's waits take times that differ by more than those of one queue.

    Of k waits, one after the other, the squared variation of the sum is that of one over k; that of the sum follows
    from p95 and the median of an interval, by a logarithm that is normal. All that wait in a queue wait for about
    as long, whoever makes it; of a volume a part of whose operations is slow, few wait long.

    Args:
        case: the step.
        inside: the intervals of the finding, shape (buckets,).
    """
    p50, p95, waits = (
        case.at(Client.latency_ms_p50),
        case.at(Client.latency_ms_p95),
        waits_of_transaction(case, inside),
    )
    if p50 is None or p95 is None or waits is None:
        return False
    times = median((p95 / np.where(p50 > 0, p50, np.nan))[inside])
    return times is not None and times >= TIMES_APART and waits * squared_variation(times) >= APART


def squared_variation(times: float) -> float:
    """Variance over squared mean of what has a normal logarithm and a p95 of so many times its median."""
    return math.expm1((math.log(times) / _P95) ** 2)
