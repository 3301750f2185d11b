"""The volume as one source shows it: operations, bytes, waiting time and queue, whatever the source's names are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from volbench.core.records.named_metrics import Diskstats, NamedMetric
from volbench.core.records.sources import device_sources
from volbench.core.records.sources.info import View
from volbench.results.explain.thresholds import QUEUE_MIN
from volbench.results.stats.grid import Floats, Grid, Mask, mean, median, quantile

VIEWS: tuple[View, ...] = ("block", "files", "volume", "exporter", "vendor")
DEVICE_SOURCES = device_sources(*VIEWS)
"""In this order: what the kernel saw comes first, since it is there on every machine with a block device."""
LITTLE_TOLERANCE = 0.25
Resource = Literal["iops", "throughput"]
"""What a volume limits: operations, or bytes."""
RESOURCES: tuple[Resource, ...] = ("iops", "throughput")
MOMENTS_MIN, WHOLE_WITHIN, WHOLE_MIN, SCATTER_MIN = 12, 0.02, 0.9, 0.1
"""Samples, how near to a whole number one is (two digits are printed), how many of them are, and the median
deviation of the logarithm of their ratio to Little's law, from which on a queue is that of moments: a mean over a
second is a whole number in 4 of 100 cases, and within 3 % of Little's law where operations take less than that."""
CONSERVED_SAMPLES = 3
SAME_MAX, OTHER_MIN = 1.15, 2.0
"""What counts as the same level on both sides of a change (the lower side of thresholds.FLAT_TOLERANCE), and by how
much the other resource must change meanwhile."""
Direction = Literal["read", "write"]
DIRECTIONS: tuple[Direction, ...] = ("read", "write")
_OWN_COUNTERS = device_sources("volume", "exporter")
"""What the volume itself counts, not the kernel."""
_EMPTY_OF_FLUSHES = 0.5
"""Share of flushes taken for writes without data where the volume counts none: midway between all and none."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """One volume on a grid. Arrays have shape (buckets,), NaN where nothing is known; None: never known.

    `await_ms` is the mean over all operations of a bucket; `in_flight` their mean number, queued or in service.
    `reads`, `writes` are operations per second; `iops` is their sum, and what it is when they are not told apart.
    `empty_writes` are those of the writes that carry no data: the kernel counts a flush of its own as a write, too
    (blk_account_io_done), and no limit of a volume does. `knows_queue`: False where the recorded queue is one of
    moments, see `is_of_moments`, so that `in_flight` is by Little's law and varies as waiting times are rounded.
    `supposes_empty`: nothing counts them, and a half of
    flushes is taken for them.
    """

    source: str
    entity: str
    iops: Floats
    mib_per_s: Floats | None
    await_ms: Floats | None
    in_flight: Floats | None
    read_mib_per_s: Floats | None = None
    write_mib_per_s: Floats | None = None
    reads: Floats | None = None
    writes: Floats | None = None
    r_await_ms: Floats | None = None
    w_await_ms: Floats | None = None
    f_await_ms: Floats | None = None
    util: Floats | None = None
    knows_queue: bool = True
    empty_writes: Floats | None = None
    supposes_empty: bool = False

    @property
    def served(self) -> Floats:
        """Operations that count for a limit: those with data."""
        return self.iops if self.empty_writes is None else self.iops - self.empty_writes

    def carried(self, resource: Resource) -> Floats | None:
        """What counts for a limit of this kind, a second: operations with data, or MiB; None where not known."""
        return self.served if resource == "iops" else self.mib_per_s

    def only(self, direction: Direction) -> Device | None:
        """The operations of one direction by themselves; None where the source does not tell them apart.

        Their number in flight is their rate times their time (Little's law).
        """
        rate, await_ms = (self.reads, self.r_await_ms) if direction == "read" else (self.writes, self.w_await_ms)
        if rate is None or await_ms is None:
            return None
        mib_per_s = self.read_mib_per_s if direction == "read" else self.write_mib_per_s
        return replace(
            self,
            iops=rate,
            mib_per_s=mib_per_s,
            await_ms=await_ms,
            in_flight=rate * np.nan_to_num(await_ms) / 1000,
            reads=None,
            writes=None,
            read_mib_per_s=None,
            write_mib_per_s=None,
            empty_writes=self.empty_writes if direction == "write" else None,
        )

    @property
    def size_kib(self) -> float | None:
        """Mean size of an operation over all of the time."""
        if self.mib_per_s is None:
            return None
        both = np.isfinite(self.iops) & np.isfinite(self.mib_per_s)
        operations = float(self.iops[both].sum())
        return float(self.mib_per_s[both].sum()) * 1024 / operations if operations > 0 else None


def device_of(grid: Grid, disk: str | None = None) -> Device | None:
    """The volume behind the data directory; None when no source saw it.

    Args:
        grid: the aligned series.
        disk: kernel name of the disk, where it is known; else the device with the most operations.
    """
    for source in DEVICE_SOURCES:
        reading = set(grid.entities(*Diskstats.reads_per_s.of(source)))
        entities = reading | set(grid.entities(*Diskstats.operations_per_s.of(source)))
        if source == "emulator":
            entities = reading
        if not entities:
            continue
        if disk in entities:
            return _device(grid, source, disk)
        devices = [_device(grid, source, entity) for entity in sorted(entities)]
        return max(devices, key=lambda device: float(np.nansum(device.iops)))
    return None


def little_ratio(device: Device) -> float | None:
    """Recorded queue against IOPS x waiting time: 1 when Little's law holds; None without a recorded queue."""
    if device.in_flight is None or device.await_ms is None:
        return None
    expected = device.iops * device.await_ms / 1000
    both = np.isfinite(expected) & np.isfinite(device.in_flight)
    total = float(expected[both].sum())
    return float(device.in_flight[both].sum()) / total if total > 0 else None


def is_of_moments(queue: Floats, by_little: Floats) -> bool:
    """Whether a queue is that of the moments at which it was read, and not the mean of the time between.

    Some drivers count no time in their queue (Fusion-io's of 2013): the kernel's field then holds whole operations,
    which scatter around what Little's law makes of rate and waiting time, and are not correlated with it. Such a
    queue varies by chance, and says nothing of what a longer queue brings.

    Args:
        queue, by_little: operations in flight as recorded, and by Little's law, shape (buckets,).
    """
    both = np.isfinite(queue) & np.isfinite(by_little) & (queue > 0) & (by_little > 0)
    if int(both.sum()) < MOMENTS_MIN:
        return False
    is_whole = np.abs(queue[both] - np.round(queue[both])) <= WHOLE_WITHIN
    logarithms = np.log(queue[both] / by_little[both])
    scatter = median(np.abs(logarithms - (median(logarithms) or 0.0)))
    return bool(is_whole.mean() >= WHOLE_MIN) and scatter is not None and scatter >= SCATTER_MIN


def _device(grid: Grid, source: str, entity: str) -> Device:
    def column(metric: NamedMetric) -> Floats | None:
        return grid.column(*metric.of(source), entity)

    reads, writes = column(Diskstats.reads_per_s), column(Diskstats.writes_per_s)
    total = column(Diskstats.operations_per_s) if source != "emulator" else None
    iops = _either(total, _sum(reads, writes))
    read_mib, write_mib = column(Diskstats.read_mib_per_s), column(Diskstats.write_mib_per_s)
    r_await, w_await = column(Diskstats.r_await_ms), column(Diskstats.w_await_ms)
    waited = _either(column(Diskstats.await_ms), _weighted(reads, r_await, writes, w_await))
    in_flight = column(Diskstats.aqu_sz)
    by_little = None if iops is None or waited is None else iops * waited / 1000
    of_moments = in_flight is not None and by_little is not None and is_of_moments(in_flight, by_little)
    if in_flight is None or of_moments:
        in_flight = by_little  # mount and volume counters keep no integral of their queue
    return Device(
        source=source,
        entity=entity,
        iops=iops if iops is not None else np.full(len(grid), np.nan),
        mib_per_s=column(Diskstats.mib_per_s)
        if read_mib is None and write_mib is None
        else _sum(read_mib, write_mib),
        read_mib_per_s=read_mib,
        write_mib_per_s=write_mib,
        await_ms=waited,
        in_flight=in_flight,
        knows_queue=not of_moments,
        reads=reads,
        writes=writes,
        r_await_ms=r_await,
        w_await_ms=w_await,
        f_await_ms=column(Diskstats.f_await_ms),
        util=column(Diskstats.util_ratio),
        empty_writes=_empty_writes(grid, entity, writes, column(Diskstats.flushes_per_s))
        if source == "diskstats"
        else None,
        supposes_empty=source == "diskstats" and _own_writes(grid, entity) is None,
    )


def _either(first: Floats | None, second: Floats | None) -> Floats | None:
    """The first where it is known, else the second; shape (buckets,)."""
    if first is None or second is None:
        return second if first is None else first
    return np.where(np.isfinite(first), first, second)


def flushing_share(grid: Grid, device: Device) -> float | None:
    """Share of the time in which a flush of the device was under way, mean over the grid; None: not known.

    The kernel has one flush of a device under way at a time (block/blk-flush.c). With F of them a second of W
    seconds each, that is a share F W. Near 1, writes that wait for commits go at the rate of flushes, which is as
    even as their time: an even rate is then no sign of a limit.
    """
    flushes = grid.column(*Diskstats.flushes_per_s.of(device.source), device.entity)
    if flushes is None or device.f_await_ms is None:
        return None
    return mean(flushes * device.f_await_ms / 1000)


def _empty_writes(grid: Grid, entity: str, writes: Floats | None, flushes: Floats | None) -> Floats | None:
    """What the kernel counts as writes and the volume does not; by flushes where the volume says nothing."""
    if writes is None:
        return None
    supposed = np.zeros(len(writes)) if flushes is None else _EMPTY_OF_FLUSHES * np.nan_to_num(flushes)
    own = _own_writes(grid, entity)
    if own is not None:
        supposed = np.where(np.isfinite(own), writes - own, supposed)
    return np.clip(supposed, 0.0, writes)


def _own_writes(grid: Grid, entity: str) -> Floats | None:
    """Writes that the volume itself counts; None where it does not."""
    return next(
        (
            devices
            for source in _OWN_COUNTERS
            for name in (entity, "")
            if (devices := grid.column(*Diskstats.writes_per_s.of(source), name)) is not None
        ),
        None,
    )


def _sum(first: Floats | None, second: Floats | None) -> Floats | None:
    if first is None or second is None:
        return first if second is None else second
    return first + second


def _weighted(
    reads: Floats | None, r_await: Floats | None, writes: Floats | None, w_await: Floats | None
) -> Floats | None:
    """Mean waiting time over reads and writes; NaN where no operation ended."""
    pairs = [(n, t) for n, t in ((reads, r_await), (writes, w_await)) if n is not None and t is not None]
    if not pairs:
        return None
    weights = sum((np.where(np.isfinite(t), n, 0.0) for n, t in pairs), start=np.zeros(len(pairs[0][0])))
    total = sum((np.where(np.isfinite(t), n * t, 0.0) for n, t in pairs), start=np.zeros(len(pairs[0][0])))
    mean_ms: Floats = np.full(len(weights), np.nan)
    np.divide(total, weights, out=mean_ms, where=weights > 0)
    return mean_ms


def conserved_resource(device: Device, during: Mask) -> tuple[Resource, float, float] | None:
    """What a device gave as much of in some intervals as in the rest, while what it was asked for changed.

    Args:
        device: with a queue all the time.
        during: the intervals, shape (buckets,); those beside a change belong to neither side.

    Returns the resource, its level, and how many times the other one changed; None where neither is conserved.

    A device that takes a time of its own for an operation gives N / T of them (Little's law): with other sizes and
    another queue, neither operations nor bytes stay as they were. Bytes/s that stay while operations/s change
    OTHER_MIN times mean that an operation takes a time in proportion to its size: the device has a rate of bytes.
    Operations/s that stay while bytes/s change that much mean a rate of operations.
    """
    sides = _both_sides(during)
    if device.mib_per_s is None or device.in_flight is None or not sides:
        return None
    if min(quantile(device.in_flight[side], 0.25) or 0.0 for side in sides) < QUEUE_MIN:
        return None
    iops, moved = (_level_and_change(values, sides) for values in (device.iops, device.mib_per_s))
    if iops is None or moved is None:
        return None
    if moved[1] <= SAME_MAX and iops[1] >= OTHER_MIN:
        return "throughput", moved[0], iops[1]
    return ("iops", iops[0], moved[1]) if iops[1] <= SAME_MAX and moved[1] >= OTHER_MIN else None


def _both_sides(during: Mask) -> tuple[Mask, ...]:
    """Intervals with and without, those beside a change in neither; empty where one side has too few."""
    edges = np.flatnonzero(np.diff(during.astype(np.int8)))
    near_change = np.zeros(len(during), dtype=np.bool_)
    near_change[edges] = near_change[edges + 1] = True
    sides = (during & ~near_change, ~during & ~near_change)
    return sides if min(int(side.sum()) for side in sides) >= CONSERVED_SAMPLES else ()


def _level_and_change(values: Floats, sides: tuple[Mask, ...]) -> tuple[float, float] | None:
    """The median of both sides together, and how many times the larger of their medians is the smaller one."""
    low, high = sorted(median(values[side]) or 0.0 for side in sides)
    level = median(values[np.logical_or(*sides)])
    return (level, high / low) if low and level is not None else None
