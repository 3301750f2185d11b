"""Files of tasks: what ran is told, what ended is closed, and no more files are open than may be."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from volbench.machine.host.task_account import TaskAccount
from volbench.machine.host.task_files import TaskFiles, entries

PROC = Path("/proc")
THREADS = 40
WAIT_S = 60.0


def open_files() -> int:
    return len(entries("/proc/self/fd"))


class Sleepers:
    """Threads of this process that sleep until they are let go; one of them works on demand."""

    def __init__(self) -> None:
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._end.wait) for _ in range(THREADS)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(WAIT_S)


def tasks_left(count: int) -> bool:
    """Whether so few tasks are left: the kernel removes one a moment after its thread was joined."""
    deadline_s = time.monotonic() + WAIT_S
    while len(entries("/proc/self/task")) > count and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return len(entries("/proc/self/task")) <= count


@pytest.mark.parametrize("held_max", [0, 7, 10_000])
def test_only_what_ran_is_told_and_what_ended_is_closed(held_max: int) -> None:
    before, tasks = open_files(), len(entries("/proc/self/task"))
    files, sleepers = TaskFiles(PROC, held_max=held_max), Sleepers()
    try:
        new = list(files.changes(os.getpid()))
        assert len(new) >= THREADS
        assert all(then is None for then, _ in new)
        assert open_files() - before == min(held_max, len(new))
        again = list(files.changes(os.getpid()))
        assert len(again) < THREADS, "none that sleeps"
        assert all(then is not None and now >= then for then, now in again)
    finally:
        sleepers.end()
    assert tasks_left(tasks)
    list(files.changes(os.getpid()))
    assert open_files() - before <= min(held_max, tasks)
    files.close()
    assert open_files() == before


@pytest.mark.parametrize("held_max", [0, 10_000])
def test_an_account_is_the_same_however_files_are_read(held_max: int) -> None:
    """Work of threads, also of those that start between readings, is within what the process used."""
    account = TaskAccount([os.getpid()], held_max=held_max)
    account.read()
    begun_s = time.process_time()
    done = threading.Event()

    def work() -> None:
        until_s = time.thread_time() + 0.2
        while time.thread_time() < until_s:
            pass
        done.set()
        keep.wait(WAIT_S)

    keep = threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    assert done.wait(WAIT_S)
    times = account.read()
    used_s = time.process_time() - begun_s
    keep.set()
    thread.join(WAIT_S)
    account.close()
    assert 0.2 <= times.cpu_s <= used_s + 0.1


def test_a_process_that_is_gone_holds_no_file() -> None:
    before = open_files()
    files = TaskFiles(PROC, held_max=10)
    list(files.changes(os.getpid()))
    files.keep_only({1})
    assert files.processes() == set()
    assert open_files() == before
