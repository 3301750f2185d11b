"""The rule that names reads or syncs of the server that are slow by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from volbench.core.records.named_metrics import Mountstats
from volbench.core.records.report import EvidenceRow
from volbench.core.records.steps import step_kind
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.rule import (
    EXPLAINS_WAITS,
    LIMITS,
    METADATA,
    OUTSIDE,
    SLOW_FILES,
    SLOW_UNSEEN,
    SLOWER,
    Rule,
)
from volbench.results.explain.rules.advice import p95_text
from volbench.results.explain.rules.host.lost_time import lost_syncs
from volbench.results.explain.rules.host.syncs_on_cpus import sync_by_volume, wakeup_ms
from volbench.results.explain.rules.levers import commits
from volbench.results.explain.rules.log_waits import (
    hidden_commit_share,
    journal_rows,
    log_elsewhere,
    slowest_sync_ms,
    writes_synchronously,
)
from volbench.results.explain.rules.shared_evidence import (
    context,
    data_read_ms,
    latency_floor,
)
from volbench.results.explain.wording import number, percent, row
from volbench.results.stats.grid import mean, median

SYNC_LATENCY = "storage.sync_latency"
CLEARLY = 2.0
"""Times the threshold, from which a latency is clearly slow."""

CAUSES = (
    CauseInfo(
        name="storage.read_latency",
        yields_to=frozenset({"storage.burst_exhausted"}),
        yields_to_falls=True,
        claims=frozenset({"latency", "no limit", "at the device"}),
        contradicts=frozenset({"memory.buffer_pool_small"}),
        group="the volume is slow",
        title="Queries wait for slow reads from the volume",
        panels=("await",),
        accounts_for=frozenset({"reads of the volume", "queue of the volume"}),
        options=frozenset({"innodb_buffer_pool_size"}),
        all_along=True,
        by_medians=True,
        meaning="Queries wait for reads that are slow, and no limit explains it.",
        signs=(
            "A read of a data file takes at least 2.5 ms, reads are at least 15 % of statement time, and waits"
            " for files at least 30 % (or those who hold row locks mostly read). (Network SSDs answer in 0.5 to 2"
            " ms.) Where a queue of six and more never varies and the rate is as even as a meter that comes in"
            " slices of 100 ms, it is one of two with a limit. On saturated CPUs any rate is uneven: there it is"
            " 70 % sure at most, unless something tells it from a limit. That is a rate that follows the number in"
            " flight; a device that is idle for 10 % of the time; a latency that is as long without a queue (1.5"
            " times at most); writes that take a third of it; a longer queue of smaller reads that gives more in"
            " proportion; the volume's own counters; or transactions whose p95 is 1.75 times the median of their"
            " second and more, and whose waits therefore vary by more (squared: 2) than those of one queue. A"
            " load with a rate of its own that gets it, with clients that mostly have nothing to do, is held back"
            " by no latency of less than 5 ms; nor, on saturated CPUs, by one that is beyond the volume's own by no"
            " more than what a read that is done waits for a CPU."
        ),
        advice=(
            "Use storage with a lower read latency, or avoid reads with a buffer pool that holds the working set."
        ),
    ),
    CauseInfo(
        name="storage.sync_latency",
        yields_to=frozenset({"storage.burst_exhausted"}),
        yields_to_falls=True,
        claims=frozenset({"latency", "no limit"}),
        group="the volume is slow",
        title="Syncs of the volume are slow, and the load waits for them",
        panels=("await", "fsync"),
        accounts_for=frozenset({"writes of the volume", "queue of the volume"}),
        options=frozenset({"innodb_flush_log_at_trx_commit", "mode", "mount", "replicas", "sync_binlog"}),
        all_along=True,
        by_medians=True,
        meaning=(
            "Commits wait for slow fsyncs of the redo log or the binary log, or a step that syncs files itself for"
            " those of its files."
        ),
        signs=(
            "An fsync of a log takes at least 4 ms, syncs are at least 15 % of statement time, and waits for"
            " files at least 30 % (or those who hold row locks mostly sync). Time that no instrument shows counts"
            " only as far as logs were being synced: the share of time in which they were, times the clients. On"
            " a busy machine, an fsync that is slow only because it waits for a CPU is not counted here. Where"
            " sessions hold row locks while they sync, the finding says so. Where the device took a small part of"
            " the syncs, it is one of two: the rest waits for a CPU or for a limit above the device. A load with a"
            " rate of its own that gets it, with clients that mostly have nothing to do, is held back by no sync of"
            " less than 8 ms, nor by the wait for a CPU within a sync, which is measured on reads and in the"
            " scheduler's count. Over NFS, on CPUs that are saturated, a sync is one of two where an operation is"
            " fast without a queue, and not named where the load gets its rate: the client's threads wait for"
            " a CPU."
            " Where nothing tells it from a limit on saturated CPUs, it is 70 % sure at most, as reads are; flushes"
            " one of which is under way in 85 % of the time do tell."
            " A journal on a device of its own counts with what that device takes. On a file system that is mounted"
            " `sync`, writes of a log count as its syncs."
        ),
        advice=(
            "Use storage with a lower write and flush latency, or batch commits (group commit). Relaxing"
            " `innodb_flush_log_at_trx_commit` or `sync_binlog` loses transactions in a crash."
        ),
    ),
)


def slow_files(case: Case) -> Iterator[Cause]:
    """Reads or syncs that are slow, on a volume that is counted."""
    if case.device is not None and step_kind(case.kind).file_io == "server":
        yield from _slow_files(case)


def slow_files_unseen(case: Case) -> Iterator[Cause]:
    """The same where only the server saw the waits."""
    if case.device is None:
        yield from _slow_files(case)


def _slow_files(case: Case) -> Iterator[Cause]:
    budget = case.budget
    if budget is None:
        return
    unseen = hidden_commit_share(case) if case.unseen_share is not None else 0.0
    much = budget.storage_share + unseen >= limit.STORAGE_SHARE_MIN
    read_ms = data_read_ms(case)
    reads = budget.share("data_reads")
    is_slow = read_ms is not None and _is_slow(case, read_ms, limit.READ_SLOW_MS)
    if read_ms is not None and is_slow and not _waits_for_cpus(case, read_ms) and _matters(case, reads, much=much):
        finding = _slow(case, "storage.read_latency", reads, "read", read_ms, limit.READ_SLOW_MS)
        yield _perhaps_cpus(case, finding, limit.READ_SLOW_MS)
    sync_ms = slowest_sync_ms(case)
    share = budget.share("redo_sync", "binlog_sync", "binlog_group", "doublewrite")
    # Commits that wait for another's sync are seen as neither. Who waits for a lock waits for what its holder does:
    # of a server that shows only the leaders of group commits, unseen time is measured against holders' time.
    if unseen >= limit.UNSEEN_SHARE_MIN * (budget.non_lock_share if budget.hides_followers else 1.0):
        share += unseen
    if sync_by_volume(case) is not None:  # the rules of the server name it
        return
    if sync_ms is not None and _is_slow(case, sync_ms, limit.SYNC_SLOW_MS) and _matters(case, share, much=much):
        finding = _slow(case, SYNC_LATENCY, share, "sync", sync_ms, limit.SYNC_SLOW_MS)
        yield _perhaps_above(case, _perhaps_cpus(case, finding, limit.SYNC_SLOW_MS))


def _is_slow(case: Case, each_ms: float, threshold_ms: float) -> bool:
    """Whether an operation takes long; clearly so where the load gets its rate and nobody has to wait."""
    if case.is_served and _answers_wait_for_cpus(case, threshold_ms):
        return False
    return each_ms >= (CLEARLY if case.is_served else 1.0) * threshold_ms


def _answers_wait_for_cpus(case: Case, threshold_ms: float) -> bool:
    """Whether an NFS server that is fast without a queue may be slow by this host's CPUs alone.

    The client's own threads send a request and take its answer in, and wait for a CPU for both: on CPUs that are
    saturated the times that it counts are no times of the server. An interrupt of a disk waits for no thread.
    """
    floor = case.base_await_ms
    is_remote = case.device is not None and case.device.source == Mountstats.r_await_ms.source
    return is_remote and case.cpu_bound and (floor is None or floor < threshold_ms)


def _waits_for_cpus(case: Case, read_ms: float) -> bool:
    """Whether a read takes no longer, beyond the volume's own latency, than one wait for a CPU of this host does.

    On CPUs that are saturated the host that completes a read is late, and so is the task that waits for it: the
    second wait is measured. Only of a load that gets its rate: a volume that holds one back has a queue as well.
    """
    floor_ms, wait_ms = case.base_await_ms, wakeup_ms(case)
    if not (case.is_served and case.cpu_bound) or floor_ms is None or wait_ms is None:
        return False
    return floor_ms < limit.READ_SLOW_MS and read_ms - floor_ms <= wait_ms


def _perhaps_cpus(case: Case, finding: Cause, threshold_ms: float) -> Cause:
    """One of two where answers of an NFS server may have waited for CPUs of this host."""
    if not _answers_wait_for_cpus(case, threshold_ms):
        return finding
    text = (
        f"the host's CPUs are {percent(case.cpu_busy or 0.0)} busy, and the NFS client's threads wait for them"
        " before and after the server works: its times may be waits for a CPU"
    )
    return replace(finding, one_of_two=True, evidence=(*finding.evidence, row("cpus_of_client", None, "1", text)))


def _perhaps_above(case: Case, finding: Cause) -> Cause:
    """One of two where the device took a small part of the syncs, or the logs are on another one."""
    elsewhere = log_elsewhere(case)
    if elsewhere is not None:
        return replace(
            finding, one_of_two=True, evidence=(*finding.evidence, row("log_elsewhere", None, "1", elsewhere))
        )
    lost = None if case.device is None else lost_syncs(case)
    if lost is None:
        return finding
    text = (
        f"the device, with all that a journal may add, took at most {number(lost.below_ms)} of the"
        f" {number(lost.each_ms)} ms of a sync: the rest is a wait for a CPU or a limit above the device"
    )
    return replace(
        finding, one_of_two=True, evidence=(*finding.evidence, row("above_device_ms", lost.above_ms, "ms", text))
    )


def _matters(case: Case, share: float, *, much: bool) -> bool:
    """Whether a share of statement time is one to name: by itself, or because locks are held while it lasts."""
    return (much and share >= limit.SHARE_MIN) or _holders(case, share) is not None


def _holders(case: Case, share: float) -> tuple[float, float] | None:
    """What waits of the volume are of the time of those who do not wait for a lock, and how many do so at a time.

    None where they do not explain how long locks are held. Who waits for a lock waits for what its holder does: if
    that is mostly one thing, a faster one shortens the lock waits as well. A holder that is idle between its
    statements is in no statement's time; then fewer than one session on average is seen at anything.
    """
    budget = case.budget
    if budget is None or budget.share("row_locks") < limit.ROW_LOCK_SHARE_MIN or budget.non_lock_share <= 0:
        return None
    of_holders, sessions = share / budget.non_lock_share, share * (mean(budget.statement_s) or 0.0)
    if of_holders < limit.HOLDER_SHARE_MIN or sessions < limit.HOLDERS_MIN:
        return None
    return min(1.0, of_holders), sessions


def _slow(case: Case, cause: str, share: float, operation: str, each_ms: float, threshold_ms: float) -> Cause:
    waited = case.base_await_ms
    checks = [
        True,
        each_ms >= CLEARLY * threshold_ms,
        None if waited is None else operation == "sync" or waited >= 1.0,
    ]
    of_log = "a synchronous write of the log" if writes_synchronously(case) else "an fsync of the log"
    noun = "a read of the volume" if operation == "read" else of_log
    groups = " for each commit (group commit)" if commits(case) else ""
    holds = (
        ": a buffer pool that holds the working set" if step_kind(case.kind).transactions or case.recorded else ""
    )
    advice = {
        "read": f"Storage with a lower read latency, or fewer reads{holds}.",
        "sync": f"Storage with a lower write and flush latency, or fewer syncs{groups}."
        " Relaxing innodb_flush_log_at_trx_commit or sync_binlog loses transactions in a crash.",
    }[operation]
    return Cause(
        cause=cause,
        window_s=case.window_s,
        share=share,
        checks=tuple(checks),
        evidence=(
            row(f"{operation}_ms", each_ms, "ms", f"{noun} takes {number(each_ms)} ms"),
            *(_of_the_volume(case) if operation == "sync" else ()),
            *(journal_rows(case) if operation == "sync" else ()),
            *_held_locks(case, share, operation),
            *_unseen_queue(case, operation),
            *latency_floor(case),
            *context(case),
        ),
        one_of_two=case.device is None,
        advice=advice + p95_text(case, None),
    )


def _unseen_queue(case: Case, noun: str) -> Iterator[EvidenceRow]:
    """Says so where only the server saw the waits."""
    if case.device is None:
        text = f"whether the volume is slow or its {noun}s queue at a limit cannot be told without its counters"
        yield row("in_flight", None, "1", text)


def _of_the_volume(case: Case) -> Iterator[EvidenceRow]:
    """What an fsync is made of, where the volume tells flushes apart."""
    device = case.device
    flush_ms = None if device is None else median(device.f_await_ms)
    write_ms = None if device is None else median(device.w_await_ms)
    if flush_ms is not None and write_ms is not None:
        text = f"the volume takes {number(flush_ms)} ms for a flush and {number(write_ms)} ms for a write"
        yield row("flush_ms", flush_ms, "ms", text)


def _held_locks(case: Case, share: float, noun: str) -> Iterator[EvidenceRow]:
    """Says so where others wait for the locks of those who wait for the volume."""
    holders, budget = _holders(case, share), case.budget
    if holders is not None and budget is not None:
        text = (
            f"{percent(budget.share('row_locks'))} of statement time is waiting for row locks, and of the rest"
            f" {percent(holders[0])} is {noun}s: {number(holders[1])} sessions wait for one at a time and keep"
            " their locks meanwhile, so that lock waits grow with it"
        )
        yield row("holders_share", holders[0], "1", text)


RULES = (
    Rule(
        name=SLOW_FILES,
        causes=frozenset({"storage.read_latency", SYNC_LATENCY}),
        subject="volume",
        find=slow_files,
        yields_to=EXPLAINS_WAITS | LIMITS | {SLOWER},
        yields_to_much=OUTSIDE,
        sound_beside=OUTSIDE,
    ),
    Rule(
        name=SLOW_UNSEEN,
        causes=frozenset({"storage.read_latency", SYNC_LATENCY}),
        subject="volume",
        find=slow_files_unseen,
        yields_to=frozenset({METADATA}),
    ),
)
