"""A capture next to another connection that sends the capture's own statements, as a second volbench does."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any, cast

import pytest

from volbench.core.records.validation.capture import Capture
from volbench.errors import StepFailed
from volbench.measure.sample.parsers.performance_schema import OWN_HISTORY, OWN_THREAD_QUERY
from volbench.validation.capture.digests import DIGESTS, RUNNING, capture
from volbench.validation.source.server import ReadOnlyServer

PS_PER_MS = 10**9
HISTORY = OWN_HISTORY.format(thread=7)
FIRST_MS = 40.0
"""The first query of the history: no page of it is cached; later ones take 1 ms."""


class Server:
    """Digests, and the history of one thread, of a server that is asked by us and by another connection.

    A statement is counted when it ends: its own answer does not have it.
    """

    address = "db:3306"

    def __init__(self, others: dict[str, tuple[int, float]], schema: str) -> None:
        """`others`: statements of the other connection that end within each second, and the ms of each."""
        self.others, self.schema = others, schema
        self.counts: Counter[tuple[str, str]] = Counter()
        self.ps: Counter[tuple[str, str]] = Counter()
        self.history: list[tuple[int, int, str]] = []
        self.events = 0

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        answer = self._answer(sql)
        is_first = sql == HISTORY and not any(each[2] == sql for each in self.history)
        ps = int((FIRST_MS if is_first else 1.0) * PS_PER_MS)
        self.end("", sql, ps)
        self.events += 1
        self.history = [*self.history, (self.events, ps, sql)][-10:]
        return answer

    def end(self, schema: str, sql: str, ps: int) -> None:
        self.counts[schema, sql] += 1
        self.ps[schema, sql] += ps

    def second(self, _seconds: float) -> None:
        for sql, (number, ms) in self.others.items():
            for _ in range(number):
                self.end(self.schema, sql, int(ms * PS_PER_MS))

    def _answer(self, sql: str) -> list[tuple[Any, ...]]:
        if sql == OWN_THREAD_QUERY:
            return [(7,)]
        if sql == HISTORY:
            return [("\n".join(f"{event} {ps} 0 0 {digest(text)[:8]}" for event, ps, text in self.history),)]
        if sql == DIGESTS:
            return [
                (key[0], digest(key[1]), key[1], self.counts[key], self.ps[key], 0, 0, 0) for key in self.counts
            ]
        if sql == RUNNING:
            return [("Threads_running", "2")]
        if "version" in sql:
            return [("8.4.0", "MySQL")]
        raise StepFailed("access denied")


def digest(sql: str) -> str:
    return hashlib.sha256(sql.encode()).hexdigest()


def captured(others: dict[str, tuple[int, float]], schema: str = "", seconds: int = 3) -> Capture:
    server = Server(others, schema)
    moments = iter(range(100))
    return capture(
        cast("ReadOnlyServer", server),
        seconds,
        masked=True,
        progress=lambda _text, _share: None,
        clock=lambda: float(next(moments)),
        sleep=server.second,
    )


@pytest.mark.parametrize("schema", ["", "app"])
@pytest.mark.parametrize("ms", [0.1, 2.0])
@pytest.mark.parametrize("sql", [HISTORY, OWN_THREAD_QUERY, RUNNING, "SELECT 1"])
def test_statements_of_others_are_counted_exactly_whoever_sends_the_same(sql: str, ms: float, schema: str) -> None:
    """Of another connection's history queries the time was -38 ms: our first one took 40 ms."""
    (found,) = captured({sql: (5, ms)}, schema).classes
    seconds = 2
    assert (found.schema_name, found.digest_text, found.statements) == (schema, sql, 5 * seconds)
    assert found.total_s == pytest.approx(5 * seconds * ms / 1000)


def test_a_server_that_nobody_else_asks_has_no_classes() -> None:
    assert captured({}).classes == ()
