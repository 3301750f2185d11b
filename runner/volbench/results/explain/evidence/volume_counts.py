"""What this host sent and what the volume counted of it, by direction: both counts are of the same operations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from volbench.core.records.named_metrics import Diskstats, EbsNvme, NamedMetric
from volbench.results.explain.evidence.device import Device, Direction, device_of
from volbench.results.explain.evidence.foreign import FOREIGN_OPERATIONS_MIN
from volbench.results.explain.evidence.layers import cgroup_flow
from volbench.results.stats.grid import Floats, Grid

VOLUME_SOURCES = ("ebs_nvme", "ebs_csi", "emulator", "cloudwatch")
_OF_VOLUME: dict[Direction, tuple[NamedMetric, NamedMetric]] = {
    "read": (EbsNvme.reads_per_s, EbsNvme.read_mib_per_s),
    "write": (EbsNvme.writes_per_s, EbsNvme.write_mib_per_s),
}
SAME_BYTES = 0.15
"""Bytes of both sides are the same within this share: the two are not read at the same moment."""
SPLIT_MIN = 1.5
"""Operations of the volume for one of the host's, from which operations are split."""
PIECE_KIB = 16.0
"""The smallest piece that a volume, or an array over several, makes of an operation: the vendor's is 256 KiB, a
stripe is seldom below 64."""
KIB_PER_MIB = 1024.0


@dataclass(frozen=True, kw_only=True)
class Count:
    """Operations/s and MiB/s (None: not known) of one direction, host and volume, arrays of shape (buckets,)."""

    noun: str
    host: Floats
    volume: Floats
    host_mib: Floats | None
    volume_mib: Floats | None

    @property
    def beyond(self) -> Floats:
        """Operations/s of the volume that nothing of the host explains, at least; shape (buckets,)."""
        allowed = self.host * (1 + SAME_BYTES)
        if self.volume_mib is None:
            if self.host_mib is None:
                return np.zeros(len(self.host))
            allowed = allowed + self.host_mib * KIB_PER_MIB / PIECE_KIB
        elif self.host_mib is not None:
            extra = np.nan_to_num(self.volume_mib - self.host_mib * (1 + SAME_BYTES))
            share = np.divide(extra, self.volume_mib, out=np.zeros(len(extra)), where=self.volume_mib > 0)
            allowed = np.fmax(allowed, self.volume * (1 - np.clip(share, 0.0, 1.0)))
        return np.clip(np.nan_to_num(self.volume - allowed), 0.0, None)

    @property
    def by_others(self) -> Floats:
        """Operations/s of others, shape (buckets,): the difference; without bytes what is beyond any pieces."""
        if self.volume_mib is None:
            return self.beyond
        return np.where(self.beyond > 0, np.nan_to_num(self.volume - self.host), 0.0)

    @property
    def is_split(self) -> bool:
        """Whether the volume counts the same bytes in clearly more operations."""
        sent, counted = _total(self.host_mib), _total(self.volume_mib)
        operations = _total(self.volume)
        if (
            not sent
            or not counted
            or not operations
            or operations / max(len(self.host), 1) < FOREIGN_OPERATIONS_MIN
        ):
            return False
        return abs(counted / sent - 1) <= SAME_BYTES and operations >= SPLIT_MIN * (_total(self.host) or np.inf)


def volume_counts(grid: Grid, device: Device | None) -> Iterator[Count]:
    """Yield each direction that both sides count, on buckets that are whole periods of the volume's counters.

    Args:
        grid: the aligned series.
        device: the volume as the host sees it.
    """
    source = None if device is None else _volume_entity(grid, device)
    if device is None or source is None or device.source in VOLUME_SOURCES:
        return
    device = _whole_disk(grid, device, source[1])
    pairs: list[tuple[str, Direction]] = [("reads", "read"), ("writes", "write")]
    counts = [count for noun, direction in pairs if (count := _count(grid, device, source, noun, direction))]
    yield from counts or [count for count in [_both(grid, device, source)] if count is not None]


def _whole_disk(grid: Grid, device: Device, entity: str) -> Device:
    """The disk that the volume's counters are of, where the host counts it; else the device.

    What lies on a disk, a partition or a logical volume, has a part of what this host sends there.
    """
    if entity not in grid.entities(*Diskstats.reads_per_s.of(device.source)):
        return device
    return device_of(grid, entity) or device


def _count(grid: Grid, device: Device, source: tuple[str, str], noun: str, direction: Direction) -> Count | None:
    host = device.reads if direction == "read" else device.writes
    host_mib = device.read_mib_per_s if direction == "read" else device.write_mib_per_s
    counts, moved = _OF_VOLUME[direction]
    volume = grid.column(*counts.of(source[0]), source[1])
    if host is None or volume is None:
        return None
    group = cgroup_flow(grid, direction, device.entity)
    host = host if group is None else np.fmax(host, group.rate)  # a kernel may merge before the device counts
    volume_mib = grid.column(*moved.of(source[0]), source[1])
    return _in_periods(Count(noun=noun, host=host, volume=volume, host_mib=host_mib, volume_mib=volume_mib))


def _both(grid: Grid, device: Device, source: tuple[str, str]) -> Count | None:
    """Reads and writes together, for a host that counts only their sum."""
    rates = [grid.column(*counts.of(source[0]), source[1]) for counts, _ in _OF_VOLUME.values()]
    counted = [rate for rate in rates if rate is not None]
    if not counted:
        return None
    sizes = [grid.column(*moved.of(source[0]), source[1]) for _, moved in _OF_VOLUME.values()]
    mib = [size for size in sizes if size is not None]
    has_all_sizes = len(mib) == len(counted)
    return _in_periods(
        Count(
            noun="operations",
            host=device.iops,
            volume=np.sum([np.nan_to_num(rate) for rate in counted], axis=0),
            host_mib=device.mib_per_s,
            volume_mib=np.sum([np.nan_to_num(size) for size in mib], axis=0) if has_all_sizes else None,
        )
    )


def _volume_entity(grid: Grid, device: Device) -> tuple[str, str] | None:
    """Source and entity of the volume's own counters: the device's, or the only ones there are."""
    for source in VOLUME_SOURCES:
        entities = grid.entities(*EbsNvme.reads_per_s.of(source)) or grid.entities(*EbsNvme.writes_per_s.of(source))
        if device.entity in entities:
            return source, device.entity
        if len(entities) == 1:
            return source, entities[0]
    return None


def _in_periods(count: Count) -> Count:
    """With the host's figures averaged over the volume's periods: a sample of CloudWatch is about many buckets."""
    starts = np.flatnonzero(np.concatenate([[True], np.diff(np.nan_to_num(count.volume, nan=-1.0)) != 0]))
    period = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(count.volume))))

    def averaged(values: Floats | None) -> Floats | None:
        if values is None:
            return None
        finite = np.isfinite(values)
        weights = np.bincount(period, finite, minlength=len(starts))
        sums = np.bincount(period, np.where(finite, values, 0.0), minlength=len(starts))
        means = np.divide(sums, weights, out=np.full(len(starts), np.nan), where=weights > 0)
        return np.asarray(means[period], dtype=np.float64)

    host = averaged(count.host)
    return replace(count, host=count.host if host is None else host, host_mib=averaged(count.host_mib))


def _total(values: Floats | None) -> float | None:
    return None if values is None else float(np.nansum(values))
