"""`path:/mnt/x`: a directory of this machine, which may contain other files."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from volbench.core.base.ownership import refuse_data_directory
from volbench.core.profile.spec import system_directory_fault
from volbench.errors import MissingPrerequisite, Refused
from volbench.machine.volume.answer import in_time
from volbench.machine.volume.emulated.control import CONTROL_SOCKET
from volbench.machine.volume.emulated.status import emulated_behind
from volbench.machine.volume.facts.discovery import discover
from volbench.machine.volume.interface import OpenVolume, VolumeBase
from volbench.machine.volume.trouble import volume_failure

OPEN_S_MAX = 30.0
"""For the first call on a volume: an automounter needs seconds, and nobody has begun to measure."""
_NO_SUCH_PATH = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class PathVolume(VolumeBase):
    """An existing directory. Opening it checks and writes nothing; a run makes one directory of its own there."""

    def open(self) -> OpenVolume:
        """Check the directory. Raise MissingPrerequisite if missing or not writable, Refused for a server's own."""
        path = Path(self.spec.location)
        check_directory(path, where=f"volume {self.spec.name}={self.spec.text}")
        facts = discover(path)
        emulated = emulated_behind(facts.mount_point)
        if emulated is None:
            return OpenVolume(name=self.spec.name, spec=self.spec, host_path=path, facts=facts)
        directory, emulated_facts = (
            emulated  # also made by `volume emulate`: labelled as emulated, with its counters
        )
        return OpenVolume(
            name=self.spec.name,
            spec=self.spec,
            host_path=path,
            facts=facts.model_copy(update=emulated_facts),
            emulator_socket=directory / CONTROL_SOCKET,
        )


def check_directory(path: Path, *, where: str) -> None:
    """Check that `path` is a directory in which this user may create one, and not a server's data directory.

    Raises MissingPrerequisite, Refused; StepFailed where the volume fails or does not answer within OPEN_S_MAX.
    """
    try:
        mode = in_time(path.stat, limit_s=OPEN_S_MAX).st_mode
    except OSError as error:
        if error.errno not in _NO_SUCH_PATH:
            raise volume_failure(error, phase=where) from error
        mode = 0
    if not stat.S_ISDIR(mode):
        raise _no_directory(path, mode, where=where)
    if fault := system_directory_fault(str(path.resolve())):
        raise Refused(fault, where=where, next_step="make a directory of its own for data, and name that")
    if _read_only(path):
        raise MissingPrerequisite(
            f"{path} is on a read-only mount",
            where=where,
            evidence="statvfs: ST_RDONLY",
            next_step=f"mount -o remount,rw {path}; if the kernel made it read-only, dmesg has the reason",
            cause="volume_read_only",
        )
    if not os.access(path, os.W_OK | os.X_OK):
        status = path.stat()
        raise MissingPrerequisite(
            f"this user may not write to {path}",
            where=where,
            evidence=f"mode {status.st_mode & 0o7777:04o}, owner {status.st_uid}, this user {os.geteuid()}",
            next_step=f"chown {os.geteuid()} {path}, or run as another user",
            cause="volume_denied",
        )
    refuse_data_directory(path)


def _no_directory(path: Path, mode: int, *, where: str) -> MissingPrerequisite:
    """Return what a path is that is no directory.

    Args:
        mode: of what is there, behind links; 0: nothing is.
    """
    is_missing = not os.path.lexists(path)
    next_step = f"mount the volume there, or `mkdir -p {path}`" if is_missing else "name a directory"
    if stat.S_ISBLK(mode):
        next_step = "mount its file system, and name a directory on that: volbench touches no device"
    nouns = {0: "a dangling link", stat.S_IFBLK: "a block device", stat.S_IFREG: "a file"}
    return MissingPrerequisite(
        f"{path} does not exist" if is_missing else f"{path} is not a directory",
        where=where,
        evidence="" if is_missing else f"it is {nouns.get(stat.S_IFMT(mode), 'a special file')}",
        next_step=next_step,
        cause="volume_gone",
    )


def _read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
