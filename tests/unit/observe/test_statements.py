"""Statements of an observation: counts over the readings' own time, and shares also of those without a text."""

from __future__ import annotations

import itertools

import pytest

from volbench.core.records.series import SeriesRow
from volbench.measure.sample.interface import Reading
from volbench.measure.sample.server.digests import TEXT, StatementDigests
from volbench.observe.statements import StatementRates, count_text, textless_note

PS = "performance_schema"


def rates(*, text_s_per_s: float, per_s: float = 0.1) -> StatementRates:
    """Forty seconds with one second a second of statements, of which one text has a share."""
    of_stretch = StatementRates()
    for end_s in range(10, 50, 10):
        values = {
            ("statement_s_per_s", ""): 1.0,
            ("query_s_per_s", "SELECT ?"): text_s_per_s,
            ("query_per_s", "SELECT ?"): per_s,
        }
        rows = [
            SeriesRow(t_s=float(end_s), source=PS, metric=metric, entity=entity, value=value)
            for (metric, entity), value in values.items()
        ]
        of_stretch.add(end_s - 10.0, rows)
    return of_stretch


def test_a_share_is_of_all_statements_and_not_of_those_with_a_text() -> None:
    """As sysbench's prepared statements on MariaDB: mysqldump's SELECT had 100 % of the texts' time, 2 % of all."""
    statements = list(rates(text_s_per_s=0.02).statements())
    assert [statement.share for statement in statements] == [pytest.approx(0.02)]
    assert textless_note(statements).startswith(
        "98 % of the time of all statements is of statements without a text"
    )


def test_nothing_is_said_where_the_texts_have_the_time() -> None:
    """Digests are read every ten seconds: their sum may be a little more or less than that of all statements."""
    for text_s_per_s in (0.95, 1.0, 1.05):
        assert textless_note(list(rates(text_s_per_s=text_s_per_s).statements())) == ""
    assert textless_note([]) == ""


def test_a_statement_ran_a_whole_number_of_times() -> None:
    four, less = (next(rates(text_s_per_s=0.9, per_s=rate).statements()) for rate in (0.1003, 0.001))
    assert count_text(four) == "4"
    assert count_text(less) == "under 1"


def test_a_late_reading_counts_what_it_counted() -> None:
    """The sampler gives by how much a digest grew; a rate times its own time gives that back."""
    read_s, grown = [10.0, 20.0, 30.5, 47.9, 50.0], [0, 40, 104, 7, 1]
    readings = [
        Reading(
            t_s=t_s, values={(TEXT, "ab SELECT SLEEP(?)"): 1, ("count", "ab"): count, ("ps", "ab"): count * 10**10}
        )
        for t_s, count in zip(read_s, grown, strict=True)
    ]
    of_all = StatementRates()
    for before, after in itertools.pairwise(readings):
        of_all.add(before.t_s, StatementDigests.rates(before, after))
    (statement,) = of_all.statements()
    assert statement.statements == pytest.approx(sum(grown))
    assert statement.time_s == pytest.approx(sum(grown) / 100)
    (of_one,) = of_all.statements(20.0, 30.5)
    assert of_one.statements == pytest.approx(104)
    (of_half,) = of_all.statements(15.0, 20.0)
    assert of_half.statements == pytest.approx(20), "a stretch cuts through a reading's time"


def test_a_text_that_comes_and_goes_has_no_statements_in_between() -> None:
    def reading(t_s: float, count: int) -> Reading:
        return Reading(t_s=t_s, values={(TEXT, "ab COMMIT"): 1, ("count", "ab"): count} if count else {})

    readings = [reading(0.0, 0), reading(10.0, 5), reading(20.0, 0), reading(30.0, 0), reading(40.5, 8)]
    of_all = StatementRates()
    for before, after in itertools.pairwise(readings):
        rows = list(StatementDigests.rates(before, after))
        timed = [
            SeriesRow(t_s=r.t_s, source=r.source, metric="query_s_per_s", entity=r.entity, value=r.value / 100)
            for r in rows
        ]
        of_all.add(before.t_s, [*rows, *timed])
    (statement,) = of_all.statements()
    assert statement.statements == pytest.approx(13)
    assert list(of_all.statements(10.0, 30.0)) == []
