"""CPU time and run-queue delay of process trees, and the CPU time of the whole machine, from /proc.

The kernel counts for each task how long it ran and how long it was runnable and waited for a CPU
(/proc/PID/task/TID/schedstat: nanoseconds run, nanoseconds waited, time slices; the kernel's
Documentation/scheduler/sched-stats.rst).
The second figure is what other work on the machine can do to a process: a CPU that is busy elsewhere delays
nobody who is not runnable.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_IDLE_FIELDS = (3, 4)
_STEAL_FIELD = 7
_CPU_FIELDS = 8
_FILE_INTERVAL_S = 0.5
TASKS_STALE_S = 5.0
"""A task file that is older says nothing: who kept it up to date is gone."""


@dataclass(frozen=True, kw_only=True)
class CpuTimes:
    """All CPUs together, seconds since boot: `busy_s` neither idle nor stolen, `steal_s` by the hypervisor."""

    busy_s: float
    steal_s: float


@dataclass(frozen=True, kw_only=True)
class TaskTimes:
    """Tasks together, seconds: `cpu_s` on a CPU, `delay_s` runnable and waiting for one."""

    cpu_s: float = 0.0
    delay_s: float = 0.0

    def per_s(self, seconds: float) -> TaskTimes:
        """The same for each second of so many."""
        return TaskTimes(cpu_s=self.cpu_s / seconds, delay_s=self.delay_s / seconds)


@dataclass(frozen=True, kw_only=True)
class CpuShare:
    """What a stretch of time was like for some processes, in CPUs (CPU seconds a second).

    Args:
        cpus: of the machine.
        foreign_cpus: used by others than the processes, the hypervisor's share left out.
        steal_cpus: taken by the hypervisor.
        own: of the processes, seconds a second: on a CPU, and waiting for one, all tasks added up.
        server: of the server among them, where it can be seen from here.
    """

    cpus: int
    foreign_cpus: float
    steal_cpus: float
    own: TaskTimes
    server: TaskTimes | None = None

    @property
    def foreign_ratio(self) -> float:
        """The foreign use as a share of all CPUs."""
        return self.foreign_cpus / self.cpus


class TaskAccount:
    """Adds up what the tasks of process trees have used since they were first seen.

    A task that ends between two readings keeps what it had at the last one; so short-lived tasks count too little.

    Args:
        roots: processes whose descendants count too; one that is gone is passed over.
        apart: processes that do not count, nor do their descendants.
    """

    def __init__(self, roots: Iterable[int], *, apart: Iterable[int] = (), proc: Path = PROC) -> None:
        self._roots = tuple(roots)
        self._apart = frozenset(apart)
        self._proc = proc
        self._last: dict[tuple[str, str], tuple[int, int]] = {}
        self._cpu_ns = self._delay_ns = 0
        self._begun = False

    def read(self) -> TaskTimes:
        """What all tasks have used since the first call, whose answer is zero."""
        now: dict[tuple[str, str], tuple[int, int]] = {}
        for pid in tree(self._roots, apart=self._apart, proc=self._proc):
            for task, times in _tasks(self._proc / str(pid) / "task"):
                now[str(pid), task] = times
        for key, (cpu_ns, delay_ns) in now.items():
            before = self._last.get(key, (0, 0) if self._begun else (cpu_ns, delay_ns))
            self._cpu_ns += max(0, cpu_ns - before[0])
            self._delay_ns += max(0, delay_ns - before[1])
        self._last, self._begun = now, True
        return TaskTimes(cpu_s=self._cpu_ns / 1e9, delay_s=self._delay_ns / 1e9)


class CpuWatch:
    """Measures what a block was like for some processes and their descendants; see `CpuShare`.

    A thread reads the tasks several times a second, so that those of processes that end meanwhile are seen.

    Args:
        own: roots of the process trees that are measured.
        server: one more, which is told apart too; None: it cannot be seen from here.
    """

    INTERVAL_S = 0.2

    def __init__(self, own: Iterable[int], *, server: int | None = None) -> None:
        self._own = TaskAccount(own, apart=[server] if server is not None else [])
        self._server = TaskAccount([server]) if server is not None else None
        self._over = threading.Event()
        self._share: CpuShare | None = None

    @property
    def share(self) -> CpuShare | None:
        """What was measured; None before the end of the block, and where /proc does not tell."""
        return self._share

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Measure the block."""
        before, begun_s = machine_times(), time.monotonic()
        self._read()
        thread = threading.Thread(target=self._read_on, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
            own, server = self._read()
            after, dt_s = machine_times(), time.monotonic() - begun_s
            if before is not None and after is not None and dt_s > 0:
                used = own.cpu_s + (server.cpu_s if server is not None else 0.0)
                self._share = CpuShare(
                    cpus=os.cpu_count() or 1,
                    foreign_cpus=max(0.0, after.busy_s - before.busy_s - used) / dt_s,
                    steal_cpus=max(0.0, after.steal_s - before.steal_s) / dt_s,
                    own=own.per_s(dt_s),
                    server=None if server is None else server.per_s(dt_s),
                )

    def _read(self) -> tuple[TaskTimes, TaskTimes | None]:
        return self._own.read(), self._server.read() if self._server is not None else None

    def _read_on(self) -> None:
        while not self._over.wait(self.INTERVAL_S):
            self._read()


def run_delay_s() -> float:
    """How long the calling thread has been runnable and waited for a CPU; 0 where the kernel does not tell."""
    try:
        return int((PROC / "thread-self" / "schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def tree(roots: Iterable[int], *, apart: Iterable[int] = (), proc: Path = PROC) -> list[int]:
    """The processes that are there and all their descendants; those `apart` and theirs are left out."""
    children: dict[int, list[int]] = {}
    for entry in _entries(proc):
        if entry.isdigit():
            with suppress(OSError, ValueError, IndexError):
                fields = (proc / entry / "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry))
    seen: set[int] = set()
    waiting, left_out = list(roots), frozenset(apart)
    while waiting:
        pid = waiting.pop()
        if pid not in seen and pid not in left_out:
            seen.add(pid)
            waiting += children.get(pid, [])
    return sorted(seen)


def keep_task_file(file: Path, roots: Mapping[str, Iterable[int]], stop: threading.Event) -> None:
    """Write what process trees have used into a file, twice a second until `stop`; for who cannot see them.

    The file is JSON: `at_s` (CLOCK_MONOTONIC), `entities`, and `cpu_s` and `delay_s` of each. It is replaced whole.
    """
    accounts = {entity: TaskAccount(pids) for entity, pids in roots.items()}
    beside = file.with_name(f"{file.name}.new")
    while not stop.wait(_FILE_INTERVAL_S):
        times = {entity: account.read() for entity, account in accounts.items()}
        told = {entity: {"cpu_s": one.cpu_s, "delay_s": one.delay_s} for entity, one in times.items()}
        text = json.dumps({"at_s": time.monotonic(), "entities": list(told), **told})
        try:
            beside.write_text(text)
            beside.replace(file)
        except OSError:
            return  # its directory was removed: the cell is over


def machine_times(path: Path = PROC / "stat") -> CpuTimes | None:
    """The CPU time of the machine; None where /proc/stat is not there or not of the known form."""
    try:
        name, *fields = path.read_text().split("\n", 1)[0].split()
        ticks = [int(field) for field in fields[:_CPU_FIELDS]]
    except (OSError, ValueError):
        return None
    if name != "cpu" or len(ticks) < _CPU_FIELDS:
        return None
    steal = ticks[_STEAL_FIELD]
    busy = sum(ticks) - sum(ticks[field] for field in _IDLE_FIELDS) - steal
    return CpuTimes(busy_s=busy / _TICKS_PER_S, steal_s=steal / _TICKS_PER_S)


def socket_peer(path: Path) -> int | None:
    """The process that listens on a Unix socket; None when none does, or when it is in another PID namespace."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
            found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        except OSError:
            return None
    return int(struct.unpack("3i", found)[0]) or None


def _tasks(directory: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    for task in _entries(directory):
        try:
            cpu_ns, delay_ns, _ = (directory / task / "schedstat").read_text().split()
        except (OSError, ValueError):
            continue  # ended meanwhile
        yield task, (int(cpu_ns), int(delay_ns))


def _entries(directory: Path) -> list[str]:
    try:
        return [entry.name for entry in directory.iterdir()]
    except OSError:
        return []
