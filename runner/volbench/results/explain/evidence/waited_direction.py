"""Which of a volume's operations sessions wait for, where it is reads alone or writes alone.

Somebody else's operations, and those of the server's background threads (page cleaner, purge), are counted at the
device with the others, and no session waits for them. Where the server tells what its sessions wait for, a waiting
time is that of these operations. What a volume gives at most is a matter of all of them, whoever waits.
"""

from __future__ import annotations

import numpy as np

from volbench.core.records.named_metrics import Client, Innodb, NamedMetric, PerformanceSchema
from volbench.results.explain.evidence.budget import Budget
from volbench.results.explain.evidence.device import Device, Direction
from volbench.results.stats.grid import Grid, mean

OTHER_WAITS_MAX = 0.1
"""Of sessions' waits for files, those for the other direction: with more, sessions wait for both."""
SYNCS_MIN = 0.02
"""Syncs of the redo log per transaction below which nobody waits for it."""
_LOG_SYNCS: tuple[tuple[NamedMetric, str], ...] = (
    (PerformanceSchema.file_syncs_per_s, "redo"),
    (Innodb.os_log_fsyncs_per_s, ""),
    (Innodb.log_writes_per_s, ""),
)


def waited_direction(grid: Grid, budget: Budget | None) -> Direction | None:
    """Return the direction of the operations that sessions wait for; None: both, or it is not known.

    Where commits have no instrument and the log is synced, all time that no wait shows may be theirs.

    Args:
        grid: the aligned series of the step.
        budget: where its statement time went.
    """
    if budget is None or "data_reads" not in budget.seconds:
        return None
    reads = budget.share("data_reads")
    writes = budget.storage_share - reads
    total_s = reads + writes
    hidden = budget.no_wait if budget.hides_commits and _syncs_log(grid) else 0.0
    if total_s <= 0:
        return None
    if writes + hidden <= OTHER_WAITS_MAX * (total_s + hidden):
        return "read"
    return "write" if reads <= OTHER_WAITS_MAX * total_s else None


def busy_share_max(device: Device | None, waited: Device | None) -> float | None:
    """Return the share of time in which a volume has an operation that sessions wait for, at most; None: not known.

    That is the device's utilisation, or the mean number of these operations in flight (Markov's inequality). Where
    reads or writes alone are known, up to OTHER_WAITS_MAX of the waits are for the others.

    Args:
        device: the volume with all operations.
        waited: the same with those that sessions wait for; the same object where they are not known.
    """
    if device is None or waited is None:
        return None
    queue = waited.in_flight
    if queue is not None and waited is not device:
        queue = queue / (1 - OTHER_WAITS_MAX)
    shares = [share for values in (device.util, device.in_flight, queue) if (share := mean(values)) is not None]
    return min(shares, default=None)


def _syncs_log(grid: Grid) -> bool:
    """Whether the redo log is synced as often as for commits; so it is taken to be where nothing counts syncs."""
    columns = [column for metric, name in _LOG_SYNCS if (column := grid.column(*metric, name)) is not None]
    finished = grid.column(*Client.tps)
    finished = grid.column(*PerformanceSchema.statements_per_s) if finished is None else finished
    if not columns or finished is None:
        return True
    return bool(np.nansum(columns[0]) >= SYNCS_MIN * np.nansum(finished))
