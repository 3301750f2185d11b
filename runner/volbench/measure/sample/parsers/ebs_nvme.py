"""The NVMe log page 0xD0 of Amazon EBS volumes: 4,096 bytes, little-endian.

It tells a volume that is too small from an instance that is too small: time above the limit of either is counted.
Source: the EBS user guide's "detailed performance statistics" and the amazon-ec2-utils that read them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from volbench.core.base.text import counted

LOG_PAGE_ID = 0xD0
LOG_PAGE_BYTES = 4096
MAGIC = 0x3C23B510
BINS_MAX = 64
_COUNTERS = struct.Struct("<11Q")
_COUNTERS_OFFSET = 8
_READ_HISTOGRAM_OFFSET, _WRITE_HISTOGRAM_OFFSET = 512, 2056
_COUNT = struct.Struct("<Q")
_BIN = struct.Struct("<QQII")


@dataclass(frozen=True, kw_only=True, slots=True)
class LatencyBin:
    """Operations that took from `lower_us` up to `upper_us`."""

    lower_us: int
    upper_us: int
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class EbsStatistics:
    """Since the volume was attached; times in microseconds. `queue_length` is of the moment."""

    reads: int
    writes: int
    read_bytes: int
    write_bytes: int
    read_us: int
    write_us: int
    volume_exceeded_iops_us: int
    volume_exceeded_throughput_us: int
    instance_exceeded_iops_us: int
    instance_exceeded_throughput_us: int
    queue_length: int
    read_latency: tuple[LatencyBin, ...] = ()
    write_latency: tuple[LatencyBin, ...] = ()


_FIELDS = tuple(EbsStatistics.__slots__)[:11]


def parse_log_page(page: bytes) -> EbsStatistics:
    """Return the statistics in a log page. Raises ValueError for another size, or without the magic number."""
    if len(page) != LOG_PAGE_BYTES:
        raise ValueError(f"the log page has {counted(len(page), 'byte')} instead of {LOG_PAGE_BYTES}")
    (magic,) = struct.unpack_from("<I", page)
    if magic != MAGIC:
        raise ValueError(f"the log page begins with {magic:#x}: the device is not an EBS volume")
    counters = dict(zip(_FIELDS, _COUNTERS.unpack_from(page, _COUNTERS_OFFSET), strict=True))
    return EbsStatistics(
        **counters,
        read_latency=_histogram(page, _READ_HISTOGRAM_OFFSET),
        write_latency=_histogram(page, _WRITE_HISTOGRAM_OFFSET),
    )


def _histogram(page: bytes, offset: int) -> tuple[LatencyBin, ...]:
    (size,) = _COUNT.unpack_from(page, offset)
    if size > BINS_MAX:
        raise ValueError(f"a histogram of {size} bins: at most {BINS_MAX} fit")
    first = offset + _COUNT.size
    bins = (_BIN.unpack_from(page, first + number * _BIN.size) for number in range(size))
    return tuple(LatencyBin(lower_us=lower, upper_us=upper, count=count) for lower, upper, count, _ in bins)
