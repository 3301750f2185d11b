"""What a killed test session has left: its containers first, then its volumes, which these containers use."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from docker.errors import DockerException, NotFound

from volbench.core.base import docker_engine, ownership, safe_files
from volbench.errors import VolbenchError
from volbench.machine.volume.emulated.attachments import process_namespace, process_start_ticks
from volbench.machine.volume.emulated.status import list_volumes, volume_status
from volbench.machine.volume.emulated.teardown import take_down

DIRECTORY_PREFIX = "volbench-testing-"
DISK_DIRECTORY = Path("/var/tmp")  # noqa: S108 - directories of this prefix that have volbench's marker inside
DATA_PREFIX = "volbench-data-"
_OWNER_FILE = "owner"
_OWNER_BYTES_MAX = 4096
_EMPTY_S_MAX = 3600.0
"""An empty directory this old is of a session that was killed before it made its volume."""
LABEL_OWNER = "org.volbench.testing.owner"


def owner_label() -> str:
    """This process, as one that is alive or dead for ever: boot, PID namespace, process id, start time."""
    return f"{process_namespace()}/{os.getpid()}/{process_start_ticks(os.getpid())}"


@cache
def clear_killed_sessions() -> None:
    """Remove containers and volumes of killed sessions on this machine, once in this process.

    A failure does not fail the test that happens to come next: the volume stays listed by `volbench volume list`.
    """
    with contextlib.suppress(DockerException, OSError):
        _remove_containers()
    for directory in DISK_DIRECTORY.glob(f"{DATA_PREFIX}*"):
        with contextlib.suppress(OSError):
            _remove_data(directory)
    for root in DISK_DIRECTORY.glob(f"{DIRECTORY_PREFIX}*"):
        with contextlib.suppress(VolbenchError, OSError):
            _remove_volumes(root)
            if time.time() - root.stat().st_mtime > _EMPTY_S_MAX:
                root.rmdir()  # fails where anything is in it


def data_directory() -> Path:
    """Make a directory for initialised data that the next session finds if this one is killed."""
    directory = Path(tempfile.mkdtemp(prefix=DATA_PREFIX, dir=DISK_DIRECTORY))
    (directory / _OWNER_FILE).write_text(owner_label(), encoding="ascii")
    return directory


def remove_data(directory: Path) -> None:
    """Remove such a directory, its owner's file last, so that another session can finish it. Raises OSError."""
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != _OWNER_FILE:
            entry.unlink()
    shutil.rmtree(directory)


def _remove_data(directory: Path) -> None:
    """Remove a data directory of a dead process of this user; one without an owner's file is not ours."""
    with safe_files.held_directory(directory) as descriptor:
        if os.fstat(descriptor).st_uid != os.geteuid():
            return
        owner = safe_files.read_regular(descriptor, _OWNER_FILE, bytes_max=_OWNER_BYTES_MAX).decode(
            "ascii", "replace"
        )
        if _is_dead(owner):
            remove_data(directory)


def _remove_containers() -> None:
    client = docker_engine.connect()
    try:
        for container in client.containers.list(all=True, filters={"label": LABEL_OWNER}, ignore_removed=True):
            if _is_dead(container.labels[LABEL_OWNER]):
                with contextlib.suppress(NotFound):
                    container.remove(force=True, v=True)
    finally:
        client.close()


@contextlib.contextmanager
def private_directory(parent: Path | None = None) -> Iterator[Path]:
    """Yield a directory for volumes of one test or run, by default below /var/tmp; remove it with all that it has.

    A volume that could not be taken down stays for the next session to clear.
    """
    root = Path(tempfile.mkdtemp(prefix=DIRECTORY_PREFIX, dir=parent or DISK_DIRECTORY))
    try:
        yield root
    finally:
        for directory in root.glob("*"):
            if ownership.is_owned(directory) and volume_status(directory) == "stopped":
                ownership.remove(directory)
        with contextlib.suppress(VolbenchError, OSError):
            _remove_volumes(root)
        with contextlib.suppress(OSError):  # not empty
            root.rmdir()


def _remove_volumes(root: Path) -> None:
    """Take down and remove the volumes of dead processes; the directory too, unless something else is there."""
    volumes = list_volumes(root)
    for volume in volumes:
        if volume.owner_pid is None or volume.owner_is_alive:
            return
        take_down(volume.directory, force=True)
        ownership.remove(volume.directory)
    if volumes:
        root.rmdir()


def _is_dead(label: str) -> bool:
    """Return whether a process is known to have ended; of another boot or namespace nothing is known."""
    namespace, _, process = label.partition("/")
    pid, _, started = process.partition("/")
    return namespace == process_namespace() and pid.isdecimal() and str(process_start_ticks(int(pid))) != started
