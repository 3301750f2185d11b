"""Bytes that a volume's device or server has delivered so far, to check reads that claim to be cold."""

from __future__ import annotations

from pathlib import Path

from volbench.records.facts import VolumeFacts
from volbench.volume.mountinfo import unescape

SECTOR_BYTES = 512
PROC = Path("/proc")


def device_read_bytes(facts: VolumeFacts, *, proc: Path = PROC) -> int | None:
    """Bytes read from the volume's block device, or from its NFS server, since it was attached or mounted.

    Take it before and after; the difference is what was delivered. None when nothing counts it (tmpfs, FUSE).
    """
    if facts.nfs_server is not None and facts.mount_point is not None:
        text = _read(proc / "self/mountstats")
        return None if text is None else mountstats_read_bytes(text, facts.mount_point)
    text = _read(proc / "diskstats")
    for device in (facts.device, facts.disk):
        if text is not None and device is not None:
            found = diskstats_read_bytes(text, device)
            if found is not None:
                return found
    return None


def diskstats_read_bytes(text: str, device: str) -> int | None:
    """The device's sectors read, in bytes; None when it is not listed. Format: the kernel's admin-guide/iostats."""
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 14 and fields[2] == device:
            return int(fields[5]) * SECTOR_BYTES
    return None


def mountstats_read_bytes(text: str, mount_point: str) -> int | None:
    """Bytes that the server sent for reads of one NFS mount: the fifth of the `bytes:` line, server_read.

    With several mounts at one place the last counts, as for the kernel.
    """
    found, here = None, False
    for line in text.splitlines():
        if line.startswith("device "):
            _, _, rest = line.partition(" mounted on ")
            here = unescape(rest.partition(" with fstype ")[0]) == mount_point and " with fstype nfs" in line
        elif here and line.strip().startswith("bytes:"):
            fields = line.split()
            found = int(fields[5]) if len(fields) >= 7 else None
    return found


def _read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
