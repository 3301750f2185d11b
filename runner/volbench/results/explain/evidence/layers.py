"""Layer accounting: the same operations counted at each layer between the server and the volume.

Layers from top to bottom: the server's files (performance_schema), the server's control group (cgroup_io), the
block device (diskstats), the volume's own counters. Units at each layer: operations/s, MiB/s, and operations in
flight.

Derivation. Little's law holds at every layer and for every part of the operations: N = X * T, with N operations in
flight (1), X operations/s, T seconds that each takes. A timer that adds up the time of all operations grows by N
seconds in each second, so N needs no assumption about arrivals. The layers are nested: an operation that the server
waits for is in flight in the server from its call to its return, and in flight at the device for a part of that
time.

    N(server) = N(above the device) + N(device, own operations)
    N(device) = N(device, own operations) + N(device, foreign operations)

Both right-hand terms are at least 0, hence N(above) >= N(server) - N(device): `operations_above` is a lower bound.
Foreign operations and the server's asynchronous read-ahead only make it smaller. Hits of a page cache take no time
and stay in the server's count, so the bound needs no equal number of operations.

Bytes are conserved downwards, too: `evidence.foreign`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from volbench.core.records.named_metrics import CgroupIo, Diskstats, NamedMetric, PerformanceSchema
from volbench.results.explain.evidence.device import Device, Direction
from volbench.results.stats.grid import Floats, Grid, Mask, median, true_runs

Operation = Literal["read", "write", "sync"]
_OF_FILES: dict[Operation, tuple[NamedMetric, NamedMetric, NamedMetric | None]] = {
    "read": (
        PerformanceSchema.file_reads_per_s,
        PerformanceSchema.file_read_s_per_s,
        PerformanceSchema.file_read_mib_per_s,
    ),
    "write": (
        PerformanceSchema.file_writes_per_s,
        PerformanceSchema.file_write_s_per_s,
        PerformanceSchema.file_write_mib_per_s,
    ),
    "sync": (PerformanceSchema.file_syncs_per_s, PerformanceSchema.file_sync_s_per_s, None),
}
"""Operations of the server's files: their number, their seconds and their bytes."""
_OF_GROUP: dict[Direction, tuple[NamedMetric, NamedMetric, NamedMetric]] = {
    "read": (CgroupIo.read_ops_per_s, CgroupIo.reads_per_s, CgroupIo.read_mib_per_s),
    "write": (CgroupIo.write_ops_per_s, CgroupIo.writes_per_s, CgroupIo.write_mib_per_s),
}
"""Operations of a control group below its limits, those that are kept by device, and bytes."""
_LIMITS: dict[Direction, dict[Literal["iops", "throughput"], NamedMetric]] = {
    "read": {"iops": CgroupIo.read_iops_max, "throughput": CgroupIo.read_mib_per_s_max},
    "write": {"iops": CgroupIo.write_iops_max, "throughput": CgroupIo.write_mib_per_s_max},
}
SERVER = "server"
"""The entity of the server's control group."""
_MAPPED = "dm-"
"""Of device mapper's kernel names."""
LOGS = ("redo", "binlog")


@dataclass(frozen=True, kw_only=True)
class Flow:
    """Operations of one kind at one layer. Arrays have shape (buckets,), NaN where nothing is known.

    Args:
        layer: its name, as a report says it.
        rate: operations/s.
        in_flight: mean number of operations queued or in service; None: not known.
        mib_per_s: None: not known.
    """

    layer: str
    rate: Floats
    in_flight: Floats | None = None
    mib_per_s: Floats | None = None

    @property
    def each_ms(self) -> float | None:
        """Mean time of one operation over all buckets: sum of N against sum of X; None without an operation."""
        if self.in_flight is None:
            return None
        both = np.isfinite(self.rate) & np.isfinite(self.in_flight)
        total = float(self.rate[both].sum())
        return 1000 * float(self.in_flight[both].sum()) / total if total > 0 else None

    @property
    def each_ms_series(self) -> Floats | None:
        """The same in each bucket, shape (buckets,); NaN without an operation."""
        if self.in_flight is None:
            return None
        values: Floats = np.full(len(self.rate), np.nan)
        np.divide(1000 * self.in_flight, self.rate, out=values, where=self.rate > 0)
        return values

    @property
    def size_kib(self) -> float | None:
        """Mean size of one operation; None where it is not known."""
        if self.mib_per_s is None:
            return None
        both = np.isfinite(self.rate) & np.isfinite(self.mib_per_s)
        total = float(self.rate[both].sum())
        return 1024 * float(self.mib_per_s[both].sum()) / total if total > 0 else None


def server_flow(grid: Grid, operation: Operation, kinds: tuple[str, ...] | None = None) -> Flow | None:
    """Operations of the server's files as performance_schema counts them; None where it does not.

    Args:
        grid: the aligned series.
        operation: of the kind `sync`, performance_schema also counts opening, closing and stat.
        kinds: classes of files; None: all of them.
    """
    counts, seconds, moved = _OF_FILES[operation]
    chosen = [kind for kind in grid.entities(*counts) if kinds is None or kind in kinds]
    rate = summed(grid, counts, chosen)
    if rate is None:
        return None
    return Flow(
        layer="the server's files",
        rate=rate,
        in_flight=summed(grid, seconds, chosen),
        mib_per_s=None if moved is None else summed(grid, moved, chosen),
    )


def cgroup_flow(grid: Grid, direction: Direction, disk: str = "") -> Flow | None:
    """Operations of the server's control group below its limits; None where nothing counted them.

    Args:
        grid: the aligned series.
        direction: reads or writes.
        disk: kernel name of the volume's disk, for accounts that are kept by device.
    """
    below_limits, by_device, moved = _OF_GROUP[direction]
    for entity, metric in ((SERVER, below_limits), (disk, by_device)):
        rate = grid.column(*metric, entity)
        if rate is not None:
            bytes_ = grid.column(*moved, entity)
            return Flow(layer="the server's control group", rate=rate, mib_per_s=bytes_)
    return None


def device_flow(device: Device, direction: Direction) -> Flow | None:
    """Operations of one direction at the device, foreign ones included; None where it does not tell them apart."""
    view = device.only(direction)
    if view is None:
        return None
    return Flow(layer="the device", rate=view.iops, in_flight=view.in_flight, mib_per_s=view.mib_per_s)


def flush_ms(grid: Grid, device: Device, disks: Sequence[str] = ()) -> float:
    """Mean time of a flush over all of them, or the median of intervals where none is counted; 0: none was sent.

    Args:
        grid: the aligned series.
        device: the volume.
        disks: kernel names of those below a stacked device. Device mapper counts a flush as a write without data
            (bio_start_io_acct): where the disks below have flushes, and it has none, one takes what a write does.
            A loop device counts its own; the disk with its file has those of everybody.
    """
    rate, each_ms = grid.column(*Diskstats.flushes_per_s.of(device.source), device.entity), device.f_await_ms
    if rate is None or each_ms is None:
        sent = [grid.column(*Diskstats.flushes_per_s.of(device.source), disk) for disk in disks]
        writes = device_flow(device, "write")
        if (
            each_ms is None
            and device.entity.startswith(_MAPPED)
            and writes is not None
            and any(np.nansum(column) > 0 for column in sent if column is not None)
        ):
            return writes.each_ms or 0.0
        return median(each_ms) or 0.0
    total = float(np.nansum(rate))
    return float(np.nansum(rate * each_ms)) / total if total > 0 else 0.0


def operations_above(upper: Flow, lower: Flow) -> Floats | None:
    """Operations in flight between two layers, at least: N(upper) - N(lower), 0 where that is negative.

    Args:
        upper, lower: the same operations at both layers, arrays of shape (buckets,).

    Returns shape (buckets,), NaN where either is not known; None where a layer counts no time.
    """
    if upper.in_flight is None or lower.in_flight is None:
        return None
    return np.maximum(0.0, upper.in_flight - lower.in_flight)


def time_above_ms(upper: Flow, lower: Flow) -> float | None:
    """Milliseconds that one operation of the upper layer waits between two layers, at least; None: not known.

    Little's law for the space between both: T = N(above) / X(upper).
    """
    above = operations_above(upper, lower)
    if above is None:
        return None
    both = np.isfinite(above) & np.isfinite(upper.rate)
    total = float(upper.rate[both].sum())
    return 1000 * float(above[both].sum()) / total if total > 0 else None


def configured_limits(grid: Grid, direction: Direction) -> dict[Literal["iops", "throughput"], Floats]:
    """The tightest limits of the server's control group and its ancestors, by resource; operations/s, MiB/s."""
    columns = {resource: grid.column(*metric, SERVER) for resource, metric in _LIMITS[direction].items()}
    return {resource: column for resource, column in columns.items() if column is not None}


def stretches(active: Mask, *, gap: int, least: int) -> tuple[tuple[int, int], ...]:
    """First and last + 1 bucket of stretches of a mask; shorter gaps than `gap` are closed, short stretches go.

    Args:
        active: shape (buckets,).
        gap: buckets of a gap that ends a stretch.
        least: buckets that a stretch has at least.
    """
    joined: list[tuple[int, int]] = []
    for first, last in true_runs(active):
        if joined and first - joined[-1][1] < gap:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return tuple(pair for pair in joined if int(active[slice(*pair)].sum()) >= least)


def summed(grid: Grid, metric: NamedMetric, kinds: list[str]) -> Floats | None:
    """A metric of some classes of files together, shape (buckets,); None where none of them is known."""
    columns = [column for kind in kinds if (column := grid.column(*metric, kind)) is not None]
    return np.asarray(np.sum(columns, axis=0)) if columns else None
