"""Source `cgroup_cpu`: CPU time of server and client by their control groups, and how often a quota held them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from volbench.records.series import SeriesRow
from volbench.sample.change import Change, ratio
from volbench.sample.files import KernelFile
from volbench.sample.interface import Reading, Sampler, Unavailable, Values
from volbench.sample.parsers.cgroup import parse_cpu_stat, parse_proc_cgroup

STAT, USAGE, QUOTA = "cpu.stat", "cpuacct.usage", "cpu.max"
_US_PER_S = 1e6


class CgroupCpuAccount(Sampler):
    """Reads the CPU accounts of some groups.

    Args:
        groups: who (`server`, `client`) to the files of its account, see `find_cpu_files`.
    """

    source: ClassVar[str] = "cgroup_cpu"

    def __init__(self, groups: Mapping[str, tuple[str, ...]]) -> None:
        self._files = {who: [KernelFile(Path(name)) for name in files] for who, files in groups.items() if files}

    def read(self) -> Values:
        """Microseconds used, and periods of the quota, by group."""
        if not self._files:
            raise Unavailable("neither server nor client has a control group of its own here")
        return {
            (name, who): value
            for who, files in self._files.items()
            for name, value in parse_cpu_stat(*(file.read() for file in files)).items()
        }

    def close(self) -> None:
        """Close the files."""
        for files in self._files.values():
            for file in files:
                file.close()

    @staticmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """CPUs used, and the share of periods in which the quota held the group back; absent without a quota."""
        change = Change(source=CgroupCpuAccount.source, before=before, after=after)
        if not change.usable:
            return
        for who in change.entities("used_us"):
            held, periods = change.grown("throttled", who), change.grown("periods", who)
            yield from change.rows(
                (
                    ("cpus_used", change.per_s("used_us", who, unit=_US_PER_S)),
                    ("throttled_ratio", None if held is None or not periods else ratio(held, periods)),
                ),
                who,
            )


def find_cpu_files(proc_cgroup: str, root: Path) -> tuple[str, ...]:
    """The files with the CPU account of a process's group; none when it is the root group or not visible.

    Args:
        proc_cgroup: the text of its /proc/PID/cgroup.
        root: where the hierarchies are mounted; a container has the host's elsewhere.
    """
    paths = parse_proc_cgroup(proc_cgroup)
    if "cpu" in paths and paths["cpu"] != "/":
        own = paths["cpu"].lstrip("/"), paths.get("cpuacct", paths["cpu"]).lstrip("/")
        files = (root / "cpu" / own[0] / STAT, root / "cpuacct" / own[1] / USAGE)
        return tuple(map(str, files)) if all(file.exists() for file in files) else ()
    group = root / paths.get("", "/").lstrip("/")
    return (str(group / STAT),) if (group / QUOTA).exists() else ()  # the root group has no quota
