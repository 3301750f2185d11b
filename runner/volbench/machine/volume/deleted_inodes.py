"""Lets ext4 reuse the inodes of files that were deleted a moment ago.

For some time ext4 gives no deleted inode away, and looks at all of them for every new file: 20,000 files took up to
seven times the CPU time after 20,000 were deleted (Linux 6.18; by perf in `recently_deleted` of fs/ext4/ialloc.c),
and no more than at first once the caches were dropped.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from volbench.machine.volume.coldness import drop_caches

_libc = ctypes.CDLL(None, use_errno=True)


def concerns(filesystem: str | None, *, emulated: bool) -> bool:
    """Return whether new files may lie on ext4: an emulated volume's files lie on one of this machine."""
    return filesystem == "ext4" or emulated


def forget_deleted_inodes(directory: Path) -> bool:
    """Write back the directory's filesystem, then drop the machine's caches. False if that is not permitted.

    Raises OSError.
    """
    sync_filesystem(directory)
    return drop_caches()


def sync_filesystem(directory: Path) -> None:
    """Write back all dirty pages of a directory's filesystem and wait for the end. Raise OSError."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        if _libc.syncfs(ctypes.c_int(descriptor)) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(directory))
    finally:
        os.close(descriptor)
