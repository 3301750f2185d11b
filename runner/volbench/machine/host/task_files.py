"""Times of the tasks of processes, read again and again from /proc/PID/task/TID/schedstat.

Of thousands of threads most sleep. Opening a file of /proc costs four times its reading, so files stay open; of a
task whose bytes are those of the reading before nothing is parsed.
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

TASKS_HELD_SHARE = 0.5
"""Of the open files that a process may have: the others are for what else it does."""
DESCRIPTORS_MAX = 65_536
PROC_BYTES_MAX = 4096
_SCHEDSTAT_BYTES_MAX = 128
_NOT_HELD = -1
_ENDED = (errno.ENOENT, errno.ESRCH)
Times = tuple[int, int]
"""Nanoseconds on a CPU, nanoseconds runnable and waiting for one."""


def raise_descriptor_limit() -> None:
    """Let this process open as many files as it may, DESCRIPTORS_MAX at most."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    with suppress(OSError, ValueError):  # a sandbox may forbid it; then fewer files stay open
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def descriptors_to_hold() -> int:
    """Return how many files of tasks this process may keep open."""
    return int(resource.getrlimit(resource.RLIMIT_NOFILE)[0] * TASKS_HELD_SHARE)


class TaskFiles:
    """The files of tasks, and what they said last.

    Args:
        proc: where the kernel shows processes.
        held_max: how many files stay open; `close` closes them.
    """

    def __init__(self, proc: Path, *, held_max: int = 0) -> None:
        self._proc, self._held_max = proc, held_max
        self._held = 0
        self._last: dict[int, dict[str, tuple[int, bytes, Times]]] = {}

    def processes(self) -> set[int]:
        """Return the processes of which a task was read last."""
        return {pid for pid, tasks in self._last.items() if tasks}

    def changes(self, pid: int) -> Iterator[tuple[Times | None, Times]]:
        """Yield the times of each task that ran or waited since the last reading: then (None: it is new), now."""
        directory, last = f"{self._proc}/{pid}/task", self._last.setdefault(pid, {})
        tasks, pread = entries(directory), os.pread
        if tasks != list(last):
            for ended in last.keys() - set(tasks):
                self._forget(last, ended)
        for task in tasks:
            before = last.get(task)
            try:
                if before is not None and before[0] != _NOT_HELD:
                    descriptor, content = before[0], pread(before[0], _SCHEDSTAT_BYTES_MAX, 0)
                    if content == before[1]:
                        continue
                else:
                    descriptor, content = self._open(f"{directory}/{task}/schedstat")
            except OSError as error:
                if error.errno in _ENDED:  # meanwhile; a new task may have its number at the next reading
                    self._forget(last, task)
                continue
            if _is_schedstat(content):
                cpu_ns, delay_ns, _ = map(int, content.split())
                last[task] = descriptor, content, (cpu_ns, delay_ns)
                then = None if before is None else before[2]
                if then != (cpu_ns, delay_ns):
                    yield then, (cpu_ns, delay_ns)

    def keep_only(self, pids: Collection[int]) -> None:
        """Forget all other processes."""
        for pid in self._last.keys() - set(pids):
            for task in list(self._last[pid]):
                self._forget(self._last[pid], task)
            del self._last[pid]

    def close(self) -> None:
        """Close all files."""
        self.keep_only(())

    def _open(self, path: str) -> tuple[int, bytes]:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        is_held = False
        try:
            content = os.read(descriptor, _SCHEDSTAT_BYTES_MAX)
            is_held = self._held < self._held_max and _is_schedstat(content)
        finally:
            if not is_held:
                os.close(descriptor)
        self._held += is_held
        return descriptor if is_held else _NOT_HELD, content

    def _forget(self, last: dict[str, tuple[int, bytes, Times]], task: str) -> None:
        before = last.pop(task, None)
        if before is not None and before[0] != _NOT_HELD:
            os.close(before[0])
            self._held -= 1


def entries(directory: Path | str) -> list[str]:
    """Return the names in a directory; none where it cannot be read."""
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in entries]
    except OSError:
        return []


def _is_schedstat(content: bytes) -> bool:
    """Return whether a file has three numbers."""
    fields = content.split()
    return len(fields) == len(("cpu_ns", "delay_ns", "slices")) and all(map(bytes.isdigit, fields))


def contents(file: str) -> bytes:
    """Return the start of a small file of /proc: a Path and a text each cost more than its reading."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, PROC_BYTES_MAX)
    finally:
        os.close(descriptor)
