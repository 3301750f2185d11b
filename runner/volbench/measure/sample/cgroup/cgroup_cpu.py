"""Source `cgroup_cpu`: CPU time of server and client by their control groups, and how often a quota held them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import ClassVar

from volbench.core.records.series import SeriesRow
from volbench.measure.sample.change import Change, ratio
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.files import KernelFile
from volbench.measure.sample.interface import Reading, Sampler, Unavailable, Values
from volbench.measure.sample.parsers.cgroup import parse_cpu_stat, parse_proc_cgroup
from volbench.measure.sample.server_group import CGROUPS, ServerGroup
from volbench.measure.sample.shared import Shared

STAT, USAGE, QUOTA = "cpu.stat", "cpuacct.usage", "cpu.max"
SERVER, CLIENT, BOTH = "server", "client", "cell"
"""Whose account: `cell` is that of one group which has server and client."""
_US_PER_S = 1e6
_AROUND = " around "
"""In an entity: the quota of a group around the one before it, by its distance."""
GROUP = "group"
"""Inode of the group: counters of another group are no continuation."""


class CgroupCpuAccount(Sampler):
    """Reads the CPU accounts of some groups.

    Args:
        groups: who (`server`, `client`) to the files of its account, see `find_cpu_files`.
        server: a server of this machine, whose group is looked up at each reading: it has an account, and the
            client's has one; or both have that of the group which they share. `groups` does not count then.
        cgroups: where the hierarchies are mounted.
    """

    source: ClassVar[str] = "cgroup_cpu"
    lane: ClassVar[str] = "cgroups"

    def __init__(
        self,
        groups: Mapping[str, tuple[str, ...]],
        *,
        server: ServerGroup | None = None,
        cgroups: Path = CGROUPS,
    ) -> None:
        self._groups: Mapping[str, tuple[str, ...]] = {}
        self._files: dict[str, list[KernelFile]] = {}
        self._server, self._cgroups = server, cgroups
        self._open(groups)

    @classmethod
    def from_config(cls, config: SamplingConfig, shared: Shared) -> Sampler:
        """Return the sampler."""
        return cls({SERVER: config.server_cpu_files, CLIENT: config.client_cpu_files}, server=shared.server_group)

    @classmethod
    def is_remote(cls, config: SamplingConfig) -> bool:
        """Return whether the server starts later, and may be moved to another group."""
        return bool(config.server_state)

    def read(self) -> Values:
        """Return microseconds used, and the quota's periods and what it held back, by group."""
        if self._server is not None:
            self._open(self._groups_now(self._server))
        if not self._files:
            raise Unavailable("neither server nor client has a control group here")
        counters: Values = {
            (name, entity): value
            for who, files in self._files.items()
            for entity, account in _accounts(who, files)
            for name, value in account.items()
        }
        if self._server is None:
            return counters
        if BOTH in self._files and not any(name == "periods" for name, _ in counters):
            raise Unavailable("server and client are in one control group, which counts no quota")
        return {**counters, **{(GROUP, who): _inode(files[0]) for who, files in self._files.items()}}

    def _open(self, groups: Mapping[str, tuple[str, ...]]) -> None:
        if groups != self._groups:
            self.close()
            self._groups = groups
            self._files = {
                who: [KernelFile(Path(path)) for path in files] for who, files in groups.items() if files
            }

    def _groups_now(self, server: ServerGroup) -> dict[str, tuple[str, ...]]:
        """Return files of server and client, or of the group that both are in."""
        texts = {SERVER: server.text(), CLIENT: server.own()}
        files = {who: find_cpu_files(text, self._cgroups) for who, text in texts.items()}
        return files if files[SERVER] != files[CLIENT] else {BOTH: files[SERVER]}

    def close(self) -> None:
        """Close the files."""
        for files in self._files.values():
            for file in files:
                file.close()

    @staticmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """Yield CPUs used; with a quota the share of periods in which it held the group back, and for how long."""
        change = Change(source=CgroupCpuAccount.source, before=before, after=after)
        if not change.usable:
            return
        for who in dict.fromkeys((*change.entities("used_us"), *change.entities("periods"))):
            if before.values.get((GROUP, who)) != after.values.get((GROUP, who)):
                continue
            if _AROUND in who:
                continue
            yield from change.rows(
                (
                    ("cpus_used", change.per_s("used_us", who, unit=_US_PER_S)),
                    ("throttled_ratio", _throttled(change, who)),
                    ("throttled_s_per_s", _withheld(change, who)),
                ),
                who,
            )


def _accounts(who: str, files: list[KernelFile]) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the group's account, and the quotas of the groups around it, which hold it back as well."""
    own, *around = [file.read() for file in files]
    if around and files[1].path.name == USAGE:
        yield who, parse_cpu_stat(own, around[0])
        return
    yield who, parse_cpu_stat(own)
    for number, text in enumerate(around, start=1):
        account = parse_cpu_stat(text)
        account.pop("used_us", None)  # of others, too
        yield f"{who}{_AROUND}{number}", account


def _throttled(change: Change, who: str) -> float | None:
    """Return the largest share of throttled periods among a group and those around it; None without a quota."""
    return max(
        (
            share
            for entity in _with_quota(change, who)
            if (share := ratio(change.grown("throttled", entity), change.grown("periods", entity))) is not None
        ),
        default=None,
    )


def _withheld(change: Change, who: str) -> float | None:
    """Return CPU time that a quota withheld, the most among a group and those around it; None without a quota."""
    withheld = (change.per_s("throttled_us", entity, unit=_US_PER_S) for entity in _with_quota(change, who))
    return max((seconds for seconds in withheld if seconds is not None), default=None)


def _with_quota(change: Change, who: str) -> list[str]:
    """Return a group and those around it, whose quota had a period."""
    return [
        entity
        for entity in change.entities("periods")
        if (entity == who or entity.startswith(f"{who}{_AROUND}")) and change.grown("periods", entity)
    ]


def _inode(file: KernelFile) -> int:
    return file.path.parent.stat().st_ino


def find_cpu_files(proc_cgroup: str, root: Path) -> tuple[str, ...]:
    """Return the files with the CPU account of a process's group; none when it is the root group or not visible.

    Version 2: cpu.stat of the group, then of the groups around it that may have a quota. The group itself has the
    time it used even where no controller is enabled in it.

    Args:
        proc_cgroup: the text of its /proc/PID/cgroup.
        root: where the hierarchies are mounted; a container has the host's elsewhere.
    """
    paths = parse_proc_cgroup(proc_cgroup)
    if "cpu" in paths and paths["cpu"] != "/":
        stat = root / "cpu" / paths["cpu"].lstrip("/") / STAT
        usage = root / "cpuacct" / paths.get("cpuacct", paths["cpu"]).lstrip("/") / USAGE
        # A process may be in a group of `cpu` alone: the root group of `cpuacct` counts the whole machine.
        files = (stat, usage) if usage.parent != root / "cpuacct" else (stat,)
        return tuple(map(str, files)) if all(file.exists() for file in files) else ()
    path = PurePosixPath(paths.get("", "/"))
    around = [root / str(group).lstrip("/") for group in path.parents if group != PurePosixPath("/")]
    own = root / str(path).lstrip("/")
    if own == root or not (own / STAT).exists():  # the root group is of the whole machine
        return ()
    return tuple(str(group / STAT) for group in (own, *(group for group in around if (group / QUOTA).exists())))
