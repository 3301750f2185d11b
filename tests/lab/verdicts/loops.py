"""Foreign work that comes and goes: processes that compute for some seconds, then sleep for some."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from types import TracebackType

SPAN_S = (3.0, 12.0)
"""Bounds of a span of work or of sleep."""
LIFE_S_MAX = 3600.0


class Loops:
    """So many busy loops, each with spans of its own; a context manager, at whose end they are gone.

    A loop also ends when the process that started it is gone, and after an hour.
    """

    def __init__(self, count: int, seed: int) -> None:
        self._commands = [
            [sys.executable, __file__, str(seed * 100 + number), str(os.getpid())] for number in range(count)
        ]
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Loops:
        self._running = [subprocess.Popen(command) for command in self._commands]
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _t: TracebackType | None
    ) -> None:
        for loop in self._running:
            loop.kill()
        for loop in self._running:
            loop.wait()


def compute(seed: int, parent: int) -> None:
    """Work and sleep by turns until the parent is gone."""
    spans = random.Random(seed)
    end_s = time.monotonic() + LIFE_S_MAX
    while os.getppid() == parent and time.monotonic() < end_s:
        until_s = time.monotonic() + spans.uniform(*SPAN_S)
        while time.monotonic() < until_s:
            pass
        time.sleep(spans.uniform(*SPAN_S))


if __name__ == "__main__":
    compute(int(sys.argv[1]), int(sys.argv[2]))
