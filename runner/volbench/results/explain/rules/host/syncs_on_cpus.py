"""What of an fsync is the volume's where CPUs are saturated, and whether waits for a CPU explain the rest of it."""

from __future__ import annotations

from dataclasses import dataclass

from volbench.core.records.named_metrics import Tasks
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.layers import LOGS, device_flow, flush_ms, server_flow
from volbench.results.explain.evidence.processors import CELL, SERVER
from volbench.results.explain.rules.log_waits import slowest_sync_ms
from volbench.results.explain.rules.shared_evidence import without_stands
from volbench.results.stats.grid import mean

WAKEUPS_MAX = 8.0
"""Waits for a CPU within one fsync: two commits of a file system's journal, its own and the one that runs when it
comes, each with its data, its record, its flush, and the thread that waits for them. Harmless runs on saturated
CPUs have 2.6 to 6.5; a paused server 21 to 25, a limit of writes 131."""
WRITES_OF_A_SYNC = 0.75
"""Writes of the device for each page that the server writes and each sync of a log, at least: merges take some.
With fewer, the log may be on another device."""
READS_MIN = 100.0
"""Reads of a step from which on their mean wait between device and server says what one wait for a CPU takes."""


@dataclass(frozen=True, kw_only=True)
class VolumePart:
    """Mean milliseconds that the volume takes for a write and for a flush, over all of them."""

    write_ms: float
    flush_ms: float

    @property
    def sync_ms(self) -> float:
        """Of an fsync: one write and one flush, one after the other."""
        return self.write_ms + self.flush_ms


def sync_by_volume(case: Case) -> VolumePart | None:
    """What of an fsync is the volume's where CPUs hold it up, and most of it is not; else None.

    What a sync takes beyond the volume's part is waiting for a CPU only as far as all tasks of the cell together
    waited for CPUs: where they waited for less, the rest of it was blocked, and CPUs do not explain it. Programs
    that wait for a disk of theirs leave CPUs idle (iowait) and take them with each piece that is done. So where a
    load gets its rate, CPUs need not be saturated: the server's tasks waited as long, and reads show it as well.
    """
    sync_ms, of_volume = slowest_sync_ms(case), _volume_part(case)
    if sync_ms is None or of_volume is None or sync_ms < limit.SYNC_BY_VOLUME * of_volume.sync_ms:
        return None
    if not case.cpu_bound and not case.is_served:
        return None
    who = CELL if case.cpu_bound else SERVER
    syncs, delayed = server_flow(case.grid, "sync", LOGS), mean(case.at(Tasks.run_delay_s_per_s, who))
    seconds = None if syncs is None else mean(syncs.in_flight)
    if not case.cpu_bound and (
        seconds is None or delayed is None or not _reads_wait_as_long(case, sync_ms, of_volume)
    ):
        return None
    beyond = None if delayed is None or seconds is None else seconds * (1 - of_volume.sync_ms / sync_ms)
    return None if beyond is not None and (delayed or 0.0) < beyond else of_volume


def _reads_wait_as_long(case: Case, sync_ms: float, of_volume: VolumePart) -> bool:
    """Whether waits for a CPU, as reads show them, explain the rest of an fsync."""
    each_ms = wakeup_ms(case)
    return each_ms is not None and sync_ms - of_volume.sync_ms <= WAKEUPS_MAX * each_ms


def volume_part_of_syncs(case: Case) -> float:
    """Return the part of a log's fsync that the volume takes, a write and a flush; 0 where nothing tells."""
    sync_ms, of_volume = slowest_sync_ms(case), _volume_part(case)
    return 0.0 if not sync_ms or of_volume is None else min(1.0, of_volume.sync_ms / sync_ms)


def short_sync(case: Case) -> VolumePart | None:
    """The volume's part of an fsync that is short, where waits for a CPU explain the rest; None: not shown.

    Nothing is acquitted by what tasks could have waited for alone (`sync_by_volume`): how long one wait for a CPU
    takes is measured on reads, as their time in the server less that at the device, and the rest of an fsync must
    be no more than WAKEUPS_MAX of them. And the device must do the logs' writes.
    """
    of_volume, sync_ms = sync_by_volume(case), slowest_sync_ms(case)
    if of_volume is None or sync_ms is None or not _writes_the_logs(case):
        return None
    is_short = (
        of_volume.sync_ms < limit.SYNC_SLOW_MS and max(of_volume.write_ms, of_volume.flush_ms) < limit.READ_SLOW_MS
    )
    return of_volume if is_short and _reads_wait_as_long(case, sync_ms, of_volume) else None


def _volume_part(case: Case) -> VolumePart | None:
    """The sums over all operations, stalls left out; no flush was sent where none is counted."""
    moving = without_stands(case)
    writes = None if moving.device is None else device_flow(moving.device, "write")
    if moving.device is None or writes is None or writes.each_ms is None:
        return None
    journal, flushes_ms = moving.journal_device, flush_ms(moving.grid, moving.device, moving.disks)
    return VolumePart(
        write_ms=writes.each_ms + (0.0 if journal is None else journal.write_ms or 0.0),
        flush_ms=flushes_ms + (0.0 if journal is None else journal.flush_ms),
    )


def wakeup_ms(case: Case) -> float | None:
    """Return for how long a read that is done at the device waits in the server; None where reads are too few."""
    upper = server_flow(case.grid, "read", ("data",))
    lower = None if case.device is None else device_flow(case.device, "read")
    if upper is None or lower is None or upper.each_ms is None or lower.each_ms is None:
        return None
    reads = (mean(upper.rate) or 0.0) * case.length_s
    return max(0.0, upper.each_ms - lower.each_ms) if reads >= READS_MIN else None


def _writes_the_logs(case: Case) -> bool:
    """Whether the device ends as many writes as pages are written and logs are synced."""
    syncs, pages = server_flow(case.grid, "sync", LOGS), server_flow(case.grid, "write", ("data",))
    written = None if case.device is None else mean(case.device.writes)
    needed = sum(mean(flow.rate) or 0.0 for flow in (syncs, pages) if flow is not None)
    return written is not None and written >= WRITES_OF_A_SYNC * needed
