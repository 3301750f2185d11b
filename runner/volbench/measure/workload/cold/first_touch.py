"""The first read of every block of a volume, and a second one: what a restored snapshot leaves to be loaded."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_CHUNK_BYTES = 1 << 20
FILES_MAX = 1_000_000


@dataclass(frozen=True, kw_only=True)
class FirstTouchReads:
    """Bytes of all files, and the seconds of the first and the second read of them."""

    files: int
    bytes: int
    unreadable: int
    first_s: float
    second_s: float


def read_twice(directory: Path) -> FirstTouchReads:
    """Read all regular files below a directory twice, one after the other, without the page cache in between.

    Links are not followed, and nothing is written. Files that this user may not read are counted.
    """
    paths = sorted(_files(directory))[:FILES_MAX]
    begun_s = time.monotonic()
    sizes = [_read(path) for path in paths]
    first_s = time.monotonic()
    for path in paths:
        _read(path)
    ended_s = time.monotonic()
    readable = [size for size in sizes if size is not None]
    return FirstTouchReads(
        files=len(readable),
        bytes=sum(readable),
        unreadable=len(sizes) - len(readable),
        first_s=first_s - begun_s,
        second_s=ended_s - first_s,
    )


def _files(directory: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(directory):
        yield from (Path(parent) / name for name in names)


def _read(path: Path) -> int | None:
    """Return the bytes read of a regular file, which then leave the page cache; None if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return 0
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        size = 0
        while chunk := os.read(descriptor, _CHUNK_BYTES):
            size += len(chunk)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return size
    finally:
        os.close(descriptor)
