"""Directories of files that a step writes or reads: their size, their sync, the room for them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from volbench.errors import EnvironmentLacks
from volbench.workload.interface import ServerHandle

SPARE_BYTES = 64 << 20


def tree_files(directory: Path) -> Iterator[Path]:
    """Every regular file below a directory, in a stable order."""
    for folder, folders, names in os.walk(directory):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                yield path


def tree_bytes(directory: Path) -> int:
    """The bytes of all files below a directory; files that vanish meanwhile do not count."""
    total = 0
    for path in tree_files(directory):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


def stored_bytes(path: Path) -> int:
    """The bytes of a file that its filesystem has stored; the rest reads as zeros without any device.

    InnoDB allocates space ahead, and ext4 and xfs keep what was never written apart. Where a filesystem cannot
    tell, all bytes count. Only right for a file that has been synced. Raises OSError.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        size, stored, at = os.fstat(descriptor).st_size, 0, 0
        while at < size:
            try:
                start = os.lseek(descriptor, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nothing but a hole up to the end
                    break
                return size
            at = os.lseek(descriptor, start, os.SEEK_HOLE)
            stored += at - start
        return stored
    finally:
        os.close(descriptor)


def sync_tree(directory: Path) -> None:
    """fsync every file and directory below, and the directory itself. Raises OSError."""
    for path in tree_files(directory):
        sync_path(path)
    for folder, _, _ in os.walk(directory):
        sync_path(Path(folder))


def sync_path(path: Path) -> None:
    """fsync one file or directory. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def seen_data_dir(server: ServerHandle) -> Path | None:
    """The server's data directory; None when it is on another machine."""
    try:
        return server.data_dir
    except EnvironmentLacks:
        return None


def require_space(directory: Path, wanted_bytes: float, *, what: str) -> None:
    """Raises EnvironmentLacks when a directory's filesystem has no room for `what`, with some spare."""
    stat = os.statvfs(directory)
    free = stat.f_bavail * stat.f_frsize
    if free < wanted_bytes + SPARE_BYTES:
        raise EnvironmentLacks(
            f"no room for {what}",
            where=str(directory),
            evidence=f"{free >> 20} MiB are free, about {int(wanted_bytes + SPARE_BYTES) >> 20} MiB are needed",
            next_step="use a larger volume, a smaller dataset, or `to: nowhere`",
        )
