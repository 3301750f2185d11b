"""What acts inside the server or at its client: sessions that hold locks, a client that stands still or is starved.

The server is the measured one: its socket and account are read from the configuration that its process was started
with. What it counts for the proof is what SHOW GLOBAL STATUS and the process list say, not performance_schema,
which volbench reads.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from configparser import ConfigParser
from contextlib import suppress
from pathlib import Path
from typing import Any

import mysql.connector
from mysql.connector.abstracts import MySQLCursorAbstract

from causes.counters import Recorder
from causes.injectors import Injector, Quota
from causes.machine import group_of, labelled_processes
from causes.pauses import PeriodicPause
from volbench.machine.engine.connection import Account, connection
from volbench.machine.engine.server import ACCOUNT_FILE

DATABASE = "sbtest"
CLIENT = "sysbench"
STATEMENT_S_MAX = 120.0
READ_S = 0.5
FIRST_S = 0.4
_STATUS = (
    "Handler_read_rnd_next",
    "Handler_read_next",
    "Sort_merge_passes",
    "Connections",
    "Threads_created",
    "Innodb_history_list_length",
    "Innodb_buffer_pool_wait_free",
    "Binlog_cache_disk_use",
    "Bytes_sent",
)
_WAITING = (
    "SELECT SUM(STATE LIKE 'Waiting for%lock'), SUM(STATE = 'User lock'), SUM(STATE LIKE 'Writing to net%'),"
    " SUM(STATE LIKE 'Waiting for semi-sync%') FROM information_schema.PROCESSLIST WHERE COMMAND <> 'Daemon'"
)
_WAITING_NAMES = ("locked", "user_locked", "sending", "semi_sync")


class Sessions(Injector):
    """Sessions of the measured server that execute their statements and then stay open until `off`.

    `sessions` is a list of lists of statements; each list runs in a thread and a connection of its own, again and
    again with `repeat`.
    """

    _threads: tuple[threading.Thread, ...] = ()

    def on(self) -> None:
        """Begin all of them, in order."""
        self._over, self._errors = threading.Event(), list[str]()
        account = account_of(self.recorder)
        listed = self.spec["sessions"]
        self._threads = tuple(
            threading.Thread(target=self._hold, args=(account, statements), daemon=True) for statements in listed
        )
        for thread in self._threads:
            thread.start()
            thread.join(timeout=FIRST_S)  # a session's locks are there before the next one asks for them
        if self._errors:
            raise RuntimeError("; ".join(self._errors))

    def _hold(self, account: Account, statements: list[str]) -> None:
        try:
            with connection(account, DATABASE, timeout_s=STATEMENT_S_MAX) as opened, opened.cursor() as cursor:
                _execute(cursor, statements)
                while self.spec.get("repeat") and not self._over.is_set():
                    _execute(cursor, statements)
                self._over.wait(STATEMENT_S_MAX)
        except mysql.connector.Error as error:
            self._errors.append(str(error))

    def off(self) -> None:
        """Close the connections; what they hold is free again."""
        if self._threads:
            self._over.set()
            for thread in self._threads:
                thread.join(timeout=10)
            self._threads = ()


class ClientPause(PeriodicPause):
    """The load generator is stopped for `pause_ms`, every `every_s`, as a garbage collector or a debugger would."""

    def signal(self, number: signal.Signals) -> None:
        """Send it to the load generator."""
        for pid in client_pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)


class ClientQuota(Quota):
    """A CPU quota of the load generator alone."""

    def join(self) -> None:
        """Put the load generator into the lab's group of CPU time."""
        for pid in client_pids():
            (group_of("cpu") / "cgroup.procs").write_text(str(pid))


class FileProbe(Injector):
    """Injects nothing: times a read and a sync of a `file` of its own on the volume, some times a second."""

    def prepare(self) -> None:
        """Make the file."""
        self._file = self.volume.mount / str(self.spec.get("file", "lab-probe"))
        self._file.write_bytes(bytes(1 << 20))

    def on(self) -> None:
        """Begin."""
        self._over, self._latest = threading.Event(), dict[str, float]()
        threading.Thread(target=self._follow, daemon=True).start()
        self.recorder.add(lambda: {**self._latest, **self._served()})

    def off(self) -> None:
        """End."""
        if hasattr(self, "_over"):
            self._over.set()

    def _follow(self) -> None:
        opened = os.open(self._file, os.O_RDWR)
        try:
            while not self._over.wait(READ_S):
                os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
                begun_s = time.monotonic()
                os.pread(opened, 4096, 0)
                read_s = time.monotonic()
                os.pwrite(opened, b"x", 0)
                written_s = time.monotonic()
                os.fsync(opened)
                sync_ms = 1000 * (time.monotonic() - written_s)
                self._latest = {"probe.read_ms": 1000 * (read_s - begun_s), "probe.sync_ms": sync_ms}
        finally:
            os.close(opened)

    def _served(self) -> dict[str, float]:
        """What the file system's process read and wrote, where the volume has one."""
        if self.volume.server_pid is None:
            return {}
        lines = Path(f"/proc/{self.volume.server_pid}/io").read_text().splitlines()
        pairs = (line.split(": ") for line in lines)
        return {f"fuse.{name}": float(value) for name, value in pairs if name in ("rchar", "syscr")}


class Counted(Injector):
    """Injects nothing: counts what server and client say of themselves, for a load that is its own cause."""

    def on(self) -> None:
        """Begin to read."""
        self._latest: dict[str, float] = {}
        self._over = threading.Event()
        threading.Thread(target=self._follow, args=(account_of(self.recorder),), daemon=True).start()
        self.recorder.add(lambda: {**self._latest, **client_counters()})

    def off(self) -> None:
        """End."""
        if hasattr(self, "_over"):
            self._over.set()

    def _follow(self, account: Account) -> None:
        with (
            suppress(mysql.connector.Error),
            connection(account, timeout_s=STATEMENT_S_MAX) as opened,
            opened.cursor() as cursor,
        ):
            while not self._over.wait(READ_S):
                cursor.execute("SHOW GLOBAL STATUS")
                rows: Any = cursor.fetchall()
                status = {str(name): value for name, value in rows}
                cursor.execute(_WAITING)
                waiting: Any = next(iter(cursor.fetchall()))
                self._latest = {
                    **{f"status.{name}": float(status[name]) for name in _STATUS if name in status},
                    **{f"sessions.{name}": float(n or 0) for name, n in zip(_WAITING_NAMES, waiting, strict=True)},
                }


INSIDE_INJECTORS: Mapping[str, type[Injector]] = {
    "sessions": Sessions,
    "client-pause": ClientPause,
    "client-quota": ClientQuota,
    "counted": Counted,
    "file-probe": FileProbe,
}


def _execute(cursor: MySQLCursorAbstract, statements: Sequence[str]) -> None:
    for statement in statements:
        cursor.execute(statement)
        if cursor.description is not None:
            cursor.fetchall()


def account_of(recorder: Recorder) -> Account:
    """volbench's account on the measured server. Raises RuntimeError where no server was seen."""
    pid = recorder.server_pid
    if pid is None:
        raise RuntimeError("the measured server was not seen")
    arguments = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    file = next(argument.partition("=")[2] for argument in arguments if argument.startswith("--defaults-file="))
    options = ConfigParser(allow_no_value=True, strict=False, interpolation=None)
    options.read(file)
    server = options["mysqld"]
    password = (Path(server["datadir"]) / ACCOUNT_FILE).read_text().strip()
    return Account(user="root", password=password, socket=server["socket"])


def client_pids() -> list[int]:
    """Processes of the load generator in this lab."""
    cells = labelled_processes()  # the load generator's environment is its own: its parent carries the label
    clients = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in clients if _name(pid) == CLIENT and _parent(pid) in cells]


def client_counters() -> dict[str, float]:
    """Seconds on and before a CPU of all threads of the load generator, and whether it is stopped."""
    run_ns = wait_ns = 0.0
    stopped = 0.0
    for pid in client_pids():
        with suppress(OSError, IndexError):
            stopped = max(stopped, float(_state(pid) == "T"))
            for run, wait in _schedules(pid):
                run_ns, wait_ns = run_ns + run, wait_ns + wait
    return {"client.run_s": run_ns / 1e9, "client.wait_s": wait_ns / 1e9, "client.stopped": stopped}


def _schedules(pid: int) -> Iterator[tuple[float, float]]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            run, wait, _ = (task / "schedstat").read_text().split()
            yield float(run), float(wait)


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _parent(pid: int) -> int:
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
