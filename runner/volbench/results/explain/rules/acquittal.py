"""When the evidence acquits the volume, and what is missing where it names no cause and acquits nothing."""

from __future__ import annotations

from volbench.core.records.named_metrics import Client, Cloudwatch
from volbench.core.records.report import EvidenceRow
from volbench.core.records.steps import step_kind
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.check.rebuild import summed_ms
from volbench.results.explain.evidence.device import Device
from volbench.results.explain.evidence.processors import CELL, task_use
from volbench.results.explain.rules.host.syncs_on_cpus import short_sync
from volbench.results.explain.rules.levers import fewer_of_none
from volbench.results.explain.rules.log_waits import (
    hidden_write_share,
    log_elsewhere,
    slowest_sync_ms,
    storage_share_max,
)
from volbench.results.explain.rules.shared_evidence import waited_operation
from volbench.results.explain.wording import number, percent, row
from volbench.results.stats.grid import mean, median

NONE = "none"
_NOT_THE_VOLUME = "The volume is not what limits this step."
_MANY_SHORT = "The volume is neither slow nor at a limit: there is much for it to do, and each piece is short."
ACCOUNTED_MIN = 0.5
"""Of a step's own streams: with less of their time accounted for, something that was not looked at has the rest."""
QUEUE_SHARE_MIN = 0.75
"""Operations in flight for each client from which on the volume is not acquitted."""

CAUSES = (
    CauseInfo(
        name="none",
        claims=frozenset({"innocent"}),
        group="not the volume",
        title="The volume is not the problem",
        panels=("await", "cpu"),
        accounts_for=frozenset({"CPUs", "locks", "statements", "network"}),
        meaning="The volume is not the problem.",
        signs=(
            "Statement times of the server show that queries hardly wait for files (less than 30 %), or that the"
            " waits are many and each is short. Where the server has no instrument for commits, they can take no"
            " more than the clients' number times the time for which a log is synced; a server that syncs nothing"
            " hides none. On saturated CPUs an fsync counts with a write and a flush of the volume (less than 2.5"
            " ms each, 4 ms together), where the rest of it is at most eight times what a read waits between device"
            " and server; and nothing is acquitted with a p99 or a slowest transaction that is more than twice"
            " what the accounted pieces make. Of a step that works on files itself, at least half of its streams'"
            " time must be at the device or on a CPU; a log on another device (by the mount options, or since it is"
            " synced more than four times for each write of this one) clears nobody who syncs, and a step that"
            " measures the volume (fio) and waits for it clears nothing: it is as fast as the volume. volbench says"
            " `none` only with statement times: `sar` and `iostat` alone never clear a volume."
        ),
        advice=(
            "Look at the other findings. Where the storage's share is large but each wait is short, fewer"
            " operations help: a larger buffer pool, commits in groups."
        ),
        wait_time="statements",
    ),
)


def acquit(case: Case) -> Cause | None:
    """`none`, where it is known that queries hardly wait for the volume; else nothing."""
    rows: list[EvidenceRow] = []
    checks: list[bool | None] = []
    share, unseen = case.storage_share, case.unseen_share
    at_most = storage_share_max(case) if share is None else None
    if at_most is not None and at_most < limit.STORAGE_SHARE_MIN:
        share = at_most
    if _hides_waits(case, unseen) or (waits_for_files(case) and step_kind(case.kind).queue_swept):
        return None  # a step that measures the volume and waits for it is as fast as that is
    if _queue_has_the_clients(case) and share is not None and share < limit.STORAGE_SHARE_MIN:
        return None  # the files are said to take little, and nearly all clients are in the volume's queue
    if share is not None:
        small = share < limit.STORAGE_SHARE_MIN
        text = f"{'at most ' if share is at_most else ''}{percent(share)} of foreground statement time is file I/O"
        rows.append(row("storage_share", share, "1", text if small else f"{text}, in many waits that are short"))
        checks.append(small or _waits_are_short(case))
        if not small:
            rows += _short_rows(case)
    device = case.waited_device
    if device is not None:
        waited = device_ms(device)
        queue = median(device.in_flight)
        checks.append(None if waited is None else waited < limit.READ_SLOW_MS)
        checks.append(None if queue is None else queue < limit.QUEUE_MIN or not case.limits)
        if waited is not None:
            queued = f" with {number(queue)} in flight" if queue is not None else ""
            rows.append(
                row("await_ms", waited, "ms", f"{waited_operation(case)} takes {number(waited)} ms{queued}")
            )
    many = share is not None and share >= limit.STORAGE_SHARE_MIN
    if rows and waits_for_files(case):
        text = (
            f"{percent(case.waiting_share or 0.0)} of the streams' time is waiting for the volume, in short waits"
        )
        rows, many = [row("waiting_share", case.waiting_share, "1", text), *rows], True
    if not rows or any(check is False for check in checks) or (share is None and not any(checks)):
        return None
    return Cause(
        cause=NONE,
        window_s=case.window_s,
        share=None,
        checks=tuple(checks),
        evidence=tuple(rows),
        advice=f"{_MANY_SHORT} {fewer_of_none(case)}, and so would still shorter ones."
        if many
        else _NOT_THE_VOLUME,
    )


def device_ms(device: Device) -> float | None:
    """Mean time of an operation over all of them; the median of intervals where they are not counted."""
    each_ms = summed_ms(device.iops, device.await_ms)
    return median(device.await_ms) if each_ms is None else each_ms


def _hides_waits(case: Case, unseen: float | None) -> bool:
    """Whether a part of the time that may be waits for the volume is not accounted for."""
    if case.budget is None and case.waiting_share is None:  # a short wait of the volume may be all that clients do
        return True
    accounted = accounted_share(case)
    return (
        (unseen is not None and unseen >= limit.UNSEEN_SHARE_MIN)
        or (accounted is not None and accounted < ACCOUNTED_MIN)
        or _log_is_elsewhere(case)
    )


def accounted_share(case: Case) -> float | None:
    """Of a step that works on files itself, the part of its streams' time that is at the device or on a CPU.

    By Little's law: operations in flight at the device, and tasks that run or wait for a CPU (schedstat), for each
    stream. None for other steps, and where either is not known. A limit above the device holds operations back
    where neither counts them: fio below io.max has 0.1 of 32 at the device, and computes nothing.
    """
    use = task_use(case.grid, CELL)
    if case.waiting_share is None or use is None:
        return None
    return min(1.0, case.waiting_share + (mean(use.used + use.delay) or 0.0) / (case.threads or 1))


def waits_for_files(case: Case) -> bool:
    """Whether the streams of a step that works on files itself mostly wait for the volume, however fast it is."""
    return case.waiting_share is not None and case.waiting_share >= limit.STORAGE_SHARE_MIN


def _log_is_elsewhere(case: Case) -> bool:
    """Whether a log is on another device, which may be what sessions wait for."""
    if log_elsewhere(case) is None:
        return False
    budget = case.budget
    syncs = 1.0 if budget is None else budget.share("redo_sync", "binlog_sync", "binlog_group", "doublewrite")
    return syncs + hidden_write_share(case) >= limit.SHARE_MIN


def _queue_has_the_clients(case: Case) -> bool:
    """Whether nearly as many operations that sessions wait for are in flight as there are clients."""
    queue = None if case.waited_device is None else mean(case.waited_device.in_flight)
    return bool(queue is not None and case.threads and queue >= QUEUE_SHARE_MIN * case.threads)


def _waits_are_short(case: Case) -> bool:
    """Whether reads and fsyncs take what they take on any volume: many short waits are the load's own nature."""
    device = case.device
    read_ms = None if device is None else summed_ms(device.reads, device.r_await_ms)
    finite = (read_ms is not None or case.budget is not None) and device is not None
    long_syncs = (slowest_sync_ms(case) or 0.0) >= limit.SYNC_SLOW_MS and short_sync(case) is None
    slow = (read_ms or 0.0) >= limit.READ_SLOW_MS or long_syncs
    return finite and not slow and not case.limits and not case.storage_stalls


def _short_rows(case: Case) -> list[EvidenceRow]:
    sync_ms = slowest_sync_ms(case)
    if sync_ms is None:
        return []
    by_volume = short_sync(case) if sync_ms >= limit.SYNC_SLOW_MS else None
    if by_volume is not None:
        text = (
            f"an fsync of a log takes {number(sync_ms)} ms, of which a write and a flush of the volume are"
            f" {number(by_volume.sync_ms)} ms: CPUs are saturated, and the rest is waiting for them"
        )
        return [row("sync_ms", sync_ms, "ms", text)]
    text = (
        f"an fsync of a log takes {number(sync_ms)} ms; it is called slow from {number(limit.SYNC_SLOW_MS)} ms on"
    )
    return [row("sync_ms", sync_ms, "ms", text)]


def _as_it_was(case: Case) -> str:
    """How the volume looked, in words; empty without waiting times."""
    device = case.waited_device
    waited, queue = (None, None) if device is None else (device.await_ms, device.in_flight)
    waited_ms, in_flight = median(waited), median(queue)
    if waited_ms is None:
        return ""
    queued = "" if in_flight is None else f" with {number(in_flight)} in flight"
    return f"; {waited_operation(case)} took {number(waited_ms)} ms{queued}"


def missing_evidence(case: Case) -> list[str]:
    """What would have told more."""
    notes = [] if case.budget is None else list(case.budget.notes)
    if case.budget is None and step_kind(case.kind).transactions:
        notes.append("no statement times of the server: shares of latency are not known")
    if case.device is None:
        notes.append(
            "no operations of the volume are counted"
            if any(key.source == Cloudwatch.reads_per_s.source for key in case.cell_grid.columns)
            else "no counters of the volume"
        )
    elif case.device.await_ms is None:
        notes.append(f"{case.device.source} has no waiting times")
    if case.at(Client.tps) is None and step_kind(case.kind).transactions:
        notes.append("no series of the client")
    return notes


def why_unexplained(case: Case) -> str:
    """Return why a step has no finding at all, not even `none`."""
    share, unseen = case.storage_share, case.unseen_share
    elsewhere = log_elsewhere(case)
    if of_files := _why_of_files(case):
        return of_files
    if elsewhere is not None and _log_is_elsewhere(case):
        return elsewhere
    if unseen is not None and unseen >= limit.UNSEEN_SHARE_MIN:
        return f"{percent(unseen)} of statement time is no instrumented wait, and more than all CPU time"
    if share is not None and share >= limit.STORAGE_SHARE_MIN:
        return f"{percent(share)} of statement time is file I/O, and no rule names a cause for it"
    if case.budget is None and case.waiting_share is None and case.device is not None:
        return (
            "not enough to acquit the volume: no statement times of the server say who waited for it"
            f"{_as_it_was(case)}"
        )
    return "no rule names a cause, and the evidence does not clear the volume"


def _why_of_files(case: Case) -> str:
    """Return the same of a step that works on files itself; empty for others."""
    accounted, waiting = accounted_share(case), case.waiting_share
    if accounted is not None and accounted < ACCOUNTED_MIN:
        return (
            f"the streams are at the device or on a CPU in {percent(accounted)} of their time: a limit above the"
            " device (io.max, blkio.throttle.*) may hold them, and nothing here looks at it"
        )
    if waiting is not None and waits_for_files(case) and step_kind(case.kind).queue_swept:
        return (
            f"the streams wait for the volume in {percent(waiting)} of their time, and no rule names a limit or a"
            f" slow volume{_as_it_was(case)}: they measure how fast it is"
        )
    return ""
