"""One process at a time starts, stops or removes an emulated volume.

The lock is on the volume's directory itself, so that it lasts until the directory is gone, and ends with its
process. The daemon has two others: of `daemon.lock`, by which it is found, and of its backing.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from volbench.core.base import safe_files
from volbench.errors import MissingPrerequisite, Refused
from volbench.machine.volume.emulated.commands import wait_until

CHANGE_WAIT_S_MAX = 5.0


@contextmanager
def changing(directory: Path) -> Iterator[None]:
    """Be the one process that changes a volume, within the block. Do nothing where there is no directory.

    Raises Refused if another process is at it for longer than CHANGE_WAIT_S_MAX or has just removed the directory,
    MissingPrerequisite if the file system has no locks.
    """
    try:
        descriptor = safe_files.open_directory(directory)
    except FileNotFoundError:
        yield
        return
    try:
        _lock(descriptor, directory)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, directory: Path) -> None:
    if not wait_until(lambda: _try_to_lock(descriptor, directory), timeout_s=CHANGE_WAIT_S_MAX):
        raise Refused(
            "another process is starting, stopping or removing the emulated volume",
            where=str(directory),
            next_step="wait for its end, then repeat the command",
        )
    with suppress(OSError):
        if os.path.samestat(os.fstat(descriptor), directory.lstat()):
            return
    raise Refused(
        "another process has just removed the emulated volume",
        where=str(directory),
        next_step="repeat the command",
    )


def _try_to_lock(descriptor: int, directory: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EINTR):
            return False
        raise MissingPrerequisite(
            "an emulated volume needs a file system with locks",
            where=str(directory),
            evidence=f"{type(error).__name__}: {error}",
            next_step="name a directory on another disk with dir=",
        ) from error
    return True
