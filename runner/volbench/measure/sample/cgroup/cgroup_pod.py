"""The accounts of a container of a pod: each container sees its own control group as the root of the hierarchy."""

from __future__ import annotations

from pathlib import Path

from volbench.measure.sample.cgroup.cgroup_cpu import QUOTA, STAT, USAGE
from volbench.measure.sample.cgroup.cgroup_io import V2_FILE

CGROUPS = Path("/sys/fs/cgroup")


def cgroup_root_of(process_id: int) -> Path:
    """Return the control groups as that process's container sees them.

    The pod's containers share their processes.
    """
    return Path(f"/proc/{process_id}/root/sys/fs/cgroup")


def own_cpu_files(root: Path) -> tuple[str, ...]:
    """Return the files with the CPU account of the container whose control groups are at `root`."""
    if _exists(root / QUOTA):
        return (str(root / STAT),)
    files = (root / "cpu" / STAT, root / "cpuacct" / USAGE)
    return tuple(map(str, files)) if all(map(_exists, files)) else ()


def own_io_directory(root: Path) -> Path | None:
    """Return the directory with its I/O account; version 1 keeps none for a group without limits."""
    return root if _exists(root / V2_FILE) else None


def _exists(file: Path) -> bool:
    """Another user's process keeps its root to itself."""
    try:
        return file.exists()
    except PermissionError:
        return False
