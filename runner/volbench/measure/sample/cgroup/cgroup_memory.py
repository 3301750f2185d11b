"""Source `cgroup_memory`: the memory of the server's control group, and the limits that hold it; version 2."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import ClassVar

from volbench.core.records.series import SeriesRow
from volbench.measure.sample.cgroup.cgroup_io import groups_around
from volbench.measure.sample.change import MIB, Change
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.interface import Presence, Reading, Sampler, Unavailable, Values
from volbench.measure.sample.parsers.cgroup import parse_counts, parse_proc_cgroup
from volbench.measure.sample.server_group import CGROUPS, ServerGroup
from volbench.measure.sample.shared import Shared

CURRENT, EVENTS, STAT = "memory.current", "memory.events.local", "memory.stat"
"""Of the events those of a group's own limits: memory.events counts what happens below it as well."""
LIMITS = ("memory.high", "memory.max")
SERVER = "server"
GROUP = "group"
"""Inode of the group: counters of another group are no continuation."""
PAGE_BYTES = mmap.PAGESIZE
STAT_COUNTS = {"pgsteal": "reclaimed_pages", "workingset_refault_file": "refaults"}
"""Of memory.stat (Documentation/admin-guide/cgroup-v2.rst)."""


class CgroupMemoryAccount(Sampler):
    """Reads the account of the server's group, and limits and events of the groups around it.

    Args:
        groups: the group's directory, then those around it; see `find_memory_groups`.
        server: a server of this machine, whose group is looked up at each reading; `groups` does not count then.
        cgroups: where the hierarchies are mounted.
    """

    source: ClassVar[str] = "cgroup_memory"
    lane: ClassVar[str] = "cgroups"

    def __init__(
        self, groups: tuple[Path, ...] = (), *, server: ServerGroup | None = None, cgroups: Path = CGROUPS
    ) -> None:
        self._groups = groups
        self._server, self._cgroups = server, cgroups

    @classmethod
    def from_config(cls, config: SamplingConfig, shared: Shared) -> Sampler:
        """Return the sampler."""
        around = groups_around(Path(config.cgroup_dir)) if config.cgroup_dir else []
        return cls(_counting_memory(around), server=shared.server_group)

    @classmethod
    def is_remote(cls, config: SamplingConfig) -> bool:
        """Return whether the server starts later, and may be moved to another group."""
        return bool(config.server_state)

    def probe(self) -> Presence:
        """Present when the server is in a group of version 2 with the memory controller."""
        if self._groups_now():
            return Presence(present=True)
        return Presence(present=False, reason="the server is in no control group of version 2 that counts memory")

    def read(self) -> Values:
        """Return bytes, limits, events by group, and pages taken back.

        Raises Unavailable where there is no such group.
        """
        groups = self._groups_now()
        if not groups:
            raise Unavailable("the server is in no control group of version 2 that counts memory")
        own = groups[0]
        try:
            values: Values = {("used_bytes", SERVER): int((own / CURRENT).read_text())}
            counts = parse_counts((own / STAT).read_text())
            events = {group: parse_counts((group / EVENTS).read_text()) for group in groups}
            inode = own.stat().st_ino
        except OSError as error:  # the server was moved, or its group removed
            raise Unavailable(f"{own}: {error.strerror}") from error
        values |= {(name, SERVER): counts[key] for key, name in STAT_COUNTS.items() if key in counts}
        for number, account in enumerate(events.values()):
            entity = SERVER if number == 0 else f"{SERVER} around {number}"
            values |= {(f"{name}_events", entity): account[name] for name in ("high", "max") if name in account}
        limits = [limit for group in groups for limit in _limits(group)]
        if limits:
            values["limit_bytes", SERVER] = min(limits)
        return {**values, (GROUP, SERVER): inode}

    def _groups_now(self) -> tuple[Path, ...]:
        if self._server is None:
            return self._groups
        return find_memory_groups(self._server.text(), self._cgroups)

    @staticmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """Yield sizes at the tick, and rates; none for a server that was moved to another group."""
        change = Change(source=CgroupMemoryAccount.source, before=before, after=after)
        if not change.usable or before.values.get((GROUP, SERVER)) != after.values.get((GROUP, SERVER)):
            return
        for name, metric in (("used_bytes", "used_mib"), ("limit_bytes", "limit_mib")):
            size = change.gauge(name, SERVER)
            if size is not None:
                yield change.row(metric, size / MIB, SERVER)
        yield from change.rows(
            (
                ("high_events_per_s", _events(change, "high_events")),
                ("max_events_per_s", _events(change, "max_events")),
                ("reclaimed_mib_per_s", change.per_s("reclaimed_pages", SERVER, unit=MIB / PAGE_BYTES)),
                ("refaults_per_s", change.per_s("refaults", SERVER)),
            ),
            SERVER,
        )


def _events(change: Change, counter: str) -> float | None:
    """Return the rate at the limits of a group and those around it; None where none counts."""
    rates = [
        rate for rate in (change.per_s(counter, entity) for entity in change.entities(counter)) if rate is not None
    ]
    return sum(rates) if rates else None


def _limits(group: Path) -> Iterator[int]:
    """Yield bytes of the limits that a group has; `max` is none, and the root group has no files."""
    for name in LIMITS:
        try:
            text = (group / name).read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            yield int(text)


def find_memory_groups(proc_cgroup: str, root: Path) -> tuple[Path, ...]:
    """Return the directories of a process's group and those around it that count memory; none in the root group.

    A group without the controller is counted in the next one around it, whose account is then the first.

    Args:
        proc_cgroup: the text of its /proc/PID/cgroup.
        root: where version 2 is mounted.
    """
    path = PurePosixPath(parse_proc_cgroup(proc_cgroup).get("", "/"))
    if not path.is_absolute() or ".." in path.parts:
        return ()
    groups = (path, *path.parents)
    directories = [root / str(group).lstrip("/") for group in groups if group != PurePosixPath("/")]
    return _counting_memory(directories)


def _counting_memory(directories: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(directory for directory in directories if (directory / CURRENT).exists())
