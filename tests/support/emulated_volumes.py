"""Emulated volumes for tests, small, and what is done to them."""

from __future__ import annotations

import mmap
import os
import random
import time
from pathlib import Path

from volbench.profile.resolve import ResolvedVolume, resolve
from volbench.volume.emulated.volume import EmulatedVolume

FAST_FSX = {"iops": "100000", "throughput": "4000"}


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
    buffer, source = mmap.mmap(-1, size), random.Random(1)  # noqa: S311 - the same each time
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
