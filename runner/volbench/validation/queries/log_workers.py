"""Processes that read parts of a log, which anybody may have written: confined once the log is open."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from volbench.core.base import safe_files
from volbench.core.base.confinement import Confinement, confine_this_process
from volbench.core.base.workers import worker_pool
from volbench.core.sql.guard import judge
from volbench.measure.workload.replay.slowlog import SlowLog

MEMORY_BYTES = 4 << 30
"""Of a process: a statement of the bound's size is several times in memory."""
CPU_S = 24 * 3600
_OPEN_FILES = 16
_OWN_LOG = """\
# Time: 261120 10:00:00
# User@Host: a[a] @ b []
# Query_time: 1.000000  Lock_time: 0.000000 Rows_sent: 1  Rows_examined: 1
use s;
SET timestamp=1795263240;
SELECT 1 FROM t WHERE a = 'b';
"""
_files: tuple[BinaryIO, BinaryIO] | None = None


def log_workers(processes: int, log: Path, task: Callable[..., object]) -> ProcessPoolExecutor:
    """Return a pool whose processes read this log, and can neither open another file nor start a program.

    Args:
        processes: how many at most.
        log: is opened in each process before that.
        task: what they will do; its module is imported before that, since it may lie where only root reads.
    """
    return worker_pool(processes, initializer=_begin, initargs=(log, task))


@contextmanager
def log_files(log: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Yield the log opened twice, to read a part and what follows it. Raises OSError."""
    if _files is not None:
        yield _files
        return
    with safe_files.open_given(log) as file, safe_files.open_given(log) as later:
        yield file, later


def _begin(log: Path, _task: Callable[..., object]) -> None:
    """Set up a process: it leaves Ctrl-C to the parent, ends with it, has the log open, and is confined then."""
    global _files  # noqa: PLW0603 - how an initializer hands over what cannot be pickled with a task
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _files = safe_files.open_given(log), safe_files.open_given(log)
    # Modules and libraries that are loaded at the first use may lie where only root reads.
    for _, _, sql in SlowLog([_OWN_LOG], name="").timed_texts():
        judge(sql)
    confine_this_process(Confinement(memory_bytes=MEMORY_BYTES, cpu_s=CPU_S, open_files=_OPEN_FILES))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os.kill(os.getpid(), signal.SIGKILL)  # a process that waits for its next part ends in no other way
