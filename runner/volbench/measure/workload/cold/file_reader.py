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
from volbench.measure.workload.process import run_tool

_REPORT_INTERVAL_S = 0.2
_CAT_FILES_MAX = 4000
"""Files on one command line, whose length is limited."""


@dataclass(frozen=True, kw_only=True)
class FileRead:
    """Size and time of one file's read."""

    path: Path
    size_bytes: int
    seconds: float


def cat_files(paths: Sequence[Path], *, timeout_s: float, cancelled: threading.Event, cwd: Path) -> None:
    """Run `cat FILES | wc -c`, which people use to time reads. Its bytes go through a pipe.

    Raises StepFailed if it fails, at the timeout, if cancelled, and if it read less than the files' sizes.
    """
    expected = sum(path.stat().st_size for path in paths)
    done, until_s = 0, time.monotonic() + timeout_s
    for start in range(0, len(paths), _CAT_FILES_MAX):
        names = [str(path) for path in paths[start : start + _CAT_FILES_MAX]]
        left_s = max(0.0, until_s - time.monotonic())
        with run_tool(["cat", "--", *names], timeout_s=left_s, cancelled=cancelled, cwd=cwd) as cat:
            with run_tool(
                ["wc", "-c"], timeout_s=left_s, cancelled=cancelled, cwd=cwd, stdin=cat.process.stdout
            ) as counting:
                count_text = "".join(counting.lines())
                code = cat.wait() or counting.wait()
            if code != 0 or not count_text.strip().isdecimal():
                raise StepFailed("cat cannot read the files", evidence=cat.error_output() or count_text)
            done += int(count_text)
    if done < expected:
        raise StepFailed(f"cat read {done} bytes of {expected}")


class _ReadProgress:
    """Progress and limits that the readers of one run share."""

    def __init__(
        self, *, until_monotonic_s: float, cancelled: threading.Event, on_progress: Callable[[int], None]
    ) -> None:
        self._until_s = until_monotonic_s
        self._cancelled = cancelled
        self._on_progress = on_progress
        self._lock = threading.Lock()
        self._bytes = 0
        self._next_word_s = 0.0

    def count(self, size: int) -> None:
        """Count bytes; raise StepFailed if the readers must end."""
        if self._cancelled.is_set():
            raise StepFailed("reading files was cancelled")
        now = time.monotonic()
        if now > self._until_s:
            raise StepFailed("reading the files count longer than the step's timeout")
        with self._lock:
            self._bytes += size
            if now < self._next_word_s:
                return
            self._next_word_s = now + _REPORT_INTERVAL_S
            total = self._bytes
        self._on_progress(total)


def read_files(
    paths: Sequence[Path],
    *,
    readers: int,
    block_size_bytes: int,
    timeout_s: float,
    cancelled: threading.Event,
    on_progress: Callable[[int], None],
) -> list[FileRead]:
    """Read all files, each by one reader from start to end into one reused buffer.

    Args:
        readers: files read at the same time.
        on_progress: called with the bytes read so far, about five times a second.

    Raises StepFailed at the timeout or if cancelled, OSError if a file cannot be read.
    """
    reading = _ReadProgress(
        until_monotonic_s=time.monotonic() + timeout_s, cancelled=cancelled, on_progress=on_progress
    )
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


def _read_file(path: Path, block: bytearray, reading: _ReadProgress) -> int:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        size = 0
        while length := os.readv(descriptor, [block]):
            size += length
            reading.count(length)
        return size
    finally:
        os.close(descriptor)
