"""A made server with digests of statements and a history, asked by us and by another connection at once."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

from volbench.errors import StepFailed
from volbench.measure.sample.parsers.performance_schema import OWN_HISTORY, OWN_THREAD_QUERY
from volbench.validation.capture.digests import DIGESTS, RUNNING

PS_PER_MS = 10**9
HISTORY = OWN_HISTORY.format(thread=7)
FIRST_MS = 40.0
"""The first query of the history: no page of it is cached; later ones take 1 ms."""


class AskedServer:
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
