"""Directories of files that a step writes or reads: size, sync, free space."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from volbench.core.base import safe_files
from volbench.errors import MissingPrerequisite
from volbench.machine.volume.space import require_space
from volbench.measure.workload.interface import ServerHandle

SPARE_BYTES = 64 << 20
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def tree_files(directory: Path) -> Iterator[Path]:
    """Yield every regular file below a directory, in a stable order."""
    for folder, folders, names in os.walk(directory):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                yield path


def tree_bytes(directory: Path) -> int:
    """Return the bytes of all files below a directory, without files that vanish during the count."""
    total = 0
    for path in tree_files(directory):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


def stored_bytes(path: Path) -> int:
    """Return the bytes of a file that its filesystem has stored; the rest reads as zeros without any device.

    InnoDB allocates space in advance, and ext4 and xfs mark unwritten extents. If a filesystem has no such marks,
    all bytes count. The file must have been synced. Raises OSError.
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
        safe_files.sync_path(path)
    for folder, _, _ in os.walk(directory):
        safe_files.sync_path(Path(folder))


def visible_data_dir(server: ServerHandle) -> Path | None:
    """Return the server's data directory; None if it is on another machine."""
    try:
        return server.data_dir
    except MissingPrerequisite:
        return None


def require_step_space(directory: Path, required_bytes: float, *, purpose: str) -> None:
    """Raise MissingPrerequisite if a directory's filesystem has no space for `purpose`, plus some spare."""
    next_step = "use a larger volume, a smaller dataset, or `to: nowhere`"
    require_space(directory, required_bytes + SPARE_BYTES, purpose=purpose, next_step=next_step)


class CpuMeter:
    """Counts the CPU time of this process and of its children that ended, from its creation on."""

    def __init__(self) -> None:
        self._before = os.times()

    def metrics(self) -> dict[str, float]:
        """Return user and system time in seconds, by metric; none below the clock's tick."""
        before, now = self._before, os.times()
        values = {
            "cpu_user_s": now.user + now.children_user - before.user - before.children_user,
            "cpu_system_s": now.system + now.children_system - before.system - before.children_system,
        }
        ticks = {name: round(value * _TICKS_PER_S) for name, value in values.items()}  # of floats near 0 too
        return {name: count / _TICKS_PER_S for name, count in ticks.items() if count > 0}
