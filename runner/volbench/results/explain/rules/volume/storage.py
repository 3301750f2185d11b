"""Rules that name the volume: limits first, then what is slow without one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from volbench.core.records.report import EvidenceRow
from volbench.core.records.steps import step_kind
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.rules.advice import p95_text
from volbench.results.explain.rules.host.above_device import host_findings
from volbench.results.explain.rules.host.foreign import foreign_findings, foreign_intervals, others_have_most
from volbench.results.explain.rules.host.lost_time import lost_syncs
from volbench.results.explain.rules.host.memory import memory_findings
from volbench.results.explain.rules.host.syncs_on_cpus import sync_by_volume
from volbench.results.explain.rules.shared_evidence import (
    context,
    data_read_ms,
    explains_little,
    hidden_commit_share,
    latency_floor,
    slowest_sync_ms,
)
from volbench.results.explain.rules.volume.all_along import all_along_findings
from volbench.results.explain.rules.volume.counted_by_volume import host_against_volume
from volbench.results.explain.rules.volume.credits import first_empty
from volbench.results.explain.rules.volume.lazy_load import lazy_load_findings
from volbench.results.explain.rules.volume.limits import conserved_limit, likely_limit_findings, limit_findings
from volbench.results.explain.rules.volume.metadata import metadata_findings
from volbench.results.explain.rules.volume.meter import metered_streams
from volbench.results.explain.rules.volume.replication import replication_findings
from volbench.results.explain.rules.volume.slower import slower_findings
from volbench.results.explain.rules.volume.stall import stall_findings
from volbench.results.explain.rules.volume.streams import read_ahead_findings, waiting_streams
from volbench.results.explain.wording import clock, number, percent, row
from volbench.results.stats.grid import mean, median, quantile

_SECOND = 0.9
"""Of the share of what loads the device from outside: a limit that is met with it comes after it."""
_OF_OPERATIONS = frozenset({"storage.iops_limit", "storage.burst_exhausted", "instance.storage_limit"})
"""Limits that each piece of an operation counts for."""
SYNC_LATENCY = "storage.sync_latency"
_LATENCIES = frozenset({"storage.read_latency", SYNC_LATENCY})

CAUSES = (
    CauseInfo(
        name="storage.read_latency",
        claims=frozenset({"latency", "at the device"}),
        contradicts=frozenset({"memory.buffer_pool_small"}),
        group="the volume is slow",
        title="Queries wait for slow reads from the volume",
        panels=("await",),
        options=frozenset({"innodb_buffer_pool_size"}),
        all_along=True,
        by_medians=True,
        meaning="Queries wait for reads that are slow, and no limit explains it.",
        signs=(
            "A read of a data file takes at least 2.5 ms, reads are at least 15 % of statement time, and waits"
            " for files at least 30 % (or those who hold row locks mostly read). (Network SSDs answer in 0.5 to 2"
            " ms.) Where a queue of six and more never varies and the rate is as even as a meter that comes in"
            " slices of 100 ms, it is one of two with a limit."
        ),
        advice=(
            "Use storage with a lower read latency, or avoid reads with a buffer pool that holds the working set."
        ),
    ),
    CauseInfo(
        name="storage.sync_latency",
        claims=frozenset({"latency"}),
        group="the volume is slow",
        title="Commits wait for slow syncs of the volume",
        panels=("await", "fsync"),
        options=frozenset({"innodb_flush_log_at_trx_commit", "mode", "mount", "replicas", "sync_binlog"}),
        all_along=True,
        by_medians=True,
        meaning="Commits wait for slow fsyncs of the redo log or the binary log.",
        signs=(
            "An fsync of a log takes at least 4 ms, syncs are at least 15 % of statement time, and waits for"
            " files at least 30 % (or those who hold row locks mostly sync). Time that no instrument shows counts"
            " only as far as logs were being synced: the share of time in which they were, times the clients. On"
            " a busy machine, an fsync that is slow only because it waits for a CPU is not counted here. Where"
            " sessions hold row locks while they sync, the finding says so. Where the device took a small part of"
            " the syncs, it is one of two: the rest waits for a CPU or for a limit above the device."
        ),
        advice=(
            "Use storage with a lower write and flush latency, or batch commits (group commit). Relaxing"
            " `innodb_flush_log_at_trx_commit` or `sync_binlog` loses transactions in a crash."
        ),
    ),
)


def storage_findings(case: Case) -> list[Cause]:
    """What the volume does to this step; several where several act."""
    findings = _by_one_layer(case)
    return [*findings, *host_against_volume(case, limited=any(one.cause in _OF_OPERATIONS for one in findings))]


def is_much(finding: Cause) -> bool:
    """Whether it explains enough to keep other causes from being looked for; also where that is not known."""
    return finding.share is None or finding.share >= limit.SHARE_MIN


def _by_one_layer(case: Case) -> list[Cause]:
    if case.device is None:
        return [*metadata_findings(case)] or [*_slow_files(case)]
    explained = [*memory_findings(case)] or [*lazy_load_findings(case)] or [*_degraded(case)]
    if explained:
        return [*explained, *stall_findings(case)]
    above, others = host_findings(case) or [*metered_streams(case)], foreign_findings(case)
    outside = [*above, *others]
    if not any(is_much(finding) for finding in above) and any(is_much(finding) for finding in others):
        return _beside_others(case, outside, others)
    if any(is_much(finding) for finding in outside):
        # The device's own limits may be met as well, with the others' I/O; its waiting times are explained.
        most = max((finding.share for finding in outside if finding.share is not None), default=None)
        limits = [
            replace(finding, share=min(finding.share, _SECOND * most))
            if finding.share is not None and most
            else finding
            for finding in [*_shared_limit(case)] or limit_findings(case)
        ]
        return [*outside, *limits, *stall_findings(case)]
    streams = step_kind(case.kind).file_io != "server"
    limits = limit_findings(case)
    if (
        not limits and not step_kind(case.kind).queue_swept
    ):  # in a sweep, waiting times rise with the queue by design
        limits = [*slower_findings(case)]
    slow = [] if limits else [*waiting_streams(case)] if streams else [*_slow_files(case)]
    ahead = [] if limits else [*read_ahead_findings(case)]
    if ahead:  # the same reads, and why they are too few at a time
        slow = [*ahead, *(finding for finding in slow if finding.cause != "storage.read_latency")]
    latencies = [finding for finding in slow if finding.cause in _LATENCIES]
    if case.likely_limits and latencies:  # a latency comes first: it needs no further assumption
        alike = [*likely_limit_findings(case, latencies[0].share)]
        slow = [*(replace(finding, one_of_two=bool(alike)) for finding in slow), *alike]
    if outside:  # what is fast without a queue is slow because of whoever makes the queue, others among them
        slow = [finding for finding in slow if False not in finding.checks]
    copies = replication_findings(case)
    found = [*outside, *limits, *copies, *stall_findings(case), *metadata_findings(case), *slow]
    return found or ([*all_along_findings(case)] if case.recorded else [])


def _beside_others(case: Case, outside: list[Cause], others: list[Cause]) -> list[Cause]:
    """Others' I/O, with the limits and changes of the volume that are met with it or without.

    Others who come or go with the loss are its cause, and a limit is met with them. Who is there all along, and has
    the smaller part of the device, comes after a limit, and explains no change within the step.
    """
    limits = [*_shared_limit(case)] or limit_findings(case)
    come_or_go = any(finding.decided_by == "before and after" for finding in others)
    if come_or_go or others_have_most(case):
        most = max((finding.share for finding in outside if finding.share is not None), default=None)
        limits = [
            replace(finding, share=min(finding.share, _SECOND * most))
            if finding.share is not None and most
            else finding
            for finding in limits
        ]
        return [*outside, *limits, *stall_findings(case)]
    changes = [] if limits or step_kind(case.kind).queue_swept else [*slower_findings(case)]
    least = min((finding.share for finding in (*limits, *changes) if finding.share is not None), default=None)
    after = [
        replace(finding, share=min(finding.share, _SECOND * least))
        if finding.share is not None and least is not None
        else finding
        for finding in outside
    ]
    return [*limits, *changes, *after, *stall_findings(case)]


def _shared_limit(case: Case) -> Iterator[Cause]:
    """The limit that this server and others share, where they come or go within the step."""
    active = None if case.foreign is None else foreign_intervals(case, case.foreign)
    return iter(()) if active is None else conserved_limit(case, active)


def _degraded(case: Case) -> Iterator[Cause]:
    """Busy and slow at a few operations a second: no limit of any known volume, so no limit at all."""
    device = case.device
    if device is None or device.await_ms is None or _counts_exceeded(case) or explains_little(case):
        return
    waits = device.await_ms
    slow = np.isfinite(waits) & (waits >= limit.DEGRADED_AWAIT_MS)
    working = device.util if device.util is not None else device.in_flight
    if working is not None:
        slow &= working >= limit.DEGRADED_UTIL
    few = slow & (device.iops <= limit.DEGRADED_IOPS)
    if device.mib_per_s is not None:
        few &= device.mib_per_s <= limit.DEGRADED_MIB_PER_S
    busy = int((device.iops > 0).sum())
    if int(few.sum()) < 3 or few.sum() < 0.8 * slow.sum() or few.sum() < 0.1 * busy:
        return
    before = median(waits[~slow & np.isfinite(waits)])
    first = int(np.flatnonzero(few)[0])
    at, low, high = float(case.grid.t_s[first]), quantile(device.iops[few], 0), quantile(device.iops[few], 1)
    usual = median(waits[few]) or 0.0
    rose = before is not None and before * limit.DEGRADED_RISE <= usual
    # A range whose lower end is faster than before is no rise: the median is told, and that all is slow.
    text = (
        f"from {clock(at - case.grid.width_s, case.clock_zero_s)} an operation takes {number(usual)} ms at the"
        f" median ({number(quantile(waits[few], 0) or 0)} to {number(quantile(waits[few], 1) or 0)} ms)"
    )
    if before is not None:
        text += f", before {number(before)} ms" if rose else f"; the rest is no faster by much: {number(before)} ms"
    rows = [
        row("await_ms", usual, "ms", text),
        row(
            "iops",
            median(device.iops[few]),
            "1/s",
            f"at {number(low or 0)} to {number(high or 0)} operations a second: below every known limit of IOPS"
            " (the smallest volumes give 100)",
        ),
    ]
    if device.util is not None:
        low_u, high_u = quantile(device.util[few], 0) or 0.0, quantile(device.util[few], 1) or 0.0
        rows.append(
            row(
                "util_ratio",
                median(device.util[few]),
                "1",
                f"busy {percent(low_u)} to {percent(high_u)} of the time",
            )
        )
    checks = [True, rose]
    yield Cause(
        cause="storage.degraded",
        decided_by="before and after" if rose else "level",
        window_s=(at - case.grid.width_s, float(case.grid.t_s[int(np.flatnonzero(few)[-1])])),
        share=case.storage_share,
        checks=tuple(checks),
        evidence=(*rows, *_more_traffic(case, first), *context(case)),
        advice="The cause is outside this host's own load: ask for the volume's own history (credit balance, volume"
        " status, provider events), for snapshots and neighbours on the same storage. More provisioned IOPS are"
        " no answer to a volume that does not give a tenth of the least.",
    )


def _more_traffic(case: Case, since: int) -> Iterator[EvidenceRow]:
    """Own load that came on top, once the volume was slow already: a rise of operations or bytes."""
    device = case.device
    if device is None:
        return
    for name, values, unit in (("iops", device.iops, "1/s"), ("mib_per_s", device.mib_per_s, "MiB/s")):
        if values is None:
            continue
        usual, most = median(values[:since]), quantile(values[since:], 1)
        if usual is None or most is None or most < 2 * usual or usual <= 0:
            continue
        at = float(case.grid.t_s[since + int(np.nanargmax(values[since:]))])
        listed_stalls = number(most) if name == "iops" else f"{number(most)} MiB/s"
        text = (
            f"own load adds to it: {listed_stalls} {'operations a second' if name == 'iops' else ''} at"
            f" {clock(at, case.clock_zero_s)}, {most / usual:.1f} times as much as before"
        )
        yield row(name, most, unit, " ".join(text.split()))
        return


def _slow_files(case: Case) -> Iterator[Cause]:
    """Reads or syncs that are slow by themselves, without a limit that explains it."""
    budget = case.budget
    if budget is None:
        return
    unseen = hidden_commit_share(case) if case.unseen_share is not None else 0.0
    much = budget.storage_share + unseen >= limit.STORAGE_SHARE_MIN
    read_ms = data_read_ms(case)
    reads = budget.share("data_reads")
    if read_ms is not None and read_ms >= limit.READ_SLOW_MS and _matters(case, reads, much=much):
        yield _slow(case, "storage.read_latency", reads, "read", read_ms, limit.READ_SLOW_MS)
    sync_ms = slowest_sync_ms(case)
    share = budget.share("redo_sync", "binlog_sync", "binlog_group", "doublewrite")
    # Commits that wait for another's sync are seen as neither. Who waits for a lock waits for what its holder does:
    # of a server that shows only the leaders of group commits, unseen time is measured against holders' time.
    if unseen >= limit.UNSEEN_SHARE_MIN * (budget.beside_locks if budget.hides_followers else 1.0):
        share += unseen
    if sync_by_volume(case) is not None:  # the rules of the server name it
        return
    if sync_ms is not None and sync_ms >= limit.SYNC_SLOW_MS and _matters(case, share, much=much):
        yield _perhaps_above(case, _slow(case, SYNC_LATENCY, share, "sync", sync_ms, limit.SYNC_SLOW_MS))


def _perhaps_above(case: Case, finding: Cause) -> Cause:
    """One of two where the device took a small part of the syncs: what has the rest is not known."""
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
    if budget is None or budget.share("row_locks") < limit.ROW_LOCK_SHARE_MIN or budget.beside_locks <= 0:
        return None
    of_holders, sessions = share / budget.beside_locks, share * (mean(budget.statement_s) or 0.0)
    if of_holders < limit.HOLDER_SHARE_MIN or sessions < limit.HOLDERS_MIN:
        return None
    return min(1.0, of_holders), sessions


def _slow(case: Case, cause: str, share: float, what: str, each_ms: float, threshold_ms: float) -> Cause:
    waited = case.base_await_ms
    checks = [True, each_ms >= 2 * threshold_ms, None if waited is None else what == "sync" or waited >= 1.0]
    noun = "a read of the volume" if what == "read" else "an fsync of the log"
    advice = {
        "read": "Storage with a lower read latency, or fewer reads: a buffer pool that holds the working set.",
        "sync": "Storage with a lower write and flush latency, or fewer syncs for each commit (group commit)."
        " Relaxing innodb_flush_log_at_trx_commit or sync_binlog loses transactions in a crash.",
    }[what]
    return Cause(
        cause=cause,
        window_s=case.window_s,
        share=share,
        checks=tuple(checks),
        evidence=(
            row(f"{what}_ms", each_ms, "ms", f"{noun} takes {number(each_ms)} ms"),
            *(_of_the_volume(case) if what == "sync" else ()),
            *_held_locks(case, share, what),
            *_unseen_queue(case, what),
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


def _counts_exceeded(case: Case) -> bool:
    """Whether a counter says that a limit was met, or that credits are gone: the waiting times are explained."""
    counted = (case.exceeded.volume_iops, case.exceeded.volume_throughput, case.exceeded.instance_iops)
    if any((mean(finding) or 0.0) >= limit.EXCEEDED_MIN for finding in counted if finding is not None):
        return True
    balance = case.of_volume.balance_percent
    return balance is not None and first_empty(balance) is not None
