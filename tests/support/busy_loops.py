"""Real foreign work: processes that do nothing but compute, ended by their ids, and by themselves after a while."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def busy_loops(count: int, *, lifetime_s: float = 120.0) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many processes that each keep a CPU busy, as far as they get one."""
    loop = f"import time\nend = time.monotonic() + {lifetime_s}\nwhile time.monotonic() < end: pass"
    loops = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(count)]
    try:
        yield loops
    finally:
        for process in loops:
            process.kill()
            process.wait()
