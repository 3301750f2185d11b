"""One long statement on a connection of its own, which ends when the step is cancelled or its time is over."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

import mysql.connector

from volbench.errors import StepFailed, VolbenchError
from volbench.measure.workload.interface import StepContext

_POLL_S = 0.2
_KILL_POLL_S = 1.0
_KILL_TIMEOUT_S = 30.0


class LongStatement:
    """A statement that another connection kills; `failure` has the server's message if it failed."""

    def __init__(self, ctx: StepContext, sql: str, *, timeout_s: float, database: str | None = None) -> None:
        self._ctx = ctx
        self._sql = sql
        self._timeout_s = timeout_s
        self._database = database
        self._id: int | None = None
        self._given_up = threading.Event()
        self.begun_s = self.ended_s = 0.0
        self.failure: str | None = None

    def run(self, report: Callable[[], None], *, step_name: str, noun: str) -> None:
        """Run it to its end; `report` is called about five times a second. Raise StepFailed if it was killed."""
        until = time.monotonic() + self._timeout_s
        thread = threading.Thread(target=self._execute, name=noun, daemon=True)
        thread.start()
        while thread.is_alive():
            if self._ctx.cancelled.is_set() or time.monotonic() > until:
                cancelled = self._ctx.cancelled.is_set()
                reason = "was cancelled" if cancelled else f"took longer than {self._timeout_s:g} s"
                ended = self._end(thread)
                raise StepFailed(
                    f"the {noun} {reason}",
                    where=f"step {step_name}",
                    evidence=""
                    if ended
                    else f"the server still runs it {_KILL_TIMEOUT_S:g} s after the first KILL",
                )
            thread.join(_POLL_S)
            report()

    def _execute(self) -> None:
        try:
            with (
                self._ctx.server.connect(self._database, timeout_s=self._timeout_s + 60) as opened,
                opened.cursor() as cursor,
            ):
                self._id = opened.connection_id
                if self._given_up.is_set():
                    return
                self.begun_s = self._ctx.clock.now_s()
                cursor.execute(self._sql)
                self.ended_s = self._ctx.clock.now_s()
        except (VolbenchError, mysql.connector.Error, OSError) as error:
            evidence = error.evidence if isinstance(error, VolbenchError) else ""
            self.failure = evidence or str(error)

    def _end(self, thread: threading.Thread) -> bool:
        """Kill the statement until the server runs it no more; False if it still does after `_KILL_TIMEOUT_S`.

        A statement whose connection is still being made is not begun. A refused KILL is repeated. The server closes
        the client's connection before the statement has ended, and may complete the statement after that.
        """
        self._given_up.set()  # before the id is read: the thread sets the id before it looks at this
        until = time.monotonic() + _KILL_TIMEOUT_S
        while thread.is_alive() or self._is_running():
            if time.monotonic() > until:
                return self._id is None  # never begun
            if self._id is not None:
                with contextlib.suppress(VolbenchError, mysql.connector.Error):
                    self._ctx.server.query(f"KILL {self._id}")
            thread.join(_KILL_POLL_S)
            if not thread.is_alive() and self._is_running():
                time.sleep(_KILL_POLL_S)
        return True

    def _is_running(self) -> bool:
        """Return whether the server has a session of this id; False where the server cannot be asked."""
        if self._id is None:
            return False
        listed = f"SELECT 1 FROM information_schema.processlist WHERE id = {self._id}"  # noqa: S608 - a number
        try:
            return bool(self._ctx.server.query(listed))
        except (VolbenchError, mysql.connector.Error):
            return False
