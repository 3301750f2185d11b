"""Emulated volumes for tests, small, and what is done to them."""

from __future__ import annotations

import fcntl
import mmap
import os
import platform
import random
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from volbench.core.base import safe_files
from volbench.core.profile.resolve import ResolvedVolume, resolve
from volbench.machine.volume.emulated.volume import EmulatedVolume

FAST_FSX = {"iops": "100000", "throughput": "4000"}
FUSE_URING = Path("/sys/module/fuse/parameters/enable_uring")
"""Whether new mounts may have their requests over io_uring; absent before Linux 6.14."""
_URING_KERNEL = (6, 18, 3)


def can_have_requests_over_io_uring() -> bool:
    """Return whether block volumes of this kernel can have their requests over io_uring, once that is enabled."""
    numbers = [int(number) for number in re.findall(r"\d+", platform.release())[:3]]
    return FUSE_URING.exists() and tuple(numbers) >= _URING_KERNEL


@contextmanager
def requests_over_io_uring() -> Iterator[None]:
    """Let the block volumes that are started meanwhile have their requests over io_uring; one caller at a time.

    Raises OSError where the kernel has no such thing.
    """
    path = Path(tempfile.gettempdir(), "volbench-fuse-uring.lock")
    with os.fdopen(safe_files.open_own(path, os.O_RDWR | os.O_CREAT)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
        before = FUSE_URING.read_text()
        FUSE_URING.write_text("Y")
        try:
            yield
        finally:
            FUSE_URING.write_text(before)


def volume(root: Path, profile: str, **options: str) -> EmulatedVolume:
    name = "v"
    if profile != "fsx-openzfs" and not profile.startswith("efs"):
        options.setdefault("size", "1GiB")
    return EmulatedVolume(resolve(profile, options), root, name=name)


def without_delay(resolved: ResolvedVolume) -> ResolvedVolume:
    """The same volume, infinitely fast: for tests of what files hold."""
    model = {**resolved.model, "limits": [], "latency": {}}
    return ResolvedVolume(**{**resolved.__dict__, "model": model})


def write_durably(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def assert_held_to(took: list[float], iops: float, *, seconds: float) -> None:
    """So many reads came through in these seconds as a limit lets: never more, fewer on a machine that is busy.

    Raises AssertionError.
    """
    assert 0.5 * iops < len(took) / seconds <= 1.1 * iops, f"{len(took)} reads in {seconds:g} s"


def read_at_random(path: Path, *, seconds: float, size: int = 4096, extent: int = 64 << 20) -> list[float]:
    """Seconds that each direct random read of a file took."""
    buffer, source = mmap.mmap(-1, size), random.Random(1)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    took = []
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            offset = source.randrange(extent // size) * size
            before = time.perf_counter()
            os.preadv(descriptor, [buffer], offset)
            took.append(time.perf_counter() - before)
    finally:
        os.close(descriptor)
        buffer.close()
    return took
