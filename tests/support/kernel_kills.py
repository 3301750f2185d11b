"""Kills for lack of memory, which are counted for the whole machine: tests that cause one or must see none."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from volbench.core.base import safe_files


@contextmanager
def killing_for_memory() -> Iterator[None]:
    """Hold while the kernel is made to kill a process for lack of memory; waits for tests that must see none."""
    with _held(fcntl.LOCK_EX):
        yield


@contextmanager
def none_killed_for_memory() -> Iterator[None]:
    """Hold while no test makes the kernel kill a process for lack of memory; several tests may."""
    with _held(fcntl.LOCK_SH):
        yield


@contextmanager
def _held(kind: int) -> Iterator[None]:
    path = Path(tempfile.gettempdir(), "volbench-kernel-kills.lock")
    with os.fdopen(safe_files.open_own(path, os.O_RDWR | os.O_CREAT)) as lock:
        fcntl.flock(lock, kind)  # until it is closed
        yield
