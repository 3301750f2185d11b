"""A statement that takes too long: it is killed, also where its connection was made only then."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from volbench.errors import StepFailed
from volbench.measure.workload import long_statement
from volbench.measure.workload.interface import StepContext
from volbench.measure.workload.long_statement import LongStatement


class Server:
    """Connects when it may, refuses the first KILLs, and lists a session `listed` times after its end."""

    def __init__(self, *, refused: int = 0, listed: int = 0) -> None:
        self.may_connect, self.killed, self.connected = threading.Event(), threading.Event(), threading.Event()
        self.executing = threading.Event()
        self.executed: list[str] = []
        self.asked: list[str] = []
        self._refused, self._listed = refused, listed

    @contextmanager
    def connect(self, _database: str | None, *, timeout_s: float) -> Iterator[Any]:
        self.may_connect.wait(timeout_s)
        yield SimpleNamespace(connection_id=7, cursor=lambda: nullcontext(self))
        self.connected.set()

    def execute(self, sql: str) -> None:
        self.executed.append(sql)
        self.executing.set()
        assert self.killed.wait(60)

    def query(self, sql: str) -> list[tuple[int]]:
        if "processlist" in sql:
            self._listed -= 1
            return [(1,)] if self._listed >= 0 else []
        self.asked.append(sql)
        if len(self.asked) <= self._refused:
            raise StepFailed("the server is busy", where="KILL")
        self.killed.set()
        return []


def statement(server: Server, *, timeout_s: float, cancelled: threading.Event | None = None) -> LongStatement:
    context = SimpleNamespace(
        server=server, cancelled=cancelled or threading.Event(), clock=SimpleNamespace(now_s=lambda: 0.0)
    )
    return LongStatement(cast("StepContext", context), "ALTER TABLE t FORCE", timeout_s=timeout_s)


def test_a_statement_whose_connection_is_late_is_never_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the connection may take longer than the statement may."""
    monkeypatch.setattr(long_statement, "_KILL_TIMEOUT_S", 0.1)
    monkeypatch.setattr(long_statement, "_KILL_POLL_S", 0.1)
    server = Server()
    with pytest.raises(StepFailed, match=r"took longer than 0\.1 s"):
        statement(server, timeout_s=0.1).run(lambda: None, step_name="x", noun="ALTER TABLE")
    server.may_connect.set()
    assert server.connected.wait(60)
    assert server.executed == []


def cancelled_once_begun(server: Server) -> StepFailed:
    server.may_connect.set()
    cancelled = threading.Event()

    def cancel_once_begun() -> None:
        assert server.executing.wait(60)
        cancelled.set()

    with pytest.raises(StepFailed, match="was cancelled") as failed:
        statement(server, timeout_s=600.0, cancelled=cancelled).run(
            cancel_once_begun, step_name="x", noun="ALTER TABLE"
        )
    return failed.value


def test_a_refused_kill_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_statement, "_KILL_POLL_S", 0.01)
    server = Server(refused=2)
    cancelled_once_begun(server)
    assert len(server.asked) >= 3, "two refused, one that ended it; more where the statement's end takes a while"
    assert set(server.asked) == {"KILL 7"}
    assert server.killed.is_set()


def test_a_statement_that_the_server_still_runs_is_not_yet_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server closes the connection first; a statement that gets its lock then is completed."""
    monkeypatch.setattr(long_statement, "_KILL_POLL_S", 0.01)
    server = Server(listed=5)
    assert cancelled_once_begun(server).evidence == ""
    assert server.query("SELECT 1 FROM information_schema.processlist WHERE id = 7") == []


def test_a_statement_that_outlives_its_kill_is_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_statement, "_KILL_POLL_S", 0.01)
    monkeypatch.setattr(long_statement, "_KILL_TIMEOUT_S", 0.1)
    assert (
        cancelled_once_begun(Server(listed=1000)).evidence == "the server still runs it 0.1 s after the first KILL"
    )
