"""One server for the steps of a module, and contexts of steps on it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from plain_server import DATASET, Kept, PlainServer, plain_server

from volbench.core.records.facts import VolumeFacts
from volbench.measure.workload.interface import Clock, StepContext


@pytest.fixture(scope="module")
def server() -> Iterator[PlainServer]:
    with plain_server() as server:
        yield server


@pytest.fixture
def make_context(server: PlainServer, tmp_path: Path) -> Callable[..., StepContext]:
    if not server.alive():
        server.start()
    (tmp_path / "volume").mkdir()
    (tmp_path / "scratch").mkdir()

    def make(**changes: Any) -> StepContext:
        return StepContext(
            **{
                "server": server,
                "dataset": DATASET,
                "volume_facts": VolumeFacts(path=str(tmp_path)),
                "volume_dir": tmp_path / "volume",
                "scratch_dir": tmp_path / "scratch",
                "seed": 42,
                "clock": Clock(zero_monotonic_ns=time.clock_gettime_ns(time.CLOCK_MONOTONIC)),
                "record": Kept(),
                **changes,
            }
        )

    return make


def child_processes() -> dict[str, str]:
    """Process id -> name of this process's children, the server left out."""
    result = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, remainder = entry.read_text().partition("(")[2].rpartition(")")
            if int(remainder.split()[1]) == os.getpid() and name not in {"mariadbd", "mysqld"}:
                result[entry.parent.name] = name
    return result


@pytest.fixture
def children() -> Callable[[], set[str]]:
    """Names of the children that this test has left; those of tests before it are not its own."""
    before = child_processes()
    return lambda: {name for pid, name in child_processes().items() if pid not in before}


@pytest.fixture
def child_process() -> Callable[[str], int | None]:
    """Return the process id of this process's child with a name; those of tests beside it are never returned."""
    return lambda name: next((int(pid) for pid, child in child_processes().items() if child == name), None)
