"""What stops the transactions of one interval, by how a cause's waits come.

All follow from counts and constants of the kernel. Each is a law of its own: a control group lets operations and
CPU time through in slices of time, a lost packet is sent again after a timeout, a server or a way that stands still
holds every client once, and a lock is given in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from volbench.core.records.named_metrics import CgroupCpu, Client, Innodb, NamedMetric
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.check.claimed_times import at_device_ms, lock_seconds
from volbench.results.explain.check.interruptions import waiting_in_turn, with_common_stops, with_random_stops
from volbench.results.explain.check.rebuild import Level
from volbench.results.explain.evidence.network import RESEND_S, network_account
from volbench.results.explain.quantile import Waits
from volbench.results.stats.grid import Floats, Mask

SLICE_S = 0.1
"""In which a control group counts operations against their limit: DFL_THROTL_SLICE_HD, HZ / 10, in Linux'
block/blk-throttle.c."""
CPU_PERIOD_S = 0.1
"""Of a CPU quota: the kernel's default (Documentation/scheduler/sched-bwc.rst), which Docker and Kubernetes
keep."""
LOCKED_MIN = 0.05
"""Of a transaction's time: with less, the wait for a lock is no piece of it."""
RESENT_MIN = 0.1
"""Of the clients' time in retransmission timeouts: with less, what stops the way is none."""


@dataclass(frozen=True, kw_only=True)
class EndedTransactions:
    """The transactions that ended in one interval.

    Args:
        number: of the interval.
        level: their mean time, and how it varies without what stops them.
        claimed_ms: of that time, what the finding claims.
        intervals: of the finding, shape (buckets,).
    """

    number: int
    level: Level
    claimed_ms: float
    intervals: Mask


def stopped(case: Case, intervals: Sequence[EndedTransactions], waits: Waits) -> Iterator[Level]:
    """Yield transactions by how long they were stopped.

    Args:
        case: the step.
        intervals: of a finding.
        waits: how the waits of its cause come.
    """
    by_kind = _BY_KIND.get(waits)
    if by_kind is None or case.rate is not None or not case.threads:
        yield from (interval.level for interval in intervals)
        return
    yield from by_kind(case, intervals, case.threads)


def _slices(case: Case, intervals: Sequence[EndedTransactions], _clients: int) -> Iterator[Level]:
    """A limit lets a slice's operations through at once; then all clients wait for the next slice.

    Where most of the time is above the devices, slice follows slice: what lasts T meets T over a slice of them.
    Where less is, the limit was met for a part of the interval, and waits are whole slices.
    """
    at_device, slice_ms, slower = at_device_ms(case), 1000 * SLICE_S, _slower(case, intervals)
    for interval in intervals:
        level = interval.level
        above_ms = max(0.0, interval.claimed_ms - float(at_device[interval.number]))
        above_ms = min(above_ms, float(slower[interval.number]) * level.mean_ms)
        stops = (level.mean_ms if above_ms >= level.mean_ms / 2 else above_ms) / slice_ms
        yield from (with_common_stops(level, stops=stops, length_ms=above_ms / stops) if stops > 0 else [level])


def _slower(case: Case, intervals: Sequence[EndedTransactions]) -> Floats:
    """By how much each interval is slower than the fastest one of the step, as a share; 1 where all are alike.

    Time in stops is lost throughput.
    """
    tps = case.at(Client.tps)
    everywhere = np.ones(len(case.grid))
    if tps is None or not intervals:
        return everywhere
    used = np.nan_to_num(tps[intervals[0].intervals])
    fastest = float(np.nanmax(tps))
    if float(used.min()) > fastest / 2:
        return everywhere
    return np.asarray(1 - np.nan_to_num(tps) / fastest)


def _quota(case: Case, intervals: Sequence[EndedTransactions], clients: int) -> Iterator[Level]:
    """A CPU quota that is used up stops all threads of a group until its next period."""
    ratio, withheld_s = (
        _most_of_groups(case, CgroupCpu.throttled_ratio),
        _most_of_groups(case, CgroupCpu.throttled_s_per_s),
    )
    for interval in intervals:
        number, level = interval.number, interval.level
        per_s = float(ratio[number]) / CPU_PERIOD_S
        if per_s <= 0 or not case.cpus:
            yield level
            continue
        length_s = min(CPU_PERIOD_S, float(withheld_s[number]) / per_s / case.cpus)
        stops = clients * per_s * case.grid.width_s / level.transactions
        yield from with_common_stops(level, stops=stops, length_ms=1000 * length_s)


def _most_of_groups(case: Case, metric: NamedMetric) -> Floats:
    """A figure of the control group that has most of it, by interval; 0 where none is read."""
    most = np.zeros(len(case.grid))
    for name in case.grid.entities(metric.source, metric.name):
        column = case.at(metric, name)
        most = most if column is None else np.maximum(most, np.nan_to_num(column))
    return most


def _in_turn(case: Case, intervals: Sequence[EndedTransactions], clients: int) -> Iterator[Level]:
    """A lock is given in turn; of row locks the server counts how many transactions wait for one."""
    tps, locked = case.at(Client.tps), lock_seconds(case)
    used = intervals[0].intervals if intervals else np.zeros(len(case.grid), dtype=np.bool_)
    if tps is None or locked is None:
        yield from (interval.level for interval in intervals)
        return
    ended, moving = float(np.nansum(tps[used])), float((np.nan_to_num(tps[used]) > 0).sum())
    locked_share = min(1.0, float(np.nansum(locked[used])) / (clients * moving)) if moving else 0.0
    waits = case.at(Innodb.row_lock_waits_per_s)
    number = 0.0 if waits is None else float(np.nansum(waits[used]))
    share = min(1.0, number / ended) if number > 0 and _is_of_rows(case, used) else 1.0
    for interval in intervals:
        level = interval.level
        waited_ms = locked_share * level.mean_ms if locked_share >= LOCKED_MIN else 0.0
        yield from waiting_in_turn(level, clients=clients, waited_ms=waited_ms, waiting_share=share)


def _is_of_rows(case: Case, used: Mask) -> bool:
    rows = None if case.budget is None else case.budget.seconds.get("row_locks")
    return rows is not None and float(np.nansum(rows[used])) > 0


def _stands(case: Case, intervals: Sequence[EndedTransactions], clients: int) -> Iterator[Level]:
    """A stand holds each client once; transactions that met none take as long as without stands."""
    width_s = case.grid.width_s
    stands = [stand for stand in case.client_stands if intervals and intervals[0].intervals[stand.last]]
    moving_s = sum(float(interval.intervals.sum()) for interval in intervals[:1]) * width_s
    moving_s -= sum(stand.length_s for stand in stands)
    if not stands or moving_s <= 0:
        yield from (interval.level for interval in intervals)
        return
    usual_ms = 1000 * clients * moving_s / sum(interval.level.transactions for interval in intervals)
    for interval in intervals:
        level, ending = interval.level, [stand for stand in stands if stand.last == interval.number]
        standing = min(level.transactions, float(clients * len(ending)))
        yield replace(level, transactions=level.transactions - standing, mean_ms=usual_ms)
        for stand in ending:
            yield replace(level, transactions=standing / len(ending), mean_ms=usual_ms + 1000 * stand.length_s)


def _stalls_of_way(case: Case, intervals: Sequence[EndedTransactions], clients: int) -> Iterator[Level]:
    """Lost packets stop connections one by one for a timeout, a pause of the way stops all of them."""
    account = network_account(case.grid, threads=case.threads, rate=case.rate)
    if account is None:
        yield from (interval.level for interval in intervals)
        return
    longest_ms = np.zeros(len(case.grid))
    longest_ms[account.counted] = account.longest_ms
    resending = 0.0 if account.resending is None else float(account.resending.mean())
    is_loss = resending >= RESENT_MIN * float(account.clients.mean())
    for interval in intervals:
        level, longest = interval.level, float(longest_ms[interval.number])
        if is_loss:
            stops = resending / RESEND_S * case.grid.width_s / level.transactions
            yield from with_random_stops(level, stops=stops, length_ms=1000 * RESEND_S)
        elif longest >= limit.RETRANSMISSION_MS:
            yield from with_common_stops(level, stops=clients / level.transactions, length_ms=longest)
        else:
            yield level


_BY_KIND: Mapping[Waits, Callable[[Case, Sequence[EndedTransactions], int], Iterator[Level]]] = {
    "slices": _slices,
    "queue for CPUs": _quota,
    "in turn": _in_turn,
    "stands": _stands,
    "stalls of the way": _stalls_of_way,
}
