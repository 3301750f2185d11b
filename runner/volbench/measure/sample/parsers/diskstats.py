"""/proc/diskstats: 14 columns, 18 with discards (Linux 4.18), 20 with flushes (5.5)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

SECTOR_BYTES = 512
"""The unit of the sector fields, whatever the device's own blocks are."""
_COLUMNS = (14, 18, 20)


@dataclass(frozen=True, kw_only=True, slots=True)
class DiskCounters:
    """One device since boot. Times are ms in 32 bits and wrap; None: this kernel does not count it."""

    reads: int
    reads_merged: int
    read_sectors: int
    read_ms: int
    writes: int
    writes_merged: int
    write_sectors: int
    write_ms: int
    in_flight: int
    busy_ms: int
    weighted_ms: int
    discards: int | None = None
    discards_merged: int | None = None
    discard_sectors: int | None = None
    discard_ms: int | None = None
    flushes: int | None = None
    flush_ms: int | None = None


_FIELDS = tuple(DiskCounters.__slots__)


def parse_diskstats(text: str, devices: Collection[str] | None = None) -> dict[str, DiskCounters]:
    """Return counters of each device, or of those of `devices` that are there.

    Columns beyond the twentieth, of a later kernel, are left out. Raises ValueError for a line that is no
    diskstats line. Source: Documentation/admin-guide/iostats.rst.
    """
    counters: dict[str, DiskCounters] = {}
    for line in text.splitlines():
        columns = line.split()
        if not columns or (devices is not None and len(columns) > 2 and columns[2] not in devices):
            continue
        column_count = max((size for size in _COLUMNS if size <= len(columns)), default=0)
        if not column_count:
            raise ValueError(f"not a line of diskstats: {line!r}")
        counters[columns[2]] = DiskCounters(**dict(zip(_FIELDS, map(int, columns[3:column_count]), strict=False)))
    return counters
