"""Sends what is due when it is due: one thread a connection, some connections a process.

Nothing waits for an answer but the connection that asked. A statement whose connection is still busy is sent as
soon as that is free, and its response time counts from when it was due (an open loop: waiting is never left out).
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path

import mysql.connector
from mysql.connector.abstracts import MySQLConnectionAbstract

from volbench.engine.connection import Account, connection
from volbench.errors import StepFailed
from volbench.validation.arrivals import Due, Schedule
from volbench.validation.round_trips import RoundTrips
from volbench.volume.task_account import CpuShare, CpuWatch, run_delay_s, socket_peer

PROCESSES_MAX = 4
STATEMENT_BOUND_S = 60.0
"""A statement that takes longer counts as an error of its connection, which is opened again."""
DRAIN_BOUND_S = 120.0
"""So long after the last one was due, what is still waiting is given up as not sent."""
START_S_MAX = 60.0
"""So much longer at most do processes and connections take on a busy machine: a second for each task that waits."""
FAILED_CONNECTS_MAX = 3
LOOK_S = 0.5
_SWITCH_S = 0.0005
"""Threads of one interpreter wait so long for each other; Python's 5 ms would be seen in the figures."""
NOT_SENT = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One statement: times after the start. `free_s` is when its own connection had answered the one before.

    `held_s` is how long our own thread waited for a CPU between its beginning and its end: no time of the server's.
    """

    due: Due
    free_s: float
    began_s: float
    ended_s: float
    error: int = 0
    held_s: float = 0.0


@dataclass(kw_only=True)
class Share:
    """What one process sent. `busy` is its share of a CPU while statements were due; `words` are errors' texts.

    `ways_s` is what statements that do nothing took meanwhile.
    """

    answers: list[Answer] = field(default_factory=list)
    ways_s: tuple[float, ...] = ()
    words: dict[int, str] = field(default_factory=dict)
    busy: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What the replay's time was like on this machine.

    Args:
        share: of the CPUs; None where /proc does not tell.
        has_server: whether the candidate runs here too, so that what delays us delays it.
    """

    share: CpuShare | None = None
    has_server: bool = False


LOOPBACK = ("localhost", "127.0.0.1", "::1")


def send_watched(
    account: Account, plan: Schedule, *, writes: bool, progress: Callable[[str, float], None]
) -> tuple[list[Share], Machine]:
    """As `send`, and what the machine did meanwhile."""
    server = socket_peer(Path(account.socket)) if account.socket else None
    watch = CpuWatch([os.getpid()], server=server)
    with watch.watching():
        shares = send(account, plan, writes=writes, progress=progress)
    return shares, Machine(share=watch.share, has_server=bool(account.socket) or account.host in LOOPBACK)


def send(account: Account, plan: Schedule, *, writes: bool, progress: Callable[[str, float], None]) -> list[Share]:
    """Everything that is due, over some processes. Raises StepFailed when the client itself fails."""
    count = min(PROCESSES_MAX, os.cpu_count() or 1, len(plan.lanes))
    shares = [plan.lanes[number::count] for number in range(count)]
    # One clock for all processes. The time before it is for starting them and for opening connections.
    busy_s = min(START_S_MAX, os.getloadavg()[0] / (os.cpu_count() or 1))
    start = time.monotonic() + 3.0 + busy_s + 0.02 * len(plan.lanes) + plan.statements / 100_000
    until = start + plan.planned_s + DRAIN_BOUND_S
    context = get_context("spawn")
    stop = context.Event()
    with ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(stop,)) as pool:
        waiting = [pool.submit(_send_share, account, lanes, start, until, writes) for lanes in shares]
        try:
            return _collected(waiting, start, plan.planned_s, progress)
        except BaseException as error:
            stop.set()
            if not isinstance(error, BrokenProcessPool):
                raise
            raise StepFailed(
                "a process that sends statements ended", where="replay", evidence=str(error),
                next_step="see whether the kernel ended it for its memory: replay fewer `seconds`",
            ) from error  # fmt: skip


def _collected(
    waiting: Sequence[Future[Share]], start: float, planned_s: float, progress: Callable[[str, float], None]
) -> list[Share]:
    while wait(waiting, timeout=1.0).not_done:
        elapsed = max(0.0, time.monotonic() - start)
        progress("replay", min(1.0, elapsed / planned_s) if planned_s else 1.0)
    return [one.result() for one in waiting]


_stop: Event | None = None


def _begin(stop: Event) -> None:
    """In a process that sends: the parent alone is interrupted, and tells us."""
    global _stop  # noqa: PLW0603 - how an initializer hands over what cannot be pickled with a task
    _stop = stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    """When the parent is no more nobody waits for answers: send nothing further, and do not wait for tasks."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os.kill(os.getpid(), signal.SIGTERM)  # from a thread nothing else ends the whole process


def _join(threads: Sequence[threading.Thread]) -> None:
    """Wait for the threads, unless the parent stops the replay."""
    for thread in threads:
        while thread.is_alive():
            thread.join(LOOK_S)
            if _stop is not None and _stop.is_set():
                raise StepFailed("the replay was stopped", where="replay")


def _send_share(
    account: Account, lanes: Sequence[Sequence[Due]], start: float, until: float, writes: bool
) -> Share:
    sys.setswitchinterval(_SWITCH_S)
    share = Share()
    senders = [_Sender(account, start, until, writes, share) for _ in lanes]
    threads = [
        threading.Thread(target=sender.run, args=(lane,), daemon=True)
        for sender, lane in zip(senders, lanes, strict=True)
    ]
    for sender in senders:
        sender.connect()
    if time.monotonic() > start:
        raise StepFailed(
            "connections to the candidate took longer to open than a replay waits", where="replay",
            evidence=f"{len(lanes)} connections", next_step="give fewer `connections`, or a machine with more CPUs",
        )  # fmt: skip
    for thread in threads:
        thread.start()
    trips = RoundTrips(account)
    time.sleep(max(0.0, start - time.monotonic()))
    trips.start()
    cpu, began = time.process_time(), time.monotonic()
    last = max(lane[-1].at_s for lane in lanes)
    _join(threads)
    share.ways_s = tuple(trips.stop())
    share.busy = (time.process_time() - cpu) / max(time.monotonic() - began, last, 1e-3)
    return share


class _Sender:
    """One connection and its statements, in turn."""

    def __init__(self, account: Account, start: float, until: float, writes: bool, share: Share) -> None:
        self._account, self._start, self._until, self._writes, self._share = account, start, until, writes, share
        self._opening: AbstractContextManager[MySQLConnectionAbstract] | None = None
        self._opened: MySQLConnectionAbstract | None = None
        self._schema = ""
        self._failed = 0

    def connect(self) -> int:
        """Open, perhaps again; the code of the error, else 0."""
        self.close()
        try:
            self._opening = connection(self._account, timeout_s=STATEMENT_BOUND_S)
            self._opened = self._opening.__enter__()
            if not self._writes:
                self._ask("SET SESSION TRANSACTION READ ONLY")
        except mysql.connector.Error as error:
            self._failed += 1
            return self._failure(error)
        self._schema, self._failed = "", 0
        return 0

    def close(self) -> None:
        """Leave the connection, without waiting for a server that does not answer."""
        if self._opening is not None:
            with suppress(mysql.connector.Error, OSError):
                self._opening.__exit__(None, None, None)
        self._opening = self._opened = None

    def run(self, lane: Sequence[Due]) -> None:
        """All statements of a lane; once the server is gone for good, the rest counts as not sent."""
        free: dict[int, float] = {}
        before = lane[0].connection
        for due in lane:
            own_free = free.get(due.connection, -math.inf)
            time.sleep(max(0.0, self._start + due.at_s - time.monotonic()))
            began = time.monotonic()
            if began > self._until or self._failed >= FAILED_CONNECTS_MAX:
                self._keep(due, own_free, began, began, NOT_SENT)
                continue
            delay_s = run_delay_s()
            error = self._statement(due, fresh=due.connection != before)
            ended = time.monotonic()
            self._keep(due, own_free, began, ended, error, held_s=run_delay_s() - delay_s)
            before, free[due.connection] = due.connection, ended - self._start
        self.close()

    def _keep(
        self, due: Due, free_s: float, began: float, ended: float, error: int, *, held_s: float = 0.0
    ) -> None:
        answer = Answer(
            due=due, free_s=free_s, began_s=began - self._start, ended_s=ended - self._start, error=error,
            held_s=held_s,
        )  # fmt: skip
        self._share.answers.append(answer)  # appending is atomic

    def _statement(self, due: Due, *, fresh: bool) -> int:
        if self._opened is None:
            code = self.connect()
            if code:
                return code
        try:
            if fresh and self._writes:
                assert self._opened is not None  # noqa: S101 - connected above
                self._opened.cmd_reset_connection()  # what the connection before left: transactions, variables
                self._schema = ""
            if due.schema != self._schema:
                self._ask(f"USE `{due.schema.replace('`', '``')}`")
                self._schema = due.schema
            self._ask(due.sql)
        except mysql.connector.Error as error:
            if self._opened is None or not _alive(error):
                self.close()
            return self._failure(error)
        return 0

    def _ask(self, sql: str) -> None:
        """Send it, and read all that comes, as bytes."""
        assert self._opened is not None  # noqa: S101 - the callers connect
        with self._opened.cursor(raw=True) as cursor:
            # As the log has it, in any character set; the cursor takes bytes, which its annotations leave out.
            cursor.execute(sql.encode("utf-8", "surrogateescape"))  # type: ignore[arg-type]
            while True:
                if cursor.description:
                    cursor.fetchall()
                if not cursor.nextset():
                    return

    def _failure(self, error: mysql.connector.Error) -> int:
        code = error.errno if error.errno and error.errno > 0 else 2000
        self._share.words.setdefault(code, str(error.msg or error)[:200])
        return code


def _alive(error: mysql.connector.Error) -> bool:
    """Whether the server answered: codes from 2000 on to 2999 are the client's own, such as a lost connection."""
    return error.errno is not None and not 2000 <= error.errno < 3000 and error.errno > 0
