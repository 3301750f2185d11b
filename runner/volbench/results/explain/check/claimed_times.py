"""How long transactions took in each interval, and how much of that a finding claims: Little's law by interval.

Of N clients that ask again at once, X transactions a second take N / X on average. A server counts waits when they
end, so that one second has another second's waits: sums over a finding's time are right, seconds are not. So how
much a finding claims comes from what was counted over its time, and how it varies between seconds from N / X less
what was spent on CPUs, before them and on locks, which tasks and sessions count while it passes.
"""

from __future__ import annotations

import numpy as np

from volbench.core.records.named_metrics import Client, Diskstats, NamedMetric, PerformanceSchema, Tasks
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.layers import Operation, server_flow
from volbench.results.explain.evidence.network import network_account
from volbench.results.explain.evidence.processors import CELL
from volbench.results.explain.quantile import WaitTime
from volbench.results.stats.grid import Floats, Mask

LOCKS = ("row_locks", "table_locks")
_AT_DEVICE: dict[Operation, NamedMetric] = {"read": Diskstats.r_await_ms, "sync": Diskstats.w_await_ms}


def little_by_interval_ms(clients: int, tps: Floats, width_s: float) -> Floats:
    """Return the mean time of a transaction in each interval, NaN where none ended and none follows.

    Intervals in which fewer than N end are taken together until N have ended, or one with as many follows: each
    client has ended once by then. What ended after intervals without any has waited in them.

    Args:
        clients: N, that ask again at once.
        tps: transactions a second, shape (buckets,).
        width_s: of an interval.
    """
    ended, times_ms = np.nan_to_num(tps) * width_s, np.full(len(tps), np.nan)
    first = 0
    while first < len(ended):
        end, total = first + 1, float(ended[first])
        while end < len(ended) and total < clients and (total == 0 or ended[end] < clients):
            total += float(ended[end])
            end += 1
        if total > 0:
            times_ms[first:end] = 1000 * clients * (end - first) * width_s / total
        first = end
    return times_ms


def times_ms(case: Case, intervals: Mask, mean_ms: float, wait_time: WaitTime) -> tuple[Floats, Floats]:
    """Return the time of a transaction in each interval, and how much of it a finding claims.

    What it does not claim is alike in all intervals, and their mean is the one that is given.

    Args:
        case: the step.
        intervals: of the finding, shape (buckets,).
        mean_ms: of a transaction over these intervals.
        wait_time: the seconds that its cause makes longer.
    """
    tps, seconds = case.at(Client.tps), seconds_of_claim(case, wait_time)
    nothing = np.zeros(len(case.grid))
    if tps is None or seconds is None:
        return nothing + mean_ms, nothing
    tps = np.nan_to_num(tps)
    used = intervals & (tps > 0) & np.isfinite(seconds)
    counted_s = float(np.nansum(seconds[intervals]))
    if counted_s <= 0 or not used.any():
        return nothing + mean_ms, nothing
    each_ms = nothing.copy()
    if case.rate is None and case.threads:
        each_ms[used] = _left_ms(case, wait_time)[used]
        average_ms = float(np.average(each_ms[used], weights=tps[used]))
        most_ms = 1000 * counted_s / float(tps[used].sum())
    else:
        each_ms[used] = 1000 * seconds[used] / tps[used]
        average_ms, most_ms = float(np.average(each_ms[used], weights=tps[used])), mean_ms
    if average_ms <= 0:
        return nothing + mean_ms, nothing
    claimed_ms = each_ms * min(1.0, most_ms / average_ms, mean_ms / average_ms)
    remaining_ms = max(0.0, mean_ms - float(np.average(claimed_ms[used], weights=tps[used])))
    return np.where(used, remaining_ms + claimed_ms, mean_ms), claimed_ms


def _left_ms(case: Case, wait_time: WaitTime) -> Floats:
    """Return what the clients' time leaves for the claim, in ms of a transaction, shape (buckets,)."""
    tps = case.at(Client.tps)
    if tps is None or not case.threads:
        return np.zeros(len(case.grid))
    total_ms = np.nan_to_num(little_by_interval_ms(case.threads, tps, case.grid.width_s))
    queued_ms, on_cpu_ms, locked_ms, in_statements_ms = (
        _each_ms(case, seconds, tps)
        for seconds in (
            case.at(Tasks.run_delay_s_per_s, CELL),
            case.at(Tasks.cpus_used, CELL),
            lock_seconds(case),
            case.at(PerformanceSchema.statement_s_per_s),
        )
    )
    if wait_time == "CPUs":
        return np.minimum(total_ms, queued_ms)
    spent_ms: dict[WaitTime, Floats] = {
        "between statements": in_statements_ms,
        "locks": queued_ms + on_cpu_ms,
        "storage": queued_ms + on_cpu_ms + locked_ms,
    }
    return np.asarray(np.maximum(0.0, total_ms - spent_ms.get(wait_time, np.zeros(len(case.grid)))))


def _each_ms(case: Case, seconds: Floats | None, tps: Floats) -> Floats:
    """Return ms of a transaction in each interval, of seconds a second; 0 where nobody counts them."""
    counted_s, ended = np.nan_to_num(_zeros_if_none(case, seconds)), np.nan_to_num(tps)
    return np.asarray(1000 * np.divide(counted_s, ended, out=np.zeros(len(ended)), where=ended > 0))


def _zeros_if_none(case: Case, column: Floats | None) -> Floats:
    return np.zeros(len(case.grid)) if column is None else column


def lock_seconds(case: Case) -> Floats | None:
    """Return seconds a second of sessions that waited for locks; None where nobody counts them."""
    budget = case.budget
    columns = [] if budget is None else [budget.seconds[name] for name in LOCKS if name in budget.seconds]
    return np.asarray(sum(np.nan_to_num(column) for column in columns)) if columns else None


def seconds_of_claim(case: Case, wait_time: WaitTime) -> Floats | None:
    """Return seconds a second of sessions that the cause makes longer, by interval; None: nobody counts them."""
    delay, budget = case.at(Tasks.run_delay_s_per_s, CELL), case.budget
    if wait_time == "CPUs":
        return delay
    if not wait_time or budget is None:
        return None
    if wait_time == "between statements":
        return _between_statements_s(case)
    locks = _zeros_if_none(case, lock_seconds(case))
    if wait_time == "locks":
        return locks
    if wait_time == "statements":
        return budget.statement_s
    return np.asarray(np.maximum(0.0, budget.statement_s - locks - np.nan_to_num(_zeros_if_none(case, delay))))


def _between_statements_s(case: Case) -> Floats | None:
    """Return clients outside of statements; of a load at a rate of its own, those that the distance holds."""
    if case.rate is None:
        in_statements = case.at(PerformanceSchema.statement_s_per_s)
        return None if in_statements is None or not case.threads else np.maximum(0.0, case.threads - in_statements)
    return distance_s(case)


def distance_s(case: Case) -> Floats | None:
    """Return clients that are on the way to the server and back (Little); None: no round trip was measured."""
    account = network_account(case.grid, threads=case.threads, rate=case.rate)
    if account is None:
        return None
    clients = np.zeros(len(case.grid))
    clients[account.counted] = account.distance
    return clients


def at_device_ms(case: Case) -> Floats:
    """Return what the files' reads and syncs of a transaction took at the fastest device below them, by interval.

    Disks of a stack count an operation each, and time above the lowest one in the upper ones.
    """
    tps, total_ms = case.at(Client.tps), np.zeros(len(case.grid))
    if tps is None:
        return total_ms
    for operation, metric in _AT_DEVICE.items():
        flow = server_flow(case.grid, operation)
        columns = [case.at(metric, name) for name in case.grid.entities(metric.source, metric.name)]
        awaits_ms = [np.where(column > 0, column, np.inf) for column in columns if column is not None]
        if flow is not None and awaits_ms:
            each_ms = np.min(awaits_ms, axis=0)
            total_ms += np.nan_to_num(flow.rate) * np.where(np.isfinite(each_ms), each_ms, 0.0)
    return np.asarray(np.divide(total_ms, tps, out=np.zeros_like(total_ms), where=np.nan_to_num(tps) > 0))
