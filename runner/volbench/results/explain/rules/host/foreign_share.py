"""The part of the latency that others' I/O explains, and the part of the device that they have."""

from __future__ import annotations

import numpy as np

from volbench.results.explain.case import Case
from volbench.results.explain.evidence.foreign import (
    ForeignFlow,
)
from volbench.results.explain.rules.log_waits import hidden_commit_share
from volbench.results.explain.rules.shared_evidence import (
    CLIENT_FIGURES,
    Effect,
)
from volbench.results.stats.grid import Floats, Mask, median

COSTLIER = 4.0
"""Cost of an operation of others against one of the server's, at most: a sync is two writes and a flush, an
operation of 64 KiB is four pages of 16 KiB."""


def part_of_device(case: Case, flow: ForeignFlow, active: Mask) -> float:
    """The foreign part of all operations of the device in some intervals, or of all bytes where that is more."""
    device = case.device
    if device is None:
        return 0.0
    shares = []
    discards = float(flow.discards[active].sum())
    for foreign, values, discarded in (
        (flow.operations, device.iops, discards),
        (flow.mib_per_s, device.mib_per_s, 0.0),
    ):
        total = 0.0 if values is None else float(np.nansum(values[active])) + discarded
        shares.append(float(foreign[active].sum()) / total if total > 0 else 0.0)
    return min(1.0, max(shares))


def explained_share(
    case: Case, flow: ForeignFlow, active: Mask, worst: Effect | None, *, left: float = 1.0
) -> float | None:
    """The part of the latency that others' I/O explains: while it lasts, all by which this server became slower.

    `left` is the part of a client's longer time that CPUs do not explain.
    Where no effect is seen, or there is no time without it: the volume's share of the latency, commits that have no
    instrument among it, times the part of an operation's time for which it waits behind others' operations at most
    (`_behind_others`).
    """
    if worst is not None:
        lost = 1 - 1 / worst.slowdown
        if worst.evidence.metric not in CLIENT_FIGURES and case.storage_share is not None:
            lost *= case.storage_share  # a read or a sync is a part of a transaction
        return min(left * lost, sufficient_share(case, flow, active)) * part_of_step(case, active, worst)
    storage, behind = case.storage_share, _behind_others(case, flow)
    if storage is None:
        return None
    seconds = np.ones(len(active)) if case.budget is None else np.nan_to_num(case.budget.statement_s)
    total = float(seconds[active].sum())
    mean_part = float((behind * seconds)[active].sum()) / total if total > 0 else 0.0
    waits = min(1.0, storage + hidden_commit_share(case))
    return waits * min(mean_part, _queueing_part(case, active)) * part_of_step(case, active, worst)


def is_of_clients_time(worst: Effect | None) -> bool:
    """Whether what became worse is a figure of the clients: then a loss is a part of their time."""
    return worst is not None and worst.evidence.metric in CLIENT_FIGURES


def part_of_step(case: Case, active: Mask, worst: Effect | None) -> float:
    """Of the time that a share is of, the clients' or that of statements, what lies in the intervals."""
    return case.clients_share_of(active) if is_of_clients_time(worst) else case.time_share_of(active)


def sufficient_share(case: Case, flow: ForeignFlow, active: Mask) -> float:
    """The most of this server's speed that others' part of the device can take, as a share.

    Where each operation costs the device as much as any other, who has a share s of them takes s of its speed. An
    operation with a flush, a seek or many bytes costs some times as much, COSTLIER times at most: of what the
    device does, others then have at most COSTLIER * s / (1 - s + COSTLIER * s).
    """
    foreign_share = part_of_device(case, flow, active)
    return COSTLIER * foreign_share / (1 - foreign_share + COSTLIER * foreign_share)


def _behind_others(case: Case, flow: ForeignFlow) -> Floats:
    """Of an operation's time at the device, the part for which others' operations keep it waiting, at most.

    An operation that arrives finds N others there on average, as many as are in flight over time (arrival theorem,
    Lavenberg and Reiser 1980). They keep it waiting for N * S at most, S for each of them, as if the device
    served one at a time; with its own S that is N / (1 + N) of its time, and the foreign part of that is others'.
    Shape (buckets,); the foreign part of all operations where the queue is not known.
    """
    queue = None if case.device is None else case.device.in_flight
    if queue is None:
        return flow.share
    return flow.share * np.nan_to_num(queue / (1 + queue), nan=1.0)


def _queueing_part(case: Case, active: Mask) -> float:
    """Of an operation's waiting time, the part beyond what one takes without a queue; 1 where that is not known."""
    least, waits = case.base_await_of_all_ms, None if case.device is None else case.device.await_ms
    waited_ms = None if waits is None else median(waits[active])
    return 1.0 if least is None or not waited_ms else max(0.0, 1 - least / waited_ms)
