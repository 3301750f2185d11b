"""`path:/mnt/x`: a directory of this machine, which may hold other things than ours."""

from __future__ import annotations

import os
from pathlib import Path

from volbench.errors import EnvironmentLacks
from volbench.volume.emulated_control import CONTROL_SOCKET
from volbench.volume.emulated_status import emulated_behind
from volbench.volume.facts import discover
from volbench.volume.interface import OpenVolume, VolumeBase
from volbench.volume.ownership import refuse_data_directory


class PathVolume(VolumeBase):
    """A directory that exists. Opening it checks and writes nothing; a run makes one directory of its own there."""

    def open(self) -> OpenVolume:
        """Check it. Raises EnvironmentLacks when it is absent or not writable, Refused for a server's own."""
        path = Path(self.spec.place)
        check_directory(path, where=f"volume {self.spec.name}={self.spec.text}")
        facts = discover(path)
        emulated = emulated_behind(facts.mount_point)
        if emulated is None:
            return OpenVolume(name=self.spec.name, spec=self.spec, host_path=path, facts=facts)
        directory, said = emulated  # one that `volume emulate` made is labelled too, and its counters are read
        return OpenVolume(
            name=self.spec.name,
            spec=self.spec,
            host_path=path,
            facts=facts.model_copy(update=said),
            emulator_socket=directory / CONTROL_SOCKET,
        )


def check_directory(path: Path, *, where: str) -> None:
    """Check that `path` is a directory in which this user may make one, and no data directory of a server.

    Raises EnvironmentLacks, Refused.
    """
    if not path.is_dir():
        missing = not os.path.lexists(path)
        raise EnvironmentLacks(
            f"{path} does not exist" if missing else f"{path} is not a directory",
            where=where,
            evidence="" if missing else "a file or a dangling link is there",
            next_step=f"mount the volume there, or `mkdir -p {path}`" if missing else "name a directory",
            cause="volume_gone",
        )
    if _read_only(path):
        raise EnvironmentLacks(
            f"{path} is on a read-only mount",
            where=where,
            evidence="statvfs: ST_RDONLY",
            next_step=f"mount -o remount,rw {path}, and see dmesg if it became read-only by itself",
            cause="volume_read_only",
        )
    if not os.access(path, os.W_OK | os.X_OK):
        status = path.stat()
        raise EnvironmentLacks(
            f"{path} may not be written to by this user",
            where=where,
            evidence=f"mode {status.st_mode & 0o7777:04o}, owner {status.st_uid}, this user {os.geteuid()}",
            next_step=f"chown {os.geteuid()} {path}, or run as another user",
            cause="volume_denied",
        )
    refuse_data_directory(path)


def _read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
