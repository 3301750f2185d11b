"""Statements of an observation: shares of all statements' time, also of those that have no text."""

from __future__ import annotations

import numpy as np
import pytest

from volbench.analysis.explain.evidence.align import Grid
from volbench.observe.report import count_text, statements_of, textless_note
from volbench.store.series import SeriesKey

PS = "performance_schema"


def grid(*, all_ms: float, text_s_per_s: float, per_s: float = 0.1) -> Grid:
    """Forty seconds of 1,000 statements a second, of which one text has a share."""
    columns = {
        ("statements_per_s", ""): 1000.0,
        ("statement_ms", ""): all_ms,
        ("query_s_per_s", "SELECT ?"): text_s_per_s,
        ("query_per_s", "SELECT ?"): per_s,
    }
    return Grid(
        t_s=np.arange(1.0, 41.0),
        width_s=1.0,
        columns={
            SeriesKey(source=PS, metric=metric, entity=entity): np.full(40, value)
            for (metric, entity), value in columns.items()
        },
    )


def test_a_share_is_of_all_statements_and_not_of_those_with_a_text() -> None:
    """As sysbench's prepared statements on MariaDB: mysqldump's SELECT had 100 % of the texts' time, 2 % of all."""
    statements = list(statements_of(grid(all_ms=1.0, text_s_per_s=0.02)))
    assert [statement.share for statement in statements] == [pytest.approx(0.02)]
    assert textless_note(statements).startswith(
        "98 % of the time of all statements is of statements without a text"
    )


def test_nothing_is_said_where_the_texts_have_the_time() -> None:
    """Digests are read every ten seconds: their sum may be a little more or less than that of all statements."""
    for text_s_per_s in (0.95, 1.0, 1.05):
        assert textless_note(list(statements_of(grid(all_ms=1.0, text_s_per_s=text_s_per_s)))) == ""
    assert textless_note([]) == ""


def test_a_statement_ran_a_whole_number_of_times() -> None:
    four, less = (next(statements_of(grid(all_ms=1.0, text_s_per_s=0.9, per_s=rate))) for rate in (0.1003, 0.001))
    assert count_text(four) == "4"
    assert count_text(less) == "under 1"
