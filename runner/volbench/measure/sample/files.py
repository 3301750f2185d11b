"""Files below /proc and /sys that are read at every tick: opened once, read whole from the start."""

from __future__ import annotations

import os
from pathlib import Path

from volbench.measure.sample.interface import Unavailable

_CHUNK_BYTES = 1 << 16
_SIZE_MAX = 1 << 22


class KernelFile:
    """A file that the kernel writes anew for each read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def read(self) -> str:
        """Return the text now. Raises Unavailable when it cannot be opened or read; the next call tries again."""
        try:
            if self._fd is None:
                self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            return self._read_all(self._fd)
        except OSError as error:
            self.close()
            raise Unavailable(f"{self.path}: {error.strerror or error}") from error

    def _read_all(self, fd: int) -> str:
        chunks: list[bytes] = []
        size = 0
        while size < _SIZE_MAX:
            chunk = os.pread(fd, _CHUNK_BYTES, size)
            if not chunk:
                break
            chunks.append(chunk)
            size += len(chunk)
        return b"".join(chunks).decode("utf-8", "surrogateescape")

    def close(self) -> None:
        """Close it; a later read opens it again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
