"""Columns of long tables in files without a name, so that memory does not grow with a table.

What was written and what is read again is in the page cache, which the kernel gives to whoever needs memory.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

SCRATCH = "/var/tmp"  # noqa: S108 - a disk, not memory; the files there have no name
ON_DISK_FROM = 1 << 20
"""Numbers of a column that is kept in a file: a cell of some minutes has fewer."""

_Number = TypeVar("_Number", bound=np.generic)


class ScratchColumn(Generic[_Number]):
    """So many numbers of a type: in a file where they are many and there is room for one, else in memory.

    `array` is written, and has no defined values before.
    """

    def __init__(self, count: int, number: type[_Number]) -> None:
        self._type = np.dtype(number)
        size = count * self._type.itemsize
        self._descriptor = _open_file(size) if count >= ON_DISK_FROM else None
        self._map: mmap.mmap | None = None
        self.array: NDArray[_Number]
        if self._descriptor is None:
            self.array = np.empty(count, self._type)
        else:
            weakref.finalize(self, os.close, self._descriptor)
            self._map = mmap.mmap(self._descriptor, size)
            self.array = np.frombuffer(self._map, self._type)

    @property
    def is_on_disk(self) -> bool:
        """Whether `read` makes a copy each time."""
        return self._descriptor is not None

    def release(self) -> None:
        """Give up the memory of what was written or read so far."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)

    def read(self, begin: int, end: int) -> NDArray[_Number]:
        """Return the numbers begin .. end. Raises OSError where the file cannot be read."""
        if self._descriptor is None:
            return self.array[begin:end]
        result = np.empty(end - begin, self._type)
        if os.preadv(self._descriptor, [result.data], begin * self._type.itemsize) != result.nbytes:
            raise OSError(f"a file of {SCRATCH} has fewer bytes than were written")
        return result


def _open_file(size: int) -> int | None:
    """Return a file of that size which has no name any more; None where none can be had."""
    try:
        descriptor, name = tempfile.mkstemp(dir=SCRATCH)
    except OSError:
        return None
    try:
        Path(name).unlink()
        os.posix_fallocate(descriptor, 0, size)
    except OSError:
        with suppress(OSError):
            os.close(descriptor)
        return None
    return descriptor
