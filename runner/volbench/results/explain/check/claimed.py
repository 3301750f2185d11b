"""The distribution of a step's transactions as one finding claims it, and the recorded one.

`distribution` knows nothing of a cause. Here a finding says how even the waits of its cause are, and which seconds
of sessions it makes longer: in its time transactions take longer as those seconds do, outside of it they are alike.
Clients that come at a rate of their own also wait for those before them: as long as the queue that begins in its
time has lasted, in the order of their coming. No recorded quantile is part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from volbench.core.records.named_metrics import Client, Tasks
from volbench.results.explain.case import Case
from volbench.results.explain.check.distribution import operations_of, recorded_ms, seconds_of
from volbench.results.explain.check.rebuild import EVEN, Level, little_ms, rebuilt_quantile
from volbench.results.explain.evidence.processors import CELL
from volbench.results.explain.quantile import Quantile, Waits, WaitTime
from volbench.results.stats.grid import Floats, Mask, true_runs

QUEUE_MIN = 0.1
"""Of an interval: what is sampled once in it says nothing of a queue that arrivals of less time make."""
_MOMENTS = (0.125, 0.375, 0.625, 0.875)
"""Of an interval in which a queue grows or shrinks."""
_LOCKS = ("row_locks", "table_locks")


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
    case: Case, inside: Mask, level: float, *, waits: Waits, wait_time: WaitTime
) -> Quantile | None:
    """A quantile as recorded, and as the claim of a finding makes it; None where either is not known.

    Args:
        case: the step.
        inside: intervals of the finding, shape (buckets,).
        level: 0.95 for p95.
        waits: how even the waits of its cause are.
        wait_time: the seconds that its cause makes longer.
    """
    recorded = recorded_ms(case, level)
    if inside.all() or not inside.any():
        inside = np.ones(len(case.grid), dtype=np.bool_)
    phases = _phases(case, inside)
    if recorded is None or not phases:
        return None
    queue = _QueueTimes.of(case, inside)
    levels = []
    for phase in phases:
        is_claimed = bool(inside[phase.intervals].all())
        times_ms = _times_ms(case, phase, wait_time) if is_claimed else np.full(len(case.grid), phase.mean_ms)
        for number in np.flatnonzero(phase.intervals):
            levels += [*_levels_of(case, phase, int(number), times_ms, queue, waits if is_claimed else "counted")]
    rebuilt = rebuilt_quantile(_together(levels), level)
    return None if rebuilt is None else Quantile(recorded_ms=recorded, rebuilt_ms=rebuilt)


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
    """Mean time of a transaction by Little's law, or that of its statements with CPUs and their queue."""
    if case.rate is None and case.threads:
        return little_ms(case.threads, tps[intervals])
    if case.budget is None:
        return case.latency_ms.get("latency_ms_mean")
    busy = seconds_of(case, Tasks.run_delay_s_per_s, intervals) + seconds_of(case, Tasks.cpus_used, intervals)
    return 1000 * (float(np.nansum(case.budget.statement_s[intervals])) + busy) / ended


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
    """Intervals with equal transactions as one level, so that a step of hours takes no longer."""
    transactions: dict[tuple[float, float, float], float] = {}
    for level in levels:
        key = (level.mean_ms, level.waits, level.queued_share)
        transactions[key] = transactions.get(key, 0.0) + level.transactions
    return [
        Level(transactions=ended, mean_ms=mean_ms, waits=waits, queued_share=queued)
        for (mean_ms, waits, queued), ended in transactions.items()
    ]


def _times_ms(case: Case, phase: _Phase, wait_time: WaitTime) -> Floats:
    """Time of a transaction in each interval, as the seconds of `wait_time` vary, with the phase's mean."""
    times_ms = np.full(len(case.grid), phase.mean_ms)
    tps, seconds = case.at(Client.tps), _seconds_of_claim(case, wait_time)
    if tps is None or seconds is None:
        return times_ms
    with_seconds = phase.intervals & np.isfinite(seconds) & (np.nan_to_num(tps) > 0)
    seconds_sum = float(seconds[with_seconds].sum())
    if seconds_sum <= 0:
        return times_ms
    per_transaction_s = seconds_sum / float(tps[with_seconds].sum())
    claimed_ms = min(phase.mean_ms, 1000 * per_transaction_s)
    times_ms[with_seconds] += claimed_ms * (seconds[with_seconds] / tps[with_seconds] / per_transaction_s - 1)
    return times_ms


def _seconds_of_claim(case: Case, wait_time: WaitTime) -> Floats | None:
    """Seconds a second of sessions, by interval; None where nobody counts them."""
    delay, budget = case.at(Tasks.run_delay_s_per_s, CELL), case.budget
    if wait_time == "CPUs":
        return delay
    if not wait_time or budget is None:
        return None
    locks = sum((np.nan_to_num(budget.seconds[name]) for name in _LOCKS if name in budget.seconds), np.zeros(1))
    if wait_time == "locks":
        return np.broadcast_to(locks, budget.statement_s.shape)
    if wait_time == "statements":
        return budget.statement_s
    queued = 0.0 if delay is None else np.nan_to_num(delay)
    return np.asarray(np.maximum(0.0, budget.statement_s - locks - queued))


def _levels_of(
    case: Case, phase: _Phase, number: int, times_ms: Floats, queue: _QueueTimes, waits: Waits
) -> Iterator[Level]:
    """Yield the transactions of one interval: those of a queue as old as it is, or all alike."""
    tps = case.at(Client.tps)
    transactions = 0.0 if tps is None else float(np.nan_to_num(tps[number])) * case.grid.width_s
    if transactions <= 0:
        return
    ages_ms = queue.ages_ms(number)
    for age_ms in ages_ms:
        yield Level(transactions=transactions / len(ages_ms), mean_ms=age_ms, waits=EVEN)
    if not ages_ms:
        queued_share = min(1.0, phase.queued_ms / phase.mean_ms)
        yield Level(
            transactions=transactions,
            mean_ms=float(times_ms[number]),
            waits=EVEN if waits == "even" else phase.waits,
            queued_share=1.0 if waits == "queue for CPUs" else queued_share,
        )


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

    def ages_ms(self, number: int) -> Sequence[float]:
        """Of some transactions of an interval, evenly; empty where none queued."""
        if not self.counts[number]:
            return ()
        begin_s, end_s = float(self.before_s[number]), float(self.after_s[number])
        return [1000 * (begin_s + moment * (end_s - begin_s)) for moment in _MOMENTS]
