"""Waits for I/O while no disk has any: what holds operations back above the disks, counted by the kernel.

A task that waits for I/O is in the kernel's account of pressure (PSI, `io some`) until it may run again: waiting
for a CPU is no part of it. What a disk holds keeps that disk busy. So of the time

    held >= W - (U1 + U2 + ...)

with W the share in which a task of the host waits for I/O, and U the share in which a disk is busy, all disks of
the host and all devices above them. It is a lower bound: disks that are busy at once count twice. A control group
that holds operations back (io.max, io.cost), a mapping that is suspended and a file system's journal that waits for
its turn have 0.25 to 0.93 of it, steps without such a thing at most 0 (recorded in a real kernel).
"""

from __future__ import annotations

import numpy as np

from volbench.core.records.named_metrics import PSI, Diskstats, Mountstats
from volbench.results.stats.grid import Grid, Mask, mean

HELD_MIN = 0.3
"""Of the time: from here on operations wait above the disks, whatever tasks wait for CPUs."""


def held_above(grid: Grid, inside: Mask | None = None) -> float | None:
    """Return the share of time in which a task waits for I/O and no disk is busy, at least; None: not known.

    Args:
        grid: the aligned series.
        inside: intervals that count, shape (buckets,); None: all.

    Nothing is known where NFS is mounted: waits for it keep no disk busy. Nor do waits for other file systems
    without a disk of this host (FUSE, CephFS, SMB), which no source of ours shows: they count as held.
    """
    waiting = grid.column(*PSI.io_some_ratio)
    disks = [grid.column(*Diskstats.util_ratio, name) for name in grid.entities(*Diskstats.util_ratio)]
    of_disks = [busy for busy in disks if busy is not None]
    if waiting is None or not of_disks or grid.entities(*Mountstats.reads_per_s):
        return None
    busy = np.sum([np.nan_to_num(values) for values in of_disks], axis=0)
    return mean((waiting - busy)[np.ones(len(grid), dtype=np.bool_) if inside is None else inside])


def is_held_above(grid: Grid, inside: Mask | None = None) -> bool:
    """Whether operations wait above the disks for a good part of the time, see `held_above`."""
    share = held_above(grid, inside)
    return share is not None and share >= HELD_MIN
