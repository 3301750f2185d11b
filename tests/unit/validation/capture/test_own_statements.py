"""A capture next to another connection that sends the capture's own statements, as a second volbench does."""

from __future__ import annotations

from typing import cast

import pytest
from asked_server import HISTORY, AskedServer

from volbench.core.records.validation.capture import Capture
from volbench.measure.sample.parsers.performance_schema import OWN_THREAD_QUERY
from volbench.validation.capture.digests import RUNNING, capture
from volbench.validation.source.server import ReadOnlyServer


def captured(others: dict[str, tuple[int, float]], schema: str = "", seconds: int = 3) -> Capture:
    server = AskedServer(others, schema)
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
