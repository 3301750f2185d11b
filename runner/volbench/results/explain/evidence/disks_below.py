"""I/O of others at the disks below a stacked device: another logical volume, an md check, a neighbouring partition.

The device of a logical volume counts that volume's I/O alone, its disks count that of all. What the device reads
and writes reaches the disks byte by byte (Documentation/admin-guide/device-mapper/linear.rst, striped.rst), or once
for each copy of a mirror; the rest of the disks' bytes is of others. Operations are no measure: neighbouring writes
are merged below the device, and a stripe divides long ones, so they are derived from bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volbench.core.records.facts import VolumeFacts
from volbench.core.records.named_metrics import Diskstats, NamedMetric
from volbench.results.explain.evidence.device import Device
from volbench.results.explain.evidence.foreign import ForeignFlow, foreign_flow
from volbench.results.stats.grid import Floats, Grid

SOURCE = "diskstats"
SLACK = 1.1
"""Bytes at the disks for one at the device: I/O that is under way at the end of an interval, superblocks of md."""
_CONSERVING = ("LVM", "dm-crypt", "md raid0", "md linear", "disk", "nbd")
_MIRROR = "md raid1"


@dataclass(frozen=True, kw_only=True)
class DisksBelow:
    """The physical disks below a volume's device.

    Args:
        names: of the kernel.
        write_copies: how often the disks write a byte that the device writes.
    """

    names: tuple[str, ...]
    write_copies: float


def disks_below(facts: VolumeFacts) -> DisksBelow | None:
    """Return the disks of a stack that hands on what it is given, and nothing else; None for any other stack.

    Thin volumes, snapshots, caches and LVM's own mirrors have logical volumes below the logical volume; they copy,
    and what they copy is theirs. Parity writes more than it is given.
    """
    kinds = list(facts.stack.values())
    mirrors = kinds.count(_MIRROR)
    layers = [kind for kind in kinds if kind != _MIRROR]
    if not facts.lower_devices or not all(kind.startswith(_CONSERVING) for kind in layers):
        return None
    if sum(kind.startswith("LVM") for kind in kinds) > 1 or mirrors > 1:
        return None
    return DisksBelow(names=facts.lower_devices, write_copies=float(len(facts.lower_devices)) if mirrors else 1.0)


def disks_of_stack(facts: VolumeFacts) -> tuple[str, ...]:
    """Return the disks that carry a volume of more than one device; empty where the volume's device is its disk."""
    return () if facts.lower_devices in ((), (facts.disk,)) else facts.lower_devices


def foreign_below(grid: Grid, device: Device, below: DisksBelow) -> ForeignFlow | None:
    """What the disks read and write beyond the device's own bytes; None where a side is not known.

    Args:
        grid: the aligned series.
        device: the stacked device on this grid.
        below: its disks.
    """
    if device.source != SOURCE or device.read_mib_per_s is None or device.write_mib_per_s is None:
        return None
    all_reads, all_writes, all_read_mib, all_write_mib = (
        _total(grid, metric, below.names)
        for metric in (
            Diskstats.reads_per_s,
            Diskstats.writes_per_s,
            Diskstats.read_mib_per_s,
            Diskstats.write_mib_per_s,
        )
    )
    if all_reads is None or all_writes is None or all_read_mib is None or all_write_mib is None:
        return None
    copies = below.write_copies
    read_mib = _beyond(all_read_mib, device.read_mib_per_s)
    write_mib = np.zeros(len(grid)) if copies is None else _beyond(all_write_mib, copies * device.write_mib_per_s)
    reads = _ratio(read_mib, all_read_mib) * np.nan_to_num(all_reads)
    writes = _ratio(write_mib, all_write_mib) * _with_data(grid, all_writes, below)
    served = np.nan_to_num(all_reads) + _with_data(grid, all_writes, below)
    moved = np.nan_to_num(all_read_mib) + np.nan_to_num(all_write_mib)
    return ForeignFlow(
        reads=reads,
        writes=writes,
        discards=np.zeros(len(grid)),
        read_mib_per_s=read_mib,
        write_mib_per_s=write_mib,
        share=np.maximum(_ratio(reads + writes, served), _ratio(read_mib + write_mib, moved)),
        net_read_mib_per_s=np.nan_to_num(all_read_mib - device.read_mib_per_s),
        net_write_mib_per_s=(
            np.zeros(len(grid))
            if copies is None
            else np.nan_to_num(all_write_mib - copies * device.write_mib_per_s)
        ),
    )


def foreign_io(
    grid: Grid, device: Device, below: DisksBelow | None, *, direct: bool, copies: float, cell_grid: Grid
) -> ForeignFlow | None:
    """Others' I/O at the device and at the disks below it: both keep this server's operations waiting.

    Of the disks' I/O, the server's part is its part of the device's times the device's part of the disks'.

    Args:
        grid, device, direct, copies, cell_grid: see `foreign_flow`.
        below: the disks, where they are known.
    """
    flow = foreign_flow(grid, device, direct=direct, copies=copies, cell_grid=cell_grid)
    lower = None if below is None else foreign_below(grid, device, below)
    if flow is None or lower is None:
        return flow if lower is None else lower
    return ForeignFlow(
        reads=flow.reads + lower.reads,
        writes=flow.writes + lower.writes,
        discards=flow.discards,
        read_mib_per_s=flow.read_mib_per_s + lower.read_mib_per_s,
        write_mib_per_s=flow.write_mib_per_s + lower.write_mib_per_s,
        share=1 - (1 - flow.share) * (1 - lower.share),
        net_read_mib_per_s=flow.net_read_mib_per_s + lower.net_read_mib_per_s,
        net_write_mib_per_s=flow.net_write_mib_per_s + lower.net_write_mib_per_s,
    )


def _with_data(grid: Grid, writes: Floats, below: DisksBelow) -> Floats:
    """Writes without those that the kernel counts for flushes (blk_account_io_done)."""
    flushes = _total(grid, Diskstats.flushes_per_s, below.names)
    return np.maximum(0.0, np.nan_to_num(writes) - (0.0 if flushes is None else np.nan_to_num(flushes)))


def _total(grid: Grid, metric: NamedMetric, names: tuple[str, ...]) -> Floats | None:
    columns = [grid.column(*metric, name) for name in names]
    counted = [column for column in columns if column is not None]
    return np.asarray(np.sum(counted, axis=0)) if counted and len(counted) == len(columns) else None


def _beyond(values: Floats, own: Floats) -> Floats:
    return np.nan_to_num(np.maximum(0.0, values - SLACK * own))


def _ratio(values: Floats, total: Floats) -> Floats:
    finite_total = np.nan_to_num(total)
    return np.divide(np.nan_to_num(values), finite_total, out=np.zeros(len(finite_total)), where=finite_total > 0)
