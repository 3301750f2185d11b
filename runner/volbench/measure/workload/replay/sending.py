"""Sends statements when they are due: one thread a connection, several connections a process.

Only the connection that sent a statement waits for its result. A statement whose connection is still busy is sent
as soon as the connection is free, and its response time counts from when it was due (an open loop).
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from threading import BrokenBarrierError
from typing import Any

import mysql.connector
from mysql.connector.abstracts import MySQLConnectionAbstract

from volbench.core.base.workers import worker_context, worker_pool
from volbench.errors import StepFailed
from volbench.machine.engine.connection import Account, connection
from volbench.machine.engine.round_trips import RoundTrips
from volbench.machine.host.task_account import CpuShare, CpuWatch, run_delay_s, socket_peer
from volbench.measure.workload.replay.schedule import Schedule, ScheduledStatement

PROCESSES_MAX = 4
STATEMENT_TIMEOUT_S = 60.0
"""A statement that takes longer counts as an error, and its connection is opened again."""
DRAIN_TIMEOUT_S = 120.0
"""Statements that still wait this long after the last one was due count as not sent."""
START_S_MAX = 120.0
"""For processes to start and to open their connections, also on a busy machine."""
START_DELAY_S = 1.0
"""From the last connection to the begin of the log: for the threads to start."""
FAILED_CONNECTS_MAX = 3
POLL_S = 0.5
_SWITCH_S = 0.0005
"""Threads of one interpreter wait this long for each other; Python's 5 ms would show in the figures."""
NOT_SENT = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecutedStatement:
    """One executed statement, with times after the start.

    Args:
        free_s: when the previous statement of its connection ended.
        cpu_wait_s: time during the execution in which the client's thread waited for a CPU.
    """

    statement: ScheduledStatement
    free_s: float
    started_s: float
    ended_s: float
    error: int = 0
    cpu_wait_s: float = 0.0


@dataclass(kw_only=True)
class WorkerResult:
    """The executions of one process.

    Args:
        rtt_s: round trips of empty statements meanwhile.
        error_messages: by error code.
        cpu_share: of one CPU, while statements were due.
        start_monotonic_s: the start, on CLOCK_MONOTONIC.
    """

    executions: list[ExecutedStatement] = field(default_factory=list)
    rtt_s: tuple[float, ...] = ()
    error_messages: dict[int, str] = field(default_factory=dict)
    cpu_share: float = 0.0
    start_monotonic_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The state of this machine during the replay.

    Args:
        cpu: use of the CPUs; None where /proc does not have it.
        has_server: whether the candidate runs on this machine too and is delayed by the same work.
    """

    cpu: CpuShare | None = None
    has_server: bool = False


LOOPBACK = ("localhost", "127.0.0.1", "::1")


def send_with_cpu_watch(
    account: Account, plan: Schedule, *, writes: bool, progress: Callable[[str, float], None]
) -> tuple[list[WorkerResult], Machine]:
    """Send the statements, and return the results with the state of the machine meanwhile."""
    server = socket_peer(Path(account.socket)) if account.socket else None
    watch = CpuWatch([os.getpid()], server=server)
    with watch.watching():
        results = send(account, plan, writes=writes, progress=progress)
    return results, Machine(cpu=watch.share, has_server=bool(account.socket) or account.host in LOOPBACK)


def send(
    account: Account, schedule: Schedule, *, writes: bool, progress: Callable[[str, float], None]
) -> list[WorkerResult]:
    """Send all statements from several processes. Raises StepFailed when the client itself fails."""
    count = min(PROCESSES_MAX, os.cpu_count() or 1, len(schedule.connections))
    assigned = [schedule.connections[number::count] for number in range(count)]
    context = worker_context()
    agreement = _Agreement(
        stop=context.Event(), connected=context.Barrier(count), start=context.Value("d", 0.0, lock=False)
    )
    with worker_pool(count, mp_context=context, initializer=_begin, initargs=(agreement,)) as pool:
        futures = [pool.submit(_run_worker, account, lanes, schedule.planned_s, writes) for lanes in assigned]
        try:
            return _collect(futures, agreement, schedule.planned_s, progress)
        except BaseException as error:
            agreement.stop.set()
            agreement.connected.abort()
            if not isinstance(error, BrokenProcessPool):
                raise
            raise StepFailed(
                "a process that sends statements ended",
                where="replay",
                evidence=str(error),
                next_step="if the kernel killed the process for its memory, replay fewer `seconds`",
            ) from error


@dataclass(frozen=True, kw_only=True)
class _Agreement:
    """What the parent and all sending processes share.

    Args:
        stop: set by the parent to end the replay.
        connected: where each process waits until all have opened their connections.
        start: on CLOCK_MONOTONIC, one for all; 0 until then.
    """

    stop: Event
    connected: Barrier
    start: Any

    def wait_for_start(self) -> float:
        """Return the start, once all processes are ready. Raises StepFailed."""
        try:
            if self.connected.wait(START_S_MAX) == 0:
                self.start.value = time.monotonic() + START_DELAY_S
            self.connected.wait(START_S_MAX)
        except BrokenBarrierError as error:
            raise StepFailed(
                "opening the connections to the candidate took too long",
                where="replay",
                evidence=f"not all were open after {START_S_MAX:g} s",
                next_step="give fewer `connections`, or a machine with more CPUs",
            ) from error
        return float(self.start.value)


def _collect(
    futures: Sequence[Future[WorkerResult]],
    agreement: _Agreement,
    planned_s: float,
    progress: Callable[[str, float], None],
) -> list[WorkerResult]:
    while True:
        ended = wait(futures, timeout=1.0, return_when=FIRST_EXCEPTION)
        for future in ended.done:
            future.result()  # the failure of a process ends the others
        if not ended.not_done:
            return [future.result() for future in futures]
        start = agreement.start.value
        elapsed = max(0.0, time.monotonic() - start) if start else 0.0
        progress("replay", min(1.0, elapsed / planned_s) if planned_s else 1.0)


_agreement: _Agreement | None = None


def _begin(agreement: _Agreement) -> None:
    """Set up a sending process: only the parent handles interrupts, and sets `stop`."""
    global _agreement  # noqa: PLW0603 - how an initializer hands over what cannot be pickled with a task
    _agreement = agreement
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, args=(os.getppid(),), daemon=True).start()


def _exit_with_parent(parent: int) -> None:
    """End this process when the parent has ended, without sending more or waiting for tasks."""
    while os.getppid() == parent:
        time.sleep(POLL_S)
    os.kill(os.getpid(), signal.SIGTERM)  # from a thread nothing else ends the whole process


def _join(threads: Sequence[threading.Thread]) -> None:
    """Wait for the threads, unless the parent stops the replay."""
    for thread in threads:
        while thread.is_alive():
            thread.join(POLL_S)
            if _agreement is not None and _agreement.stop.is_set():
                raise StepFailed("the replay was stopped", where="replay")


def _run_worker(
    account: Account,
    connections: Sequence[Sequence[ScheduledStatement]],
    planned_s: float,
    writes: bool,
) -> WorkerResult:
    assert _agreement is not None
    sys.setswitchinterval(_SWITCH_S)
    result = WorkerResult()
    senders = [_Sender(account, writes, result) for _ in connections]
    threads = [
        threading.Thread(target=sender.run, args=(statements,), daemon=True)
        for sender, statements in zip(senders, connections, strict=True)
    ]
    for sender in senders:
        sender.connect()
    round_trips = RoundTrips(account)
    result.start_monotonic_s = start = _agreement.wait_for_start()
    for sender in senders:
        sender.begin_at(start, deadline=start + planned_s + DRAIN_TIMEOUT_S)
    for thread in threads:
        thread.start()
    time.sleep(max(0.0, start - time.monotonic()))
    round_trips.start()
    cpu, began = time.process_time(), time.monotonic()
    last_at_s = max(statements[-1].at_s for statements in connections)
    _join(threads)
    result.rtt_s = tuple(round_trips.stop())
    result.cpu_share = (time.process_time() - cpu) / max(time.monotonic() - began, last_at_s, 1e-3)
    return result


class _Sender:
    """One connection and its statements, in turn."""

    def __init__(self, account: Account, writes: bool, result: WorkerResult) -> None:
        self._account, self._writes, self._result = account, writes, result
        self._start = self._deadline = 0.0
        self._connection_context: AbstractContextManager[MySQLConnectionAbstract] | None = None
        self._connection: MySQLConnectionAbstract | None = None
        self._schema = ""
        self._failed = 0

    def connect(self) -> int:
        """Open the connection, closing an open one first; return the code of the error, else 0."""
        self.close()
        try:
            self._connection_context = connection(self._account, timeout_s=STATEMENT_TIMEOUT_S)
            self._connection = self._connection_context.__enter__()
            if not self._writes:
                self._ask("SET SESSION TRANSACTION READ ONLY")
        except mysql.connector.Error as error:
            self._failed += 1
            return self._failure(error)
        self._schema, self._failed = "", 0
        return 0

    def begin_at(self, start: float, *, deadline: float) -> None:
        """Set the time, on CLOCK_MONOTONIC, of the log's begin, and that after which nothing is sent."""
        self._start, self._deadline = start, deadline

    def close(self) -> None:
        """Close the connection without waiting for a server that does not answer."""
        if self._connection_context is not None:
            with suppress(mysql.connector.Error, OSError):
                self._connection_context.__exit__(None, None, None)
        self._connection_context = self._connection = None

    def run(self, statements: Sequence[ScheduledStatement]) -> None:
        """Send all statements of a connection; once the server is gone, the remaining ones count as not sent."""
        free_at_s: dict[int, float] = {}
        previous_connection = statements[0].connection
        for statement in statements:
            own_free_s = free_at_s.get(statement.connection, -math.inf)
            time.sleep(max(0.0, self._start + statement.at_s - time.monotonic()))
            began = time.monotonic()
            if began > self._deadline or self._failed >= FAILED_CONNECTS_MAX:
                self._record(statement, own_free_s, began, began, NOT_SENT)
                continue
            delay_s = run_delay_s()
            error = self._statement(statement, fresh=statement.connection != previous_connection)
            ended = time.monotonic()
            self._record(statement, own_free_s, began, ended, error, cpu_wait_s=run_delay_s() - delay_s)
            previous_connection, free_at_s[statement.connection] = statement.connection, ended - self._start
        self.close()

    def _record(
        self,
        statement: ScheduledStatement,
        free_s: float,
        started: float,
        ended: float,
        error: int,
        *,
        cpu_wait_s: float = 0.0,
    ) -> None:
        execution = ExecutedStatement(
            statement=statement,
            free_s=free_s,
            started_s=started - self._start,
            ended_s=ended - self._start,
            error=error,
            cpu_wait_s=cpu_wait_s,
        )
        self._result.executions.append(execution)  # appending is atomic

    def _statement(self, statement: ScheduledStatement, *, fresh: bool) -> int:
        if self._connection is None:
            code = self.connect()
            if code:
                return code
        try:
            if fresh and self._writes:
                assert self._connection is not None
                self._connection.cmd_reset_connection()  # drop the previous connection's transactions and variables
                self._schema = ""
            if statement.schema != self._schema:
                self._ask(f"USE `{statement.schema.replace('`', '``')}`")
                self._schema = statement.schema
            self._ask(statement.sql)
        except mysql.connector.Error as error:
            if self._connection is None or not _alive(error):
                self.close()
            return self._failure(error)
        return 0

    def _ask(self, sql: str) -> None:
        """Send a statement, and read all results as bytes."""
        assert self._connection is not None
        with self._connection.cursor(raw=True) as cursor:
            # As in the log, in any character set; the cursor takes bytes, although its annotations do not say so.
            cursor.execute(sql.encode("utf-8", "surrogateescape"))  # type: ignore[arg-type]
            while True:
                if cursor.description:
                    cursor.fetchall()
                if not cursor.nextset():
                    return

    def _failure(self, error: mysql.connector.Error) -> int:
        code = error.errno if error.errno and error.errno > 0 else 2000
        self._result.error_messages.setdefault(code, str(error.msg or error)[:200])
        return code


def _alive(error: mysql.connector.Error) -> bool:
    """Return whether the server answered: codes 2000 to 2999 are the client's own, such as a lost connection."""
    return error.errno is not None and not 2000 <= error.errno < 3000 and error.errno > 0
