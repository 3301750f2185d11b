"""Small files, one after the other: what create, stat, open and unlink take. No cache is emptied between them."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

FILES_PER_ROUND = 32
_FILE_BYTES = 4096
_CONTENT = os.urandom(_FILE_BYTES)


def measure_files(directory: Path, *, seconds: float) -> dict[str, float]:
    """Return rounds of creating, looking at, opening and removing small files until the time is over.

    Args:
        directory: an empty marked directory; it is empty again afterwards.

    Returns figures of probe_figures: medians in ms, and operations per second. Raises OSError.
    """
    took: dict[str, list[float]] = {"create": [], "stat": [], "open": [], "unlink": []}
    end = time.monotonic() + seconds
    while not took["unlink"] or time.monotonic() < end:
        names = [str(directory / f"small{number}") for number in range(FILES_PER_ROUND)]
        for kind, act in (("create", _create), ("stat", _stat), ("open", _open), ("unlink", os.unlink)):
            took[kind] += [_timed(act, name) for name in names]
    figures = {f"{kind}_per_s": len(times) / sum(times) for kind, times in took.items()}
    medians = {f"{kind}_ms": statistics.median(took[kind]) * 1e3 for kind in ("create", "open", "unlink")}
    return figures | medians


def _create(name: str) -> None:
    descriptor = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        os.write(descriptor, _CONTENT)
    finally:
        os.close(descriptor)


def _stat(name: str) -> None:
    os.stat(name)  # noqa: PTH116 - as the others: a path object's own time is not measured


def _open(name: str) -> None:
    os.close(os.open(name, os.O_RDONLY))


def _timed(act: Callable[[str], None], name: str) -> float:
    before = time.perf_counter()
    act(name)
    return time.perf_counter() - before
