"""Limits of the disks that carry a volume of several devices, judged where the limit counts.

A limit of a disk is in the disk's own counters. The device of a logical volume or an array counts operations before
they are merged or divided, waits for the slowest of its disks, and counts no flushes; a file system over several
disks shows a part of the volume in each. So a rate that a disk keeps even is uneven above it.

What comes to a disk through such a layer has its flushes apart, as operations without data: device mapper sends one
to each disk before the data (drivers/md/dm.c: __send_empty_flush), md as well (drivers/md/md.c: md_flush_request),
and btrfs to each of its disks (fs/btrfs/disk-io.c: write_dev_flush). The kernel counts each as a write of the disk,
and no limit of a volume does. A disk without writes through its cache (FUA) adds flushes that carry no operation:
then fewer operations remain than there are, and a rate is less even than it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from volbench.core.records.named_metrics import Diskstats
from volbench.results.explain import thresholds as limit
from volbench.results.explain.evidence.device import Device, device_of, flushing_share
from volbench.results.explain.evidence.levels_elsewhere import LevelElsewhere, level_elsewhere
from volbench.results.explain.evidence.limited_levels import StepLevels, limited_levels
from volbench.results.explain.evidence.limits import (
    Plateau,
    base_await_ms,
    limits_of,
    plateaus,
)
from volbench.results.explain.evidence.size_contrasts import (
    ContrastLevel,
    ContrastOutcome,
    SampledContrast,
    level_of,
)
from volbench.results.stats.grid import Floats, Grid, Mask

SOURCE = "diskstats"


@dataclass(frozen=True, kw_only=True)
class DiskLimit:
    """A limit of one disk, or of all disks together.

    Args:
        disks: names of the kernel.
        plateau: its level, in what the disks serve.
        carried: what the disks gave of the limited resource, shape (buckets,).
        elsewhere: what decides between operations and bytes, where both are flat in this step.
        size_contrast: what loads with operations of other sizes say of them.
        is_decided_elsewhere: the step by itself named both, none or the other one.
    """

    disks: tuple[str, ...]
    plateau: Plateau
    carried: Floats
    elsewhere: LevelElsewhere | None = None
    size_contrast: ContrastOutcome | None = None
    is_decided_elsewhere: bool = False


def disk_limits(
    grid: Grid,
    cell_grid: Grid,
    disks: Sequence[str],
    *,
    still: Mask,
    cpu_bound: bool,
    contrasts: Sequence[SampledContrast] = (),
) -> tuple[DiskLimit, ...]:
    """Return the limits of the disk that is at one for longest; of all together where none is by itself.

    Args:
        grid: the aligned series of the step.
        cell_grid: those of all of the cell, for the time without a queue.
        disks: that carry the volume.
        still: intervals in which the volume stood still, which are no level, shape (buckets,).
        cpu_bound: the CPUs were saturated.
        contrasts: loads with operations of other sizes.
    """
    alone = [_limits(grid, cell_grid, (disk,), still, contrasts, cpu_bound=cpu_bound) for disk in disks]
    longest = max(alone, key=_intervals, default=())
    if longest or len(disks) < 2:
        return longest
    return _limits(grid, cell_grid, tuple(disks), still, contrasts, cpu_bound=cpu_bound)


def _intervals(limits: Sequence[DiskLimit]) -> int:
    return max((limit_of_disks.plateau.last - limit_of_disks.plateau.first for limit_of_disks in limits), default=0)


def _limits(
    grid: Grid,
    cell_grid: Grid,
    disks: tuple[str, ...],
    still: Mask,
    contrasts: Sequence[SampledContrast],
    *,
    cpu_bound: bool,
) -> tuple[DiskLimit, ...]:
    device, over_all = device_of_disks(grid, disks), device_of_disks(cell_grid, disks)
    if device is None or over_all is None or _flush_all_along(grid, disks):
        return ()
    moved = None if device.mib_per_s is None else np.where(still, np.nan, device.mib_per_s)
    moving = replace(device, iops=np.where(still, np.nan, device.iops), mib_per_s=moved)
    base_ms = base_await_ms(over_all)
    levels = plateaus(grid.t_s, moving, base_await_ms=base_ms, cpu_bound=cpu_bound)
    step = StepLevels(
        limits=limits_of(levels, moving.size_kib),
        flat=levels,
        t_s=grid.t_s,
        device=moving,
        base_await_ms=base_ms,
        cpu_bound=cpu_bound,
    )
    limited = limited_levels(
        step,
        [*levels_of_disks(contrasts, disks)],
        lambda now: level_elsewhere(now, cell_grid.t_s, over_all, counts_flushes=True),
    )
    return tuple(
        DiskLimit(
            disks=disks,
            plateau=plateau,
            carried=carried,
            elsewhere=limited.elsewhere,
            size_contrast=limited.contrast,
            is_decided_elsewhere=limited.is_decided_elsewhere,
        )
        for plateau in limited.limits
        if (carried := device.carried(plateau.resource)) is not None
    )


def levels_of_disks(contrasts: Sequence[SampledContrast], disks: Sequence[str]) -> Iterator[ContrastLevel]:
    """Yield the levels of the disks in contrasts."""
    for sampled in contrasts:
        device = device_of_disks(sampled.grid, disks)
        level = None if device is None else level_of(device, sampled)
        if level is not None:
            yield level


def _flush_all_along(grid: Grid, disks: Sequence[str]) -> bool:
    """Whether each disk has a flush under way nearly all the time: its rate is then that of flushes."""
    each = [_alone(grid, disk) for disk in disks]
    shares = [None if device is None else flushing_share(grid, device) for device in each]
    return all(share is not None and share >= limit.FLUSHING_MIN for share in shares)


def device_of_disks(grid: Grid, disks: Sequence[str]) -> Device | None:
    """One disk, or several as if they were one; None where one of them is not counted."""
    every = [_alone(grid, disk) for disk in disks]
    counted = [device for device in every if device is not None]
    if not counted or len(counted) < len(every):
        return None
    return counted[0] if len(counted) == 1 else _together(counted)


def _alone(grid: Grid, disk: str) -> Device | None:
    """A disk without the operations that are its flushes."""
    device = device_of(grid, disk) if disk in grid.entities(*Diskstats.reads_per_s) else None
    if device is None or device.source != SOURCE or device.entity != disk or device.writes is None:
        return None
    flushes = grid.column(*Diskstats.flushes_per_s, disk)
    if flushes is None or not device.supposes_empty:
        return device
    return replace(device, empty_writes=np.clip(np.nan_to_num(flushes), 0.0, device.writes))


def _together(devices: Sequence[Device]) -> Device:
    """All of them as one: operations, bytes and queues added, waiting times as means over operations."""
    queues = [device.in_flight for device in devices if device.in_flight is not None]
    queues_of_disks = [
        device.iops * np.nan_to_num(device.await_ms) for device in devices if device.await_ms is not None
    ]
    iops = np.asarray(np.sum([device.iops for device in devices], axis=0))
    await_ms: Floats | None = None
    if len(queues_of_disks) == len(devices):
        await_ms = np.full(len(iops), np.nan)
        np.divide(np.sum(queues_of_disks, axis=0), iops, out=await_ms, where=iops > 0)
    return Device(
        source=SOURCE,
        entity=devices[0].entity,
        iops=iops,
        mib_per_s=_sum([device.mib_per_s for device in devices]),
        read_mib_per_s=_sum([device.read_mib_per_s for device in devices]),
        write_mib_per_s=_sum([device.write_mib_per_s for device in devices]),
        await_ms=await_ms,
        in_flight=np.asarray(np.sum(queues, axis=0)) if len(queues) == len(devices) else None,
        reads=_sum([device.reads for device in devices]),
        writes=_sum([device.writes for device in devices]),
        knows_queue=all(device.knows_queue for device in devices),
        empty_writes=_sum([device.empty_writes for device in devices]),
        supposes_empty=any(device.supposes_empty for device in devices),
    )


def _sum(columns: Sequence[Floats | None]) -> Floats | None:
    counted = [column for column in columns if column is not None]
    return np.asarray(np.sum(counted, axis=0)) if len(counted) == len(columns) else None
