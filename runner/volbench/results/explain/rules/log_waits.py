"""What commits wait for: syncs of the logs and of a journal, whether the server shows them or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from volbench.core.records.named_metrics import (
    Innodb,
    PerformanceSchema,
)
from volbench.core.records.report import EvidenceRow
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.layers import LOGS, Flow, server_flow
from volbench.results.explain.rules.shared_evidence import without_stands
from volbench.results.explain.wording import number, percent, row
from volbench.results.stats.grid import mean, median

WRITES_OF_SYNC_MIN = 0.25
"""Writes of a device for each sync of its logs, at least: the server counts a seek or a stat with the syncs."""


def external_log(mount_options: Sequence[str]) -> str | None:
    """The device of a file system's log that is not the one of its data, by its options; None: none is stated.

    xfs states `logdev=`, ext4 with an external journal `journal_dev=` or `journal_path=`.
    """
    names = ("logdev=", "journal_dev=", "journal_path=")
    return next((option.partition("=")[2] for option in mount_options if option.startswith(names)), None)


def log_elsewhere(case: Case) -> str | None:
    """Why syncs of a log wait for a device that was not looked at, in a clause; None: nothing says so.

    The file system's options state it. Or the balance of layers does: a sync writes what was logged before it, one
    write at least, so that a device that has the logs writes as often as they are synced.
    """
    device = external_log(case.mount_options)
    if device is not None and case.journal_device is None:
        return f"the file system's log is on {device}, a device that was not looked at"
    if case.elsewhere:  # those that are on volumes of their own are looked at there
        return None
    syncs, writes = server_flow(case.grid, "sync", LOGS), None if case.device is None else case.device.writes
    synced, written = None if syncs is None else mean(syncs.rate), mean(writes)
    if not synced or written is None or written >= WRITES_OF_SYNC_MIN * synced:
        return None
    return (
        f"the logs are synced {number(synced)} times a second and the device writes {number(written)} times: they"
        " are on a device that was not looked at"
    )


def journal_rows(case: Case) -> Iterator[EvidenceRow]:
    """What a write takes on the journal's own device, where there is one."""
    journal = case.journal_device
    if journal is None or journal.write_ms is None:
        return
    busy = "" if journal.busy is None else f", busy {percent(journal.busy)} of the time"
    text = (
        f"the file system's journal is on {journal.name}: a write takes {number(journal.write_ms)} ms there, a"
        f" flush {number(journal.flush_ms)} ms{busy}"
    )
    yield row("journal_write_ms", journal.write_ms, "ms", text)


def _log_syncs(case: Case, kinds: tuple[str, ...]) -> Flow | None:
    """Syncs of logs.

    On a file system that is mounted `sync` a write returns when it is on the volume, and its time belongs to the
    sync after it, which has nothing left to do.
    """
    syncs, writes = server_flow(case.grid, "sync", kinds), server_flow(case.grid, "write", kinds)
    if syncs is None or writes is None or not writes_synchronously(case):
        return syncs
    if syncs.in_flight is None or writes.in_flight is None:
        return syncs
    return replace(syncs, in_flight=syncs.in_flight + writes.in_flight)


def writes_synchronously(case: Case) -> bool:
    """Whether each write of a file waits for the volume, by the mount options."""
    return "sync" in case.mount_options


def log_sync_ms(case: Case, kind: str) -> float | None:
    """Mean time of an fsync of a kind of log, `redo` or `binlog`, stalls left out."""
    moving = without_stands(case)
    syncs = _log_syncs(moving, (kind,))
    each_ms = None if syncs is None else syncs.each_ms
    return median(moving.grid.column(*PerformanceSchema.file_sync_ms, kind)) if each_ms is None else each_ms


def slowest_sync_ms(case: Case) -> float | None:
    """Mean time of an fsync of the log whose fsyncs take longer."""
    syncs = [log_sync_ms(case, kind) for kind in ("redo", "binlog")]
    return max((effect for effect in syncs if effect is not None), default=None)


def hidden_write_share(case: Case) -> float:
    """The share of statement time that may be waits for writes without an instrument; 0 where the server has them.

    What neither a wait nor CPU time explains; where that is not known, at most all that no wait shows.
    """
    budget = case.budget
    if budget is None or not budget.hides_commits:
        return 0.0
    return budget.share("rest") if case.unseen_share is None else case.unseen_share


def hidden_commit_share(case: Case) -> float:
    """The part of `hidden_write_share` that can be commits: they wait only while a log is synced."""
    most = log_wait_max(case)
    return hidden_write_share(case) if most is None else min(hidden_write_share(case), most)


def log_wait_max(case: Case) -> float | None:
    """The share of statement time that can be waiting for syncs of the logs at most; None where it is not known.

    As `volume_share_max`, one layer higher: a session waits for a commit, its own or that of a group's leader, only
    while a log is synced. Syncs are in flight for the share U of time, U <= N (Markov's inequality), and meanwhile
    at most all C clients wait: of S seconds of statements a second, at most N * C / S. N is the sum of the syncs'
    times in each second. Where the redo log has no instrument, each fsync that InnoDB counts may take
    `UNSEEN_SYNC_MAX` times as long as one of the log that has.
    """
    budget, syncs = case.budget, _log_syncs(case, LOGS)
    statements = None if budget is None else mean(budget.statement_s)
    in_flight = None if syncs is None or syncs.in_flight is None else mean(syncs.in_flight)
    if not statements or not case.threads or in_flight is None:
        return None
    if case.at(PerformanceSchema.file_sync_s_per_s, "redo") is None:
        sync_ms, fsyncs = slowest_sync_ms(case), mean(case.at(Innodb.data_fsyncs_per_s))
        if fsyncs is None or (sync_ms is None and fsyncs > 0):
            return None
        in_flight += limit.UNSEEN_SYNC_MAX * fsyncs * (sync_ms or 0.0) / 1000
    return min(1.0, in_flight * case.threads / statements)


def storage_share_max(case: Case) -> float | None:
    """The share of statement time that can be file I/O at most, seen and unseen; None where that is not known.

    Where the server has no instrument for commits, all that it shows is a lower bound; what it hides is no more
    than `log_wait_max`.
    """
    budget = case.budget
    if budget is None or "data_reads" not in budget.seconds or not budget.hides_commits:
        return case.storage_share
    hidden = log_wait_max(case)
    return None if hidden is None else min(1.0, budget.storage_share + min(hidden, budget.no_wait))
