"""Source `diskstats`: the block device behind the data directory, with iostat's formulas.

`util_ratio` says that something was in flight, not that the device could do no more: a volume throttled to 150
operations a second shows 1.0. It is never headroom.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from volbench.core.records.series import SeriesRow
from volbench.machine.host.sysfs import SYS, counts_flushes
from volbench.measure.sample.change import MIB, Change, ratio
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.files import KernelFile
from volbench.measure.sample.interface import Reading, Sampler, Unavailable, Values
from volbench.measure.sample.parsers.diskstats import SECTOR_BYTES, parse_diskstats
from volbench.measure.sample.shared import Shared

_SECTORS_PER_MIB = MIB // SECTOR_BYTES
_KIB_PER_SECTOR = SECTOR_BYTES / 1024
_FLUSHES = ("flushes", "flush_ms")
_MONOTONE = ("reads", "reads_merged", "read_sectors", "writes", "writes_merged", "write_sectors")


class DiskStats(Sampler):
    """Reads the lines of some devices.

    Args:
        disks: kernel names such as nvme1n1; whole disks, since partitions count no flushes.
        path: /proc/diskstats.
        sys: sysfs, which tells devices that count flushes from those that do not: device mapper, md.
    """

    source: ClassVar[str] = "diskstats"

    def __init__(self, disks: Sequence[str], path: Path = Path("/proc/diskstats"), *, sys: Path = SYS) -> None:
        self._disks = frozenset(disks)
        self._without_flushes = frozenset(disk for disk in disks if not counts_flushes(disk, sys=sys))
        self._file = KernelFile(path)

    @classmethod
    @override
    def from_config(cls, config: SamplingConfig, shared: Shared) -> Sampler:
        """Return the sampler."""
        return cls(config.disks)

    def read(self) -> Values:
        """Return every counter of every device that is there."""
        if not self._disks:
            raise Unavailable("no block device is behind the data directory")
        counters_by_disk = parse_diskstats(self._file.read(), self._disks)
        if not counters_by_disk:
            raise Unavailable(f"{self._file.path} has no line for {', '.join(sorted(self._disks))}")
        return {
            (name, disk): value
            for disk, counters in counters_by_disk.items()
            for name, value in asdict(counters).items()
            if value is not None and not (name in _FLUSHES and disk in self._without_flushes)
        }

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @staticmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """iostat's columns for each device. A device whose counters went backwards was replaced: no row."""
        change = Change(source=DiskStats.source, before=before, after=after)
        if not change.usable:
            return
        for disk in change.entities("reads"):
            if change.grown_sum(_MONOTONE, disk) is not None:
                yield from change.rows(_rates_of(change, disk), disk)


def _rates_of(change: Change, disk: str) -> Iterator[tuple[str, float | None]]:
    """Source of the formulas: sysstat's iostat(1); an average over no request is absent, not 0."""
    yield "reads_per_s", change.per_s("reads", disk)
    yield "writes_per_s", change.per_s("writes", disk)
    yield "discards_per_s", change.per_s("discards", disk)
    yield "flushes_per_s", change.per_s("flushes", disk)
    yield "reads_merged_per_s", change.per_s("reads_merged", disk)
    yield "writes_merged_per_s", change.per_s("writes_merged", disk)
    yield "read_mib_per_s", change.per_s("read_sectors", disk, unit=_SECTORS_PER_MIB)
    yield "write_mib_per_s", change.per_s("write_sectors", disk, unit=_SECTORS_PER_MIB)
    reads, writes = change.grown("reads", disk), change.grown("writes", disk)
    yield "r_await_ms", ratio(change.grown_32bit("read_ms", disk), reads)
    yield "w_await_ms", ratio(change.grown_32bit("write_ms", disk), writes)
    yield "d_await_ms", ratio(change.grown_32bit("discard_ms", disk), change.grown("discards", disk))
    yield "f_await_ms", ratio(change.grown_32bit("flush_ms", disk), change.grown("flushes", disk))
    yield "r_size_kib", ratio(change.grown("read_sectors", disk), reads, scale=_KIB_PER_SECTOR)
    yield "w_size_kib", ratio(change.grown("write_sectors", disk), writes, scale=_KIB_PER_SECTOR)
    dt_ms = change.dt_s * 1000
    yield "aqu_sz", ratio(change.grown_32bit("weighted_ms", disk), dt_ms)
    yield "util_ratio", _at_most_one(ratio(change.grown_32bit("busy_ms", disk), dt_ms))
    yield "in_flight", change.gauge("in_flight", disk)


def _at_most_one(value: float | None) -> float | None:
    """Return a share of busy time, at most 1: the kernel counts whole ticks, which may exceed an interval."""
    return None if value is None else min(value, 1.0)
