"""Source `cgroup_io`: what the server's control group asked of each device, version 1 or 2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

from volbench.records.series import SeriesRow
from volbench.sample.change import MIB, Change
from volbench.sample.files import KernelFile
from volbench.sample.interface import Presence, Reading, Sampler, Unavailable, Values
from volbench.sample.parsers.cgroup import join_blkio, parse_io_stat, parse_proc_cgroup

V2_FILE = "io.stat"
V1_FILES = ("blkio.throttle.io_serviced", "blkio.throttle.io_service_bytes")


class CgroupIoAccount(Sampler):
    """Reads the account of one group.

    Args:
        directory: the group's directory, see `find_directory`; None: not known.
        devices: /sys/dev/block, which names the devices.
    """

    source: ClassVar[str] = "cgroup_io"

    def __init__(self, directory: Path | None, devices: Path = Path("/sys/dev/block")) -> None:
        self._directory = directory
        self._devices = devices
        self._names: dict[str, str] = {}
        self._files: list[KernelFile] = []

    def probe(self) -> Presence:
        """Present when the group has an account of its own; the root group of version 1 has none."""
        if self._directory is None:
            return Presence(present=False, reason="the server's control group is not known or not visible")
        names = (V2_FILE,) if (self._directory / V2_FILE).exists() else V1_FILES
        if names == V1_FILES and not (self._directory.parent / "cgroup.procs").exists():
            return Presence(present=False, reason=f"{self._directory} is the root group, which keeps no account")
        self._files = [KernelFile(self._directory / name) for name in names]
        try:
            self._texts()
        except Unavailable as error:
            return Presence(present=False, reason=f"no I/O account: {error}")
        return Presence(present=True)

    def read(self) -> Values:
        """Counters by device."""
        texts = self._texts()
        found = parse_io_stat(texts[0]) if len(texts) == 1 else join_blkio(*texts)
        if not found:  # version 1 of Linux 6.10 and later counts only in groups that have a limit
            raise Unavailable(f"{self._directory} has counted no I/O so far")
        return {
            (name, self._name_of(device)): value
            for device, account in found.items()
            for name, value in asdict(account).items()
        }

    def _texts(self) -> list[str]:
        if not self._files:
            raise Unavailable("no control group was found")
        return [file.read() for file in self._files]

    def _name_of(self, device: str) -> str:
        if device not in self._names:
            link = self._devices / device
            self._names[device] = link.resolve().name if link.exists() else device
        return self._names[device]

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    @staticmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """Operations and MiB a second by device."""
        change = Change(source=CgroupIoAccount.source, before=before, after=after)
        if not change.usable:
            return
        for device in change.entities("reads"):
            yield from change.rows(
                (
                    ("reads_per_s", change.per_s("reads", device)),
                    ("writes_per_s", change.per_s("writes", device)),
                    ("read_mib_per_s", change.per_s("read_bytes", device, unit=MIB)),
                    ("write_mib_per_s", change.per_s("write_bytes", device, unit=MIB)),
                ),
                device,
            )


def find_directory(proc_cgroup: str, root: Path = Path("/sys/fs/cgroup")) -> Path | None:
    """The directory that holds the I/O account of a process.

    Args:
        proc_cgroup: the text of its /proc/PID/cgroup.
        root: where the hierarchies are mounted; a container has the host's elsewhere.

    None when no hierarchy accounts I/O for it there.
    """
    paths = parse_proc_cgroup(proc_cgroup)
    places = [(root, paths.get("")), (root / "unified", paths.get("")), (root / "blkio", paths.get("blkio"))]
    for hierarchy, path in places:
        if path is None:
            continue
        directory = hierarchy / path.lstrip("/")
        if any((directory / name).exists() for name in (V2_FILE, V1_FILES[0])):
            return directory
    return None
