"""The distribution of a step's transactions as one finding claims it, and the recorded one.

`distribution` knows nothing of a cause. Here a finding says how its waits come (`stopped`), and which seconds of
sessions it makes longer (`claimed_times`): in its time transactions take longer as those seconds do, outside of it
they are alike. Clients that come at a rate of their own also wait for those before them: as long as the queue that
begins in its time has lasted, in the order of their coming. No recorded quantile is part of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from volbench.core.records.named_metrics import Client, Innodb, Tasks
from volbench.results.explain.case import Case
from volbench.results.explain.check.claimed_times import distance_s, times_ms
from volbench.results.explain.check.distribution import operations_of, recorded_ms, seconds_of
from volbench.results.explain.check.rebuild import (
    CPU_WAITS,
    EVEN,
    Level,
    little_ms,
    rebuilt_quantile,
    variation_of_waits,
)
from volbench.results.explain.check.stopped import EndedTransactions, stopped
from volbench.results.explain.check.variation import operation_variation, waits_variation
from volbench.results.explain.evidence.layers import server_flow
from volbench.results.explain.quantile import Quantile, Waits, WaitTime
from volbench.results.stats.grid import Floats, Mask, mean, true_runs

QUEUE_MIN = 0.1
"""Of an interval: what is sampled once in it says nothing of a queue that arrivals of less time make."""
FILE_WAITS_MIN = 0.3
"""Of a transaction's time: with less in file waits, these do not say how it varies."""
NEAR = 0.01
"""Of a time and of its variation: what differs by less is the same level."""
_MOMENTS = (0.125, 0.375, 0.625, 0.875)
"""Of an interval in which a queue grows or shrinks."""
_ALIKE: frozenset[Waits] = frozenset({"even", "slices", "stalls of the way"})


@dataclass(frozen=True, kw_only=True)
class _Phase:
    """Intervals in which transactions are alike, shape (buckets,): how many ended, and how long one took.

    Args:
        intervals: of the phase.
        ended_per_s: summed over its intervals.
        mean_ms: of a transaction.
        queued_ms: of it, in the queue for CPUs.
        waits: how often one waits for files.
    """

    intervals: Mask
    ended_per_s: float
    mean_ms: float
    queued_ms: float
    waits: float


def claimed_quantile(
    case: Case, inside: Mask, level: float, *, waits: Waits, wait_time: WaitTime, share: float | None = None
) -> Quantile | None:
    """A quantile as recorded, and as the claim of a finding makes it; None where either is not known.

    Args:
        case: the step.
        inside: intervals of the finding, shape (buckets,).
        level: 0.95 for p95.
        waits: how the waits of its cause come.
        wait_time: the seconds that its cause makes longer.
        share: of statement time that it explains, where its waits are even in that share only.
    """
    recorded = recorded_ms(case, level)
    if inside.all() or not inside.any():
        inside = np.ones(len(case.grid), dtype=np.bool_)
    phases = _phases(case, inside)
    if recorded is None or not phases:
        return None
    queue = _QueueTimes.of(case, inside)
    levels: list[Level] = []
    for phase in phases:
        if bool(inside[phase.intervals].all()):
            levels += _claimed_levels(case, phase, queue, waits, wait_time, share)
        else:
            variation = _variation(case, phase, "counted", share)
            alike_ms = np.full(len(case.grid), phase.mean_ms)
            levels += [
                level
                for interval in _intervals(case, phase, alike_ms, 0 * alike_ms, variation)
                for level in queue.levels(interval)
            ]
    rebuilt = rebuilt_quantile(_together(levels), level)
    return None if rebuilt is None else Quantile(recorded_ms=recorded, rebuilt_ms=rebuilt)


def _claimed_levels(
    case: Case, phase: _Phase, queue: _QueueTimes, waits: Waits, wait_time: WaitTime, share: float | None
) -> Iterator[Level]:
    each_ms, claimed_ms = times_ms(case, phase.intervals, phase.mean_ms, wait_time)
    variation = _variation(case, phase, waits, share)
    intervals = list(_intervals(case, phase, each_ms, claimed_ms, variation))
    yield from stopped(case, [interval for interval in intervals if not queue.counts[interval.number]], waits)
    for interval in intervals:
        if queue.counts[interval.number]:
            yield from queue.levels(interval)


def _intervals(
    case: Case, phase: _Phase, each_ms: Floats, claimed_ms: Floats, variation: float
) -> Iterator[EndedTransactions]:
    """Yield the intervals of a phase in which something ended."""
    tps = case.at(Client.tps)
    if tps is None:
        return
    for number in np.flatnonzero(phase.intervals & (np.nan_to_num(tps) > 0)):
        level = Level(
            transactions=float(tps[number]) * case.grid.width_s,
            mean_ms=float(each_ms[number]),
            variation=variation,
        )
        yield EndedTransactions(
            number=int(number),
            level=level,
            claimed_ms=float(claimed_ms[number]),
            intervals=phase.intervals,
        )


def _variation(case: Case, phase: _Phase, waits: Waits, share: float | None) -> float:
    """Squared variation of a transaction's time around the mean of its interval, without stops and turns."""
    queued_share = min(1.0, phase.queued_ms / phase.mean_ms)
    if waits == "queue for CPUs":
        return 1 / CPU_WAITS
    if waits in _ALIKE:
        return variation_of_waits(EVEN, queued_share)
    if waits == "even in its share":
        even = min(1.0, share or 0.0)
        return even**2 * variation_of_waits(EVEN) + (1 - even) ** 2 * variation_of_waits(phase.waits)
    of_waits = min(variation_of_waits(phase.waits), _of_file_waits(case, phase))
    return queued_share**2 / CPU_WAITS + (1 - queued_share) ** 2 * of_waits


def _of_file_waits(case: Case, phase: _Phase) -> float:
    """Squared variation by the reads and syncs that are counted; infinite where they say nothing."""
    figures = []
    for operation in ("read", "sync"):
        flow = server_flow(case.grid, operation)
        if flow is None or flow.in_flight is None:
            figures.append((0.0, 0.0, 1.0))
            continue
        rate, seconds = flow.rate[phase.intervals], flow.in_flight[phase.intervals]
        width_s = case.grid.width_s
        figures.append(
            (
                float(np.nansum(rate)) / phase.ended_per_s,
                1000 * float(np.nansum(seconds)) / phase.ended_per_s,
                operation_variation(rate * width_s, seconds * width_s),
            )
        )
    (reads, read_ms, read), (syncs, sync_ms, sync) = figures
    if reads + syncs <= 1 or read_ms + sync_ms < FILE_WAITS_MIN * phase.mean_ms:
        return math.inf
    miss_ratio = mean(case.at(Innodb.buffer_pool_miss_ratio)) or 0.0
    variation = waits_variation(reads, syncs, read_ms, sync_ms, read=read, sync=sync, miss_ratio=miss_ratio)
    return math.inf if variation is None else max(variation, variation_of_waits(EVEN))


def _phases(case: Case, inside: Mask) -> list[_Phase]:
    """The finding's time and the rest; empty where nothing ended in one of them, or its mean time is not known.

    Pieces overlap: what waits for a CPU is in a statement, or between two. So they are not more than the clients'
    mean time of the whole step.
    """
    tps = case.at(Client.tps)
    if tps is None:
        return []
    phases = []
    for intervals in (inside, ~inside) if not inside.all() else (inside,):
        ended = float(np.nansum(tps[intervals]))
        mean_ms = _mean_ms(case, tps, intervals, ended) if ended > 0 else None
        if not mean_ms:
            return []
        phases.append(
            _Phase(
                intervals=intervals,
                ended_per_s=ended,
                mean_ms=mean_ms,
                queued_ms=1000 * seconds_of(case, Tasks.run_delay_s_per_s, intervals) / ended,
                waits=operations_of(case, intervals) / ended,
            )
        )
    return _no_longer_than_clients(case, phases)


def _mean_ms(case: Case, tps: Floats, intervals: Mask, ended: float) -> float | None:
    """Mean time of a transaction by Little's law, or that of its statements with CPUs, their queue and the way."""
    if case.rate is None and case.threads:
        return little_ms(case.threads, tps[intervals])
    if case.budget is None:
        return case.latency_ms.get("latency_ms_mean")
    busy = seconds_of(case, Tasks.run_delay_s_per_s, intervals) + seconds_of(case, Tasks.cpus_used, intervals)
    distance = distance_s(case)
    on_the_way = 0.0 if distance is None else float(np.nansum(distance[intervals]))
    return 1000 * (float(np.nansum(case.budget.statement_s[intervals])) + busy + on_the_way) / ended


def _no_longer_than_clients(case: Case, phases: list[_Phase]) -> list[_Phase]:
    whole_ms = case.latency_ms.get("latency_ms_mean")
    ended = sum(phase.ended_per_s for phase in phases)
    if whole_ms is None or not ended:
        return phases
    if whole_ms <= 0:  # what took no time has no p95
        return []
    factor = min(1.0, whole_ms * ended / sum(phase.ended_per_s * phase.mean_ms for phase in phases))
    return [replace(phase, mean_ms=factor * phase.mean_ms) for phase in phases]


def _together(levels: Sequence[Level]) -> list[Level]:
    """Transactions of several intervals that differ by less than NEAR as one level.

    A step of hours takes no longer than one of seconds.
    """
    alike: dict[tuple[int, int], list[Level]] = {}
    for level in levels:
        key = (_bin(level.mean_ms), _bin(level.variation))
        alike.setdefault(key, []).append(level)
    return [
        Level(
            transactions=sum(level.transactions for level in equal),
            mean_ms=equal[0].mean_ms,
            variation=equal[0].variation,
        )
        for equal in alike.values()
    ]


def _bin(value: float) -> int:
    return round(math.log(max(value, math.ulp(0.0))) / NEAR)


@dataclass(frozen=True, kw_only=True)
class _QueueTimes:
    """Seconds that clients of a rate of their own have waited when they are done, where a queue was long.

    Args:
        before_s, after_s: at the begin and the end of each interval, shape (buckets,).
        counts: intervals in which it is part of the claim, shape (buckets,).

    All threads are busy while others queue. In the order of their coming, who is done came when those who now wait,
    or are served, began to come: their number over the rate ago.
    """

    before_s: Floats
    after_s: Floats
    counts: Mask

    @classmethod
    def of(cls, case: Case, inside: Mask) -> _QueueTimes:
        queue = case.at(Client.queue_length)
        if queue is None or not case.rate or not case.threads:
            nothing = np.zeros(len(case.grid))
            return cls(before_s=nothing, after_s=nothing, counts=np.zeros(len(case.grid), dtype=np.bool_))
        after = np.nan_to_num(queue)
        before = np.concatenate([after[:1], after[:-1]])
        is_long = np.maximum(before, after) / case.rate > QUEUE_MIN * case.grid.width_s
        counts = np.zeros(len(case.grid), dtype=np.bool_)
        for first, end in true_runs(is_long):
            counts[first:end] = bool(inside[first:end].any())
        served = case.threads
        return cls(before_s=(before + served) / case.rate, after_s=(after + served) / case.rate, counts=counts)

    def levels(self, interval: EndedTransactions) -> list[Level]:
        """Transactions of an interval as old as the queue is, or as they are where none queued."""
        number, level = interval.number, interval.level
        if not self.counts[number]:
            return [level]
        begin_s, end_s = float(self.before_s[number]), float(self.after_s[number])
        return [
            Level(
                transactions=level.transactions / len(_MOMENTS),
                mean_ms=1000 * (begin_s + moment * (end_s - begin_s)),
                variation=variation_of_waits(EVEN),
            )
            for moment in _MOMENTS
        ]
