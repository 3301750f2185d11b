"""Reads files from start to end, several at a time, as cat does: plain reads through the page cache."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from volbench.errors import StepFailed
from volbench.workload.process import started

_WORD_S = 0.2
_CAT_FILES_MAX = 4000
"""On one command line, whose length is limited."""


@dataclass(frozen=True, kw_only=True)
class FileRead:
    """One file that was read."""

    path: Path
    size_bytes: int
    seconds: float


def cat_files(paths: Sequence[Path], *, timeout_s: float, cancelled: threading.Event, cwd: Path) -> None:
    """`cat FILES | wc -c`: what people type to see how fast files are read. Its bytes go through a pipe.

    Raises StepFailed when it fails, at the timeout or when cancelled, and when it read less than there is.
    """
    expected = sum(path.stat().st_size for path in paths)
    done, until_s = 0, time.monotonic() + timeout_s
    for start in range(0, len(paths), _CAT_FILES_MAX):
        some = [str(path) for path in paths[start : start + _CAT_FILES_MAX]]
        left_s = max(0.0, until_s - time.monotonic())
        with started(["cat", "--", *some], timeout_s=left_s, cancelled=cancelled, cwd=cwd) as cat:
            with started(
                ["wc", "-c"], timeout_s=left_s, cancelled=cancelled, cwd=cwd, stdin=cat.process.stdout
            ) as counting:
                said = "".join(counting.lines())
                code = cat.wait() or counting.wait()
            if code != 0 or not said.strip().isdigit():
                raise StepFailed("cat cannot read the files", evidence=cat.last_words() or said)
            done += int(said)
    if done < expected:
        raise StepFailed(f"cat read {done} bytes of {expected}")


class _Reading:
    """What the readers of one run share."""

    def __init__(
        self, *, until_monotonic_s: float, cancelled: threading.Event, seen: Callable[[int], None]
    ) -> None:
        self._until_s = until_monotonic_s
        self._cancelled = cancelled
        self._seen = seen
        self._lock = threading.Lock()
        self._bytes = 0
        self._next_word_s = 0.0

    def took(self, size: int) -> None:
        """Count bytes; raises StepFailed when the reading must end."""
        if self._cancelled.is_set():
            raise StepFailed("reading files was cancelled")
        now = time.monotonic()
        if now > self._until_s:
            raise StepFailed("reading the files took longer than the step's timeout")
        with self._lock:
            self._bytes += size
            if now < self._next_word_s:
                return
            self._next_word_s = now + _WORD_S
            total = self._bytes
        self._seen(total)


def read_files(
    paths: Sequence[Path],
    *,
    readers: int,
    block_size_bytes: int,
    timeout_s: float,
    cancelled: threading.Event,
    seen: Callable[[int], None],
) -> list[FileRead]:
    """Read all files, each by one reader from start to end into one reused buffer.

    Args:
        readers: files read at the same time.
        seen: told the bytes read so far, about five times a second.

    Raises StepFailed at the timeout or when cancelled, OSError when a file cannot be read.
    """
    reading = _Reading(until_monotonic_s=time.monotonic() + timeout_s, cancelled=cancelled, seen=seen)
    buffers = threading.local()

    def read(path: Path) -> FileRead:
        if not hasattr(buffers, "block"):
            buffers.block = bytearray(block_size_bytes)
        begun = time.monotonic()
        size = _read_file(path, buffers.block, reading)
        return FileRead(path=path, size_bytes=size, seconds=time.monotonic() - begun)

    with ThreadPoolExecutor(max_workers=readers, thread_name_prefix="reader") as pool:
        try:
            return list(pool.map(read, paths))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _read_file(path: Path, block: bytearray, reading: _Reading) -> int:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        size = 0
        while taken := os.readv(descriptor, [block]):
            size += taken
            reading.took(taken)
        return size
    finally:
        os.close(descriptor)
