"""An observation next to another connection that sends the same statements, as a second volbench does."""

from __future__ import annotations

from typing import Any

import pytest
from asked_server import HISTORY, PS_PER_MS, AskedServer, digest

from volbench.measure.sample.interface import Values
from volbench.measure.sample.own_account import OwnAccount
from volbench.measure.sample.server.digests import StatementDigests

STATUS = "SHOW GLOBAL STATUS WHERE `Variable_name` IN (...)"
TEXT = "(shown text)"


class ObservedServer(AskedServer):
    """The same, asked as the samplers of an observation ask."""

    generation = 1

    def rows(self, sql: str) -> list[tuple[bytes | None, ...]]:
        if "setup_consumers" in sql:
            return [(b"statements_digest",)]
        return [tuple(None if item is None else str(item).encode() for item in row) for row in self.query(sql)]

    def text(self, sql: str) -> list[str]:
        ((text,),) = self.rows(sql)
        return [(text or b"").decode()]

    def _answer(self, sql: str) -> list[tuple[Any, ...]]:
        if "events_statements_summary_by_digest" not in sql:
            return [("1",)] if sql == STATUS else super()._answer(sql)
        rows = []
        for schema, text in self.counts:
            row = (schema, digest(text), self.counts[schema, text], self.ps[schema, text], 0, None, 0, 0, 0, 0)
            rows.append((*row, text if is_short(text) else TEXT) if "LAST_SEEN" in sql else row)
        return rows

    def empty(self) -> None:
        """As TRUNCATE does: histories stay."""
        self.counts.clear()
        self.ps.clear()


def is_short(text: str) -> bool:
    return len(text) < 60


def observed(server: ObservedServer) -> StatementDigests:
    own = OwnAccount()
    own.history_query = HISTORY
    source = StatementDigests(server, own, clock=lambda: 0.0)  # type: ignore[arg-type]
    assert source.probe().present
    return source


def reading(server: ObservedServer, source: StatementDigests, seconds: int = 2) -> Values:
    for _ in range(seconds):
        server.second(1.0)
        server.query(STATUS)  # what the other sources ask on our connection
    return source.read()


@pytest.mark.parametrize("schema", ["", "app"])
@pytest.mark.parametrize("ms", [0.1, 2.0])
@pytest.mark.parametrize("sql", [HISTORY, STATUS, "SELECT 1"])
def test_statements_of_others_are_counted_exactly_whoever_sends_the_same(sql: str, ms: float, schema: str) -> None:
    """The time of others' history queries was cut off at 0: our first one took 40 ms, and was subtracted late."""
    server = ObservedServer({sql: (5, ms)}, schema)
    source = observed(server)
    for _ in range(3):
        values = reading(server, source)
        counts = {name: value for (field, name), value in values.items() if field == "count"}
        assert counts == {digest(sql)[:8]: 10}
        assert values["ps", digest(sql)[:8]] == 10 * ms * PS_PER_MS


def test_a_server_that_nobody_else_asks_has_no_statements() -> None:
    server = ObservedServer({}, "")
    source = observed(server)
    assert [reading(server, source) for _ in range(3)] == [{}, {}, {}]


def test_nothing_is_known_of_a_text_where_the_table_was_emptied_in_between() -> None:
    """Our statements before that are in the history and not in the table: less than nothing would be left."""
    server = ObservedServer({STATUS: (1, 1.0)}, "")
    source = observed(server)
    for _ in range(5):
        server.query(STATUS)
    server.empty()
    assert ("count", digest(STATUS)[:8]) not in reading(server, source, seconds=1)
    assert reading(server, source)["count", digest(STATUS)[:8]] == 2
