"""CPU time and run-queue delay of process trees, and the CPU time of the whole machine, from /proc.

The kernel counts for each task how long it ran and how long it was runnable and waited for a CPU
(/proc/PID/task/TID/schedstat: nanoseconds run, nanoseconds waited, time slices; the kernel's
Documentation/scheduler/sched-stats.rst).
The second figure is the delay that other work on the machine can cause: a busy CPU delays only runnable tasks.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from volbench.core.base import safe_files
from volbench.machine.host.task_files import TaskFiles, contents, descriptors_to_hold, entries

PROC = Path("/proc")
SERVER, CLIENT, CELL, EMULATOR, SAMPLER = "server", "client", "cell", "emulator", "sampler"
"""Whose processes: the server's, the load's with the agent that starts it, both together, the emulated volume's
daemon, and the sampling process, which is one of the agent's."""
IO_WORKERS = "io_workers"
"""The kernel's threads that carry out I/O for processes: work queues (of loop devices, dm-crypt, NFS and Ceph
clients, file systems), soft interrupts, journals. They work for whoever has I/O under way. Threads that serve
others (nfsd, vhost) or the machine (kswapd, md's resync) are none."""
_IO_WORKER_NAMES = (b"kworker/", b"ksoftirqd/", b"loop", b"jbd2/", b"xfs", b"dmcrypt", b"irq/")
_KERNEL_THREAD = 0x0020_0000  # PF_KTHREAD of the kernel's include/linux/sched.h
Children = Mapping[int, Sequence[int]]
"""Process -> its children."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_IDLE_OR_STOLEN_FIELDS = (3, 4, 7)
_CPU_FIELDS = 8
_FILE_INTERVAL_S = 0.5
TASKS_STALE_S = 5.0
"""An older task file is ignored: its writer is gone."""


@dataclass(frozen=True, kw_only=True)
class TaskTimes:
    """Tasks together, seconds: `cpu_s` on a CPU, `delay_s` runnable and waiting for one."""

    cpu_s: float = 0.0
    delay_s: float = 0.0

    def __add__(self, second: TaskTimes) -> TaskTimes:
        """Return the times of both."""
        return TaskTimes(cpu_s=self.cpu_s + second.cpu_s, delay_s=self.delay_s + second.delay_s)

    def per_s(self, seconds: float) -> TaskTimes:
        """Return the times per second."""
        return TaskTimes(cpu_s=self.cpu_s / seconds, delay_s=self.delay_s / seconds)


@dataclass(frozen=True, kw_only=True)
class CpuShare:
    """CPU use during a time span, seen by some processes, in CPUs (CPU seconds per second).

    Args:
        cpus: of the machine.
        foreign_cpus: used by others, without the hypervisor's share and the kernel's I/O workers.
        own: of the processes, seconds per second: on a CPU, and waiting for one, summed over all tasks.
        server: of the server among them, if visible from here.
    """

    cpus: int
    foreign_cpus: float
    own: TaskTimes
    server: TaskTimes | None = None

    @property
    def foreign_ratio(self) -> float:
        """The foreign use as a share of all CPUs."""
        return self.foreign_cpus / self.cpus


@dataclass(frozen=True, kw_only=True)
class ProcessWalk:
    """What one walk over /proc tells.

    Args:
        children: of each process that has any.
        io_worker_ticks: CPU time of each of the kernel's I/O workers since it started, in clock ticks.
    """

    children: Children
    io_worker_ticks: Mapping[int, int]

    def io_workers_s(self, before: ProcessWalk) -> float:
        """Return the CPU seconds of the kernel's I/O workers since an earlier walk, without those that ended."""
        grown = (max(0, now - before.io_worker_ticks.get(pid, 0)) for pid, now in self.io_worker_ticks.items())
        return sum(grown) / _TICKS_PER_S


class TaskAccount:
    """Sums up the CPU time of process trees since the first reading.

    Of a task that ends between two readings the last reading counts, so short-lived tasks count too little.

    Args:
        roots: processes whose descendants count too; ended ones are skipped.
        excluded: processes that do not count, with their descendants.
        proc: where the kernel shows processes.
        held_max: how many files of tasks stay open between readings; `close` closes them.
    """

    def __init__(
        self, roots: Iterable[int], *, excluded: Iterable[int] = (), proc: Path = PROC, held_max: int = 0
    ) -> None:
        self._roots = tuple(roots)
        self._excluded = frozenset(excluded)
        self._proc = proc
        self._files = TaskFiles(proc, held_max=held_max)
        self._cpu_ns = self._delay_ns = 0
        self._begun = False

    def read(self, children: Children | None = None, *, rarely: bool = False) -> TaskTimes:
        """Return the times of all tasks since the first call, which returns zero.

        Args:
            children: of all processes, as `walk_processes` returned them; None: they are looked up.
            rarely: they are looked up rarely: a process that is new counts from now on, not from its begin.
        """
        processes = self._files.processes()
        pids = tree(self._roots, excluded=self._excluded, proc=self._proc, children=children)
        for pid in pids:
            counts_from_its_begin = self._begun and (not rarely or pid in processes)
            for last, now in self._files.changes(pid):
                before = last or ((0, 0) if counts_from_its_begin else now)
                self._cpu_ns += max(0, now[0] - before[0])
                self._delay_ns += max(0, now[1] - before[1])
        self._files.keep_only(pids)
        self._begun = True
        return TaskTimes(cpu_s=self._cpu_ns / 1e9, delay_s=self._delay_ns / 1e9)

    def close(self) -> None:
        """Close the files that stay open."""
        self._files.close()


class TaskAccounts:
    """Accounts of several process trees, read from one walk over /proc.

    Args:
        roots: by whose processes they are; a server's are none of the client's, wherever they were started.
        readings_per_walk: how many readings one walk serves; a child that started since it is not counted yet.

    Files of tasks stay open until `close`.
    """

    def __init__(self, roots: Mapping[str, Iterable[int]], *, readings_per_walk: int = 1) -> None:
        self._readings, self._readings_per_walk = 0, readings_per_walk
        self._walk = ProcessWalk(children={}, io_worker_ticks={})
        self._io_workers_s = 0.0
        server = tuple(roots.get(SERVER, ()))
        held_max = descriptors_to_hold() // max(1, len(roots))
        self._accounts = {
            entity: TaskAccount(pids, excluded=server if entity == CLIENT else (), held_max=held_max)
            for entity, pids in roots.items()
        }

    def read(self) -> dict[str, TaskTimes]:
        """Return the times since the first call; `cell` is server and client, where the server is known."""
        if self._readings % self._readings_per_walk == 0:
            before, self._walk = self._walk, walk_processes()
            self._io_workers_s += self._walk.io_workers_s(before) if self._readings else 0.0
        self._readings += 1
        times = {
            entity: account.read(self._walk.children, rarely=self._readings_per_walk > 1)
            for entity, account in self._accounts.items()
        }
        if SERVER in times and CELL not in times:
            times[CELL] = times[SERVER] + times.get(CLIENT, TaskTimes())
        return times

    def figures(self) -> dict[str, dict[str, float]]:
        """Read, and return `cpu_s` and `delay_s` of each entity; `io_workers`, where visible, has no delay."""
        figures = {
            entity: {"cpu_s": times.cpu_s, "delay_s": times.delay_s} for entity, times in self.read().items()
        }
        if self._walk.io_worker_ticks:
            figures[IO_WORKERS] = {"cpu_s": self._io_workers_s}
        return figures

    def close(self) -> None:
        """Close the files that stay open."""
        for account in self._accounts.values():
            account.close()


class CpuWatch:
    """Measures the CPU use of some processes and their descendants during a block; see `CpuShare`.

    A thread reads the tasks several times a second, to include processes that end during the block.

    Args:
        own: roots of the measured process trees.
        server: a further root, measured separately; None: not visible from here.
    """

    INTERVAL_S = 0.2

    def __init__(self, own: Iterable[int], *, server: int | None = None) -> None:
        self._own = TaskAccount(own, excluded=[server] if server is not None else [])
        self._server = TaskAccount([server]) if server is not None else None
        self._stopped = threading.Event()
        self._share: CpuShare | None = None

    @property
    def share(self) -> CpuShare | None:
        """The result; None before the end of the block, and without /proc."""
        return self._share

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Measure the block."""
        walk, before_s, begun_s = walk_processes(), machine_busy_s(), time.monotonic()
        self._read()
        thread = threading.Thread(target=self._read_repeatedly, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()
            own, server = self._read()
            after_s, dt_s = machine_busy_s(), time.monotonic() - begun_s
            if before_s is not None and after_s is not None and dt_s > 0:
                used = (
                    own.cpu_s + (server.cpu_s if server is not None else 0.0) + walk_processes().io_workers_s(walk)
                )
                self._share = CpuShare(
                    cpus=os.cpu_count() or 1,
                    foreign_cpus=max(0.0, after_s - before_s - used) / dt_s,
                    own=own.per_s(dt_s),
                    server=None if server is None else server.per_s(dt_s),
                )

    def _read(self) -> tuple[TaskTimes, TaskTimes | None]:
        return self._own.read(), self._server.read() if self._server is not None else None

    def _read_repeatedly(self) -> None:
        while not self._stopped.wait(self.INTERVAL_S):
            self._read()


def run_delay_s() -> float:
    """Return how long the calling thread was runnable and waited for a CPU; 0 if the kernel does not count that."""
    try:
        return int((PROC / "thread-self" / "schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def walk_processes(proc: Path = PROC) -> ProcessWalk:
    """Return what one walk over /proc tells of all processes."""
    children: dict[int, list[int]] = {}
    io_worker_ticks: dict[int, int] = {}
    for entry in entries(proc):
        if entry.isdecimal():
            with suppress(OSError, ValueError, IndexError):
                names, _, fields_text = contents(f"{proc}/{entry}/stat").rpartition(b")")
                fields = fields_text.split()  # state, parent, ..., flags (6), ..., user and system time (11, 12)
                children.setdefault(int(fields[1]), []).append(int(entry))
                name = names.partition(b"(")[2]
                if name.startswith(_IO_WORKER_NAMES) and int(fields[6]) & _KERNEL_THREAD:
                    io_worker_ticks[int(entry)] = int(fields[11]) + int(fields[12])
    return ProcessWalk(children=children, io_worker_ticks=io_worker_ticks)


def tree(
    roots: Iterable[int],
    *,
    excluded: Iterable[int] = (),
    proc: Path = PROC,
    children: Children | None = None,
) -> list[int]:
    """Return existing processes and all their descendants, without the `excluded` ones and their descendants.

    Args:
        roots: of the trees.
        excluded: processes that are left out.
        proc: where the kernel shows processes.
        children: of all processes, as `walk_processes` returned them; None: they are looked up.
    """
    if children is None:
        children = walk_processes(proc).children
    pids: set[int] = set()
    pending, excluded_pids = list(roots), frozenset(excluded)
    while pending:
        pid = pending.pop()
        if pid not in pids and pid not in excluded_pids:
            pids.add(pid)
            pending += children.get(pid, ())
    return sorted(pids)


def keep_task_file(file: Path, roots: Mapping[str, Iterable[int]], stop: threading.Event) -> None:
    """Write the CPU times of process trees to a file, twice a second until `stop`, for other namespaces.

    The file is JSON: `at_s` (CLOCK_MONOTONIC), `entities`, and the figures of each; replaced atomically.
    """
    with (
        closing(TaskAccounts(roots)) as accounts,
        suppress(OSError),
        safe_files.held_directory(file.parent.resolve()) as directory,
    ):
        while not stop.wait(_FILE_INTERVAL_S):
            figures = accounts.figures()
            text = json.dumps({"at_s": time.monotonic(), "entities": list(figures), **figures})
            # Containers may make files there: a link of that name is replaced, not followed. The first failure ends
            # this: the directory was removed, and the cell is over.
            safe_files.write_new(directory, file.name, text.encode(), mode=0o644, sync=False)


def machine_busy_s(path: Path = PROC / "stat") -> float | None:
    """Return the seconds that all CPUs together were neither idle nor stolen; None if /proc/stat is unreadable."""
    try:
        name, *fields = path.read_text().split("\n", 1)[0].split()
        ticks = [int(field) for field in fields[:_CPU_FIELDS]]
    except (OSError, ValueError):
        return None
    if name != "cpu" or len(ticks) < _CPU_FIELDS:
        return None
    busy = sum(ticks) - sum(ticks[field] for field in _IDLE_OR_STOLEN_FIELDS)
    return busy / _TICKS_PER_S


def socket_peer(path: Path) -> int | None:
    """Return the process that listens on a Unix socket; None without one, or in another PID namespace."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        except OSError:
            return None
    return int(struct.unpack("3i", credentials)[0]) or None
