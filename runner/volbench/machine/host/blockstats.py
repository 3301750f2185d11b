"""Bytes that a volume's device or server has delivered so far, to check cold reads, and a disk's operations."""

from __future__ import annotations

from pathlib import Path

from volbench.core.base.mountinfo import unescape
from volbench.core.records.facts import VolumeFacts

SECTOR_BYTES = 512
PROC = Path("/proc")


def device_read_bytes(facts: VolumeFacts, *, proc: Path = PROC) -> int | None:
    """Return bytes read from the volume's block device or NFS server since it was attached or mounted.

    The difference of two readings is what was delivered. None without a counter (tmpfs, FUSE).
    """
    if facts.nfs_server is not None and facts.mount_point is not None:
        text = _read(proc / "self/mountstats")
        return None if text is None else mountstats_read_bytes(text, facts.mount_point)
    text = _read(proc / "diskstats")
    if facts.filesystem == "btrfs" and facts.lower_devices and text is not None:
        counted = [diskstats_read_bytes(text, disk) for disk in facts.lower_devices]
        return sum(filter(None, counted)) if any(value is not None for value in counted) else None
    for device in (facts.device, facts.disk):
        if text is not None and device is not None:
            read_bytes = diskstats_read_bytes(text, device)
            if read_bytes is not None:
                return read_bytes
    return None


def diskstats_read_bytes(text: str, device: str) -> int | None:
    """Return the device's read bytes; None if it is not listed. Format: the kernel's admin-guide/iostats."""
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 14 and fields[2] == device:
            return int(fields[5]) * SECTOR_BYTES
    return None


def disk_operations(disk: str, *, proc: Path = PROC) -> int | None:
    """Return how many reads and writes a disk has completed; None if it is not listed."""
    text = _read(proc / "diskstats")
    for line in (text or "").splitlines():
        fields = line.split()
        if len(fields) >= 14 and fields[2] == disk:
            return int(fields[3]) + int(fields[7])
    return None


def mountstats_read_bytes(text: str, mount_point: str) -> int | None:
    """Return the bytes that the server sent for reads of one NFS mount: field 5 of the `bytes:` line, server_read.

    Of several mounts on one mount point the last one counts, as for the kernel.
    """
    read_bytes, in_mount = None, False
    for line in text.splitlines():
        if line.startswith("device "):
            _, _, after_device = line.partition(" mounted on ")
            in_mount = (
                unescape(after_device.partition(" with fstype ")[0]) == mount_point and " with fstype nfs" in line
            )
        elif in_mount and line.strip().startswith("bytes:"):
            fields = line.split()
            read_bytes = int(fields[5]) if len(fields) >= 7 else None
    return read_bytes


def _read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
