"""A CPU quota for a container, written to its control group.

The engine's own `update` asks a daemon, which answers late where CPUs are saturated on purpose.
"""

from __future__ import annotations

from pathlib import Path

from volbench.measure.sample.parsers.cgroup import parse_proc_cgroup

PERIOD_US = 100_000
CGROUPS = Path("/sys/fs/cgroup")


def quota_files(proc_cgroup: str, root: Path = CGROUPS) -> tuple[Path, ...]:
    """Where the quota of a process's group is written: cpu.max, or version 1's period and quota.

    Args:
        proc_cgroup: the text of its /proc/PID/cgroup.

    Raises FileNotFoundError for a process without a group of its own.
    """
    paths = parse_proc_cgroup(proc_cgroup)
    if "cpu" in paths:
        group = root / "cpu" / paths["cpu"].lstrip("/")
        files: tuple[Path, ...] = (group / "cpu.cfs_period_us", group / "cpu.cfs_quota_us")
    else:
        files = (root / paths.get("", "/").lstrip("/") / "cpu.max",)
    if not all(file.exists() for file in files):
        raise FileNotFoundError(f"no CPU quota can be written: {files[-1]} does not exist")
    return files


def write_quota(files: tuple[Path, ...], cpus: float) -> None:
    """Allow a group so many CPUs."""
    quota = int(cpus * PERIOD_US)
    if len(files) == 1:
        files[0].write_text(f"{quota} {PERIOD_US}")
        return
    period_file, quota_file = files
    period_file.write_text(str(PERIOD_US))
    quota_file.write_text(str(quota))
