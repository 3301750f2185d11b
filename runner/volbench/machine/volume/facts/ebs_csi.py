"""What ties a pod's disk to its EBS volume, and to the metrics of the CSI driver that attached it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

VARIABLE = "VOLBENCH_EBS_CSI"
"""Names the driver's metrics, in the environment of an agent that runs in a pod."""
_BLOCKS = Path("/sys/block")


def driver_url() -> str:
    """Return the URL of the metrics of this node's driver; empty if not configured."""
    return os.environ.get(VARIABLE, "")


def ebs_volume_id(disk: str | None, blocks: Path = _BLOCKS) -> str:
    """Return the id of an EBS volume by its kernel name, whose serial number it is; empty for any other disk."""
    if disk is None:
        return ""
    try:
        serial = (blocks / disk / "device" / "serial").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
    return f"vol-{serial.removeprefix('vol').removeprefix('-')}" if serial.startswith("vol") else ""


def nvme_devices(disks: Sequence[str]) -> tuple[str, ...]:
    """Return the device files of those disks that are NVMe devices, which may have counters of their own."""
    return tuple(f"/dev/{disk}" for disk in disks if disk.startswith("nvme"))
