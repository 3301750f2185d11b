"""Source `cgroup_io`: what the server's control group asked of each device, and what it may ask; version 1 or 2.

Entity `server` is about the volume: its traffic is what the group asked of the volume's own device, its limits are
the tightest of those that hold the server back, on that device or on one below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

from volbench.core.records.series import SeriesRow
from volbench.machine.host.sysfs import SYS, disks_of
from volbench.measure.sample.change import MIB, Change
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.files import KernelFile
from volbench.measure.sample.interface import Presence, Reading, Sampler, Unavailable, Values
from volbench.measure.sample.parsers.cgroup import (
    CgroupIoLimits,
    join_blkio,
    join_blkio_limits,
    parse_io_max,
    parse_io_stat,
    parse_proc_cgroup,
    tightest,
)
from volbench.measure.sample.server_group import CGROUPS, ServerGroup
from volbench.measure.sample.shared import Shared

V2_FILE = "io.stat"
V1_FILES = ("blkio.throttle.io_serviced", "blkio.throttle.io_service_bytes")
V2_LIMIT = "io.max"
V1_LIMITS = tuple(f"blkio.throttle.{name}_device" for name in ("read_iops", "write_iops", "read_bps", "write_bps"))
SERVER = "server"
GROUP = "group"
"""Inode of the group: counters of another group are no continuation."""
LIMITS = {
    "reads": ("read_iops_max", 1),
    "writes": ("write_iops_max", 1),
    "read_bytes": ("read_mib_per_s_max", MIB),
    "write_bytes": ("write_mib_per_s_max", MIB),
}
"""Field of CgroupIoLimits to its metric and that one's unit."""


class CgroupIoAccount(Sampler):
    """Reads the account of one group, and the limits of all groups that hold it back.

    Version 2 enforces io.max of the group and of each one around it. Version 1 treats all groups as one flat list:
    only the group's own limits hold (blkio-controller.rst, "Hierarchical Cgroups").

    Args:
        directory: the group's directory, see `find_directory`; None: not known.
        disks: kernel names of the volume's devices, its own first.
        sys: sysfs, which names the devices and says what lies below them.
        server: a server of this machine, whose group is looked up at each reading; `directory` does not count then.
        cgroups: where the hierarchies are mounted.
    """

    source: ClassVar[str] = "cgroup_io"
    lane: ClassVar[str] = "cgroups"

    def __init__(
        self,
        directory: Path | None,
        disks: Sequence[str] = (),
        *,
        sys: Path = SYS,
        server: ServerGroup | None = None,
        cgroups: Path = CGROUPS,
    ) -> None:
        self._directory = directory
        self._server, self._cgroups = server, cgroups
        self._own_disk = disks[0] if disks else ""
        self._volume = disks_of(disks, sys=sys)
        self._devices = sys / "dev/block"
        self._names: dict[str, str] = {}
        self._files: list[KernelFile] = []
        self._limits: list[KernelFile] = []
        self._is_version_1 = False

    @classmethod
    def from_config(cls, config: SamplingConfig, shared: Shared) -> Sampler:
        """Return the sampler."""
        return cls(Path(config.cgroup_dir) if config.cgroup_dir else None, config.disks, server=shared.server_group)

    @classmethod
    def is_remote(cls, config: SamplingConfig) -> bool:
        """Return whether the server starts later, and may be moved to another group."""
        return bool(config.server_state)

    def probe(self) -> Presence:
        """Present when the group has an account of its own; the root group of version 1 has none."""
        self.close()
        if self._server is not None:
            self._directory = find_directory(self._server.text(), self._cgroups)
        if self._directory is None:
            return Presence(present=False, reason="the server's control group is not known or not visible")
        self._limits = [KernelFile(file) for file in _limit_files(self._directory)]
        self._is_version_1 = not _is_version_2(self._directory)
        names = V1_FILES if self._is_version_1 else (V2_FILE,)
        if not self._is_version_1 and not (self._directory / V2_FILE).exists():
            return Presence(present=True)  # no account of its own, limits of the groups around it
        if self._is_version_1 and not (self._directory.parent / "cgroup.procs").exists():
            return Presence(present=False, reason=f"{self._directory} is the root group, which keeps no account")
        self._files = [KernelFile(self._directory / name) for name in names]
        try:
            self._texts(self._files)
        except Unavailable as error:
            return Presence(present=False, reason=f"no I/O account: {error}")
        return Presence(present=True)

    def read(self) -> Values:
        """Return counters by device, and limits."""
        if self._server is not None and find_directory(self._server.text(), self._cgroups) != self._directory:
            presence = self.probe()
            if not presence.present:
                raise Unavailable(presence.reason)
        texts = self._texts(self._files)
        accounts = join_blkio(*texts) if self._is_version_1 else parse_io_stat("".join(texts))
        limits = self._server_limits(self._texts(self._limits)) if self._limits else {}
        if not accounts and not limits:  # version 1 of Linux 6.10 and later counts only where a limit was set
            raise Unavailable(self._reason_for_none())
        values: Values = {
            (name, entity): value
            for device, account in accounts.items()
            for entity in self._entities_of(device)
            for name, value in asdict(account).items()
        }
        if self._server is not None and self._directory is not None:
            values[GROUP, ""] = self._directory.stat().st_ino
        return {**values, **limits}

    def _reason_for_none(self) -> str:
        if self._files or self._directory is None:
            return f"{self._directory} has counted no I/O so far"
        enabled = ", ".join((self._directory / "cgroup.controllers").read_text().split()) or "none"
        return (
            f"the I/O controller is not enabled for {self._directory} (enabled: {enabled}): its I/O is not counted."
            " For containers without root: systemctl edit user@.service, with [Service] Delegate=cpu cpuset io"
            " memory pids, and log in again"
        )

    def _server_limits(self, texts: Sequence[str]) -> Values:
        """Return limits of the volume's devices; none where these are not known, as on a network file system."""
        groups = [join_blkio_limits(*texts)] if self._is_version_1 else [parse_io_max(text) for text in texts]
        volume_limits: list[CgroupIoLimits] = [
            limits for group in groups for device, limits in group.items() if self._name_of(device) in self._volume
        ]
        least = asdict(tightest(volume_limits))
        return {(LIMITS[name][0], SERVER): value for name, value in least.items() if value is not None}

    def _texts(self, files: Sequence[KernelFile]) -> list[str]:
        if not self._files and not self._limits:
            raise Unavailable("no control group was found")
        return [file.read() for file in files]

    def _entities_of(self, device: str) -> tuple[str, ...]:
        name = self._name_of(device)
        return (name, SERVER) if name == self._own_disk else (name,)

    def _name_of(self, device: str) -> str:
        if device not in self._names:
            link = self._devices / device
            self._names[device] = link.resolve().name if link.exists() else device
        return self._names[device]

    def close(self) -> None:
        """Close the files."""
        for file in (*self._files, *self._limits):
            file.close()
        self._files, self._limits = [], []

    @staticmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """Yield operations and MiB a second by device and for the volume; limits as they are at the tick."""
        change = Change(source=CgroupIoAccount.source, before=before, after=after)
        if not change.usable:
            return
        is_same = before.values.get((GROUP, "")) == after.values.get((GROUP, ""))
        for entity in change.entities("reads") if is_same else ():
            names = ("read_ops_per_s", "write_ops_per_s") if entity == SERVER else ("reads_per_s", "writes_per_s")
            yield from change.rows(
                (
                    (names[0], change.per_s("reads", entity)),
                    (names[1], change.per_s("writes", entity)),
                    ("read_mib_per_s", change.per_s("read_bytes", entity, unit=MIB)),
                    ("write_mib_per_s", change.per_s("write_bytes", entity, unit=MIB)),
                ),
                entity,
            )
        for metric, unit in LIMITS.values():
            limit = change.gauge(metric, SERVER)
            if limit is not None:
                yield change.row(metric, limit / unit, SERVER)


def _limit_files(directory: Path) -> list[Path]:
    """Return files with the limits that hold a group back.

    In version 1 its own, in version 2 its ancestors' too.
    """
    if not _is_version_2(directory):
        own = [directory / name for name in V1_LIMITS]
        return own if all(file.exists() for file in own) else []
    return [group / V2_LIMIT for group in groups_around(directory) if (group / V2_LIMIT).exists()]


def _is_version_2(directory: Path) -> bool:
    return (directory / V2_FILE).exists() or (directory / "cgroup.controllers").exists()


def groups_around(directory: Path) -> list[Path]:
    """Return a group of version 2 and those around it, from the inside to the outside."""
    groups = [directory, *directory.parents]
    inside = next((n for n, group in enumerate(groups) if not (group / "cgroup.procs").exists()), len(groups))
    return groups[: max(1, inside)]


def find_directory(proc_cgroup: str, root: Path = Path("/sys/fs/cgroup")) -> Path | None:
    """Return the directory that holds the I/O account of a process.

    Args:
        proc_cgroup: the text of its /proc/PID/cgroup.
        root: where the hierarchies are mounted; a container has the host's elsewhere.

    None when no hierarchy accounts I/O for it there. In version 2 a group may have no account of its own, as
    systemd makes them without IOAccounting, and limits of the groups around it.
    """
    paths = parse_proc_cgroup(proc_cgroup)
    candidates = [(root, paths.get("")), (root / "unified", paths.get("")), (root / "blkio", paths.get("blkio"))]
    for hierarchy, path in candidates:
        if path is None:
            continue
        directory = hierarchy / path.lstrip("/")
        if any((directory / name).exists() for name in (V2_FILE, V1_FILES[0])):
            return directory
        if (directory / "cgroup.controllers").exists() and _limit_files(directory):
            return directory
    return None
