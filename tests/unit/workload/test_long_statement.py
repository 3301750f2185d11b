"""A statement that takes too long: it is killed, also where its connection was made only then."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from volbench.errors import StepFailed
from volbench.workload import long_statement
from volbench.workload.interface import StepContext
from volbench.workload.long_statement import LongStatement


class Server:
    """Connects when it is allowed to, and refuses the first KILLs."""

    def __init__(self, *, refused: int = 0) -> None:
        self.may_connect, self.killed, self.connected = threading.Event(), threading.Event(), threading.Event()
        self.executing = threading.Event()
        self.executed: list[str] = []
        self.asked: list[str] = []
        self._refused = refused

    @contextmanager
    def connect(self, _database: str | None, *, timeout_s: float) -> Iterator[Any]:
        self.may_connect.wait(timeout_s)
        yield SimpleNamespace(connection_id=7, cursor=lambda: nullcontext(self))
        self.connected.set()

    def execute(self, sql: str) -> None:
        self.executed.append(sql)
        self.executing.set()
        assert self.killed.wait(60)

    def query(self, sql: str) -> None:
        self.asked.append(sql)
        if len(self.asked) <= self._refused:
            raise StepFailed("the server is busy", where="KILL")
        self.killed.set()


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


def test_a_refused_kill_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_statement, "_KILL_POLL_S", 0.01)
    server = Server(refused=2)
    server.may_connect.set()
    cancelled = threading.Event()

    def cancel_once_begun() -> None:
        assert server.executing.wait(60)
        cancelled.set()

    with pytest.raises(StepFailed, match="was cancelled"):
        statement(server, timeout_s=600.0, cancelled=cancelled).run(
            cancel_once_begun, step_name="x", noun="ALTER TABLE"
        )
    assert len(server.asked) >= 3, "two refused, one that ended it; more where the statement's end takes a while"
    assert set(server.asked) == {"KILL 7"}
    assert server.killed.is_set()
