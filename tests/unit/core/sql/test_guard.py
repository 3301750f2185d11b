"""No statement that acts, or that servers read differently, is taken for one that reads."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from sql_corpus import ACTING, READING

from volbench.core.sql.guard import Allowed, Answer, judge, refuse_writes
from volbench.errors import Refused
from volbench.measure.workload.replay.general_log import general_log
from volbench.measure.workload.replay.slowlog import slow_log

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
READ_MIN = 0.95
REPLAY = json.loads((FIXTURES / "sql" / "replay.json").read_text())


@pytest.mark.parametrize("allowed", [Allowed.QUERY, Allowed.OWN, Allowed.COMPARED])
def test_no_statement_that_acts_passes(allowed: Allowed) -> None:
    assert len(ACTING) > 200
    assert [sql for sql in ACTING if judge(sql, allowed)[0] is Answer.PASSES] == []


@pytest.mark.parametrize("sql", READING)
def test_a_statement_that_reads_passes(sql: str) -> None:
    refuse_writes(sql)


def test_a_refusal_says_why_and_shows_no_value() -> None:
    with pytest.raises(Refused, match=r"it calls sleep\(\)") as caught:
        refuse_writes("SELECT sleep(100000), 'secret'")
    assert caught.value.evidence == "select sleep(?), ?"


def test_of_the_reading_statements_of_real_logs_nearly_all_pass() -> None:
    """Those of a locking or sleeping form, and with an error of syntax, apart."""
    texts = []
    for path in FIXTURES.glob("slowlog/*/slow.log"):
        with slow_log(path) as log:
            texts += [statement.sql for statement in log]
    for path in FIXTURES.glob("general-log/*/*.log"):
        with general_log(path) as log:
            texts += [statement.sql for statement in log]
    acts = ("for update", "for share", "sleep(", "not closed", "into ", "vat(")
    reading = [sql for sql in texts if sql.lstrip(" (").lower().startswith(("select", "with", "show"))]
    reading = [sql for sql in reading if not any(mark in sql.lower() for mark in acts)]
    refused = [(judge(sql), sql) for sql in reading if judge(sql)[0] is not Answer.PASSES]
    assert len(reading) > 200
    assert len(refused) <= (1 - READ_MIN) * len(reading), refused[:20]


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("SELECT 'it\\'s'", Answer.PASSES),
        ('SELECT "a"', Answer.PASSES),
        ("SELECT 'a\\' OR 1 = 1 -- '", Answer.AMBIGUOUS),
        ("SELECT 'a\\', 'b'", Answer.FAILS),
        ("SELECT /*!80000 1 + */ 2", Answer.AMBIGUOUS),
        ("SELECT /*!050000 1 */", Answer.AMBIGUOUS),
        ("SELECT /*!40001 SQL_NO_CACHE */ 1", Answer.PASSES),
        ("SELECT $$a$$", Answer.AMBIGUOUS),
        ("SELECT 1 \x00", Answer.AMBIGUOUS),
        ("SELECT '\x00'", Answer.PASSES),
        ("SELECT 1\u2003", Answer.AMBIGUOUS),
        ("SELECT 'a", Answer.FAILS),
        ("SELECT 1 /* a", Answer.FAILS),
        ("SELECT x'0'", Answer.FAILS),
        ("SELECT '\udcff'", Answer.NO_TEXT),
        ("", Answer.ACTS),
        ("SELECT", Answer.PASSES),
    ],
)
def test_a_statement_passes_under_each_reading_or_not_at_all(sql: str, answer: Answer) -> None:
    assert judge(sql)[0] is answer


@pytest.mark.parametrize("sql", REPLAY["sent"])
def test_a_replay_sends_what_changes_data_of_its_own_schemas(sql: str) -> None:
    assert judge(sql, Allowed.REPLAY) == (Answer.PASSES, "")


@pytest.mark.parametrize("sql", REPLAY["refused"])
def test_a_replay_sends_nothing_else(sql: str) -> None:
    assert judge(sql, Allowed.REPLAY)[0] is not Answer.PASSES


def test_lists_of_names_are_sorted_and_have_none_twice() -> None:
    """They are searched by halves."""
    source = (FIXTURES.parents[1] / "runner/lexer/src/query.rs").read_text()
    keywords = re.findall(r'"(\w+)"', source.partition("const BEFORE_PARENTHESIS")[2].partition("];")[0])
    assert keywords == sorted(set(keywords))
    lines = (FIXTURES.parents[1] / "runner/lexer/src/functions.txt").read_text().splitlines()
    names = " ".join(line for line in lines if not line.startswith("#")).translate({33: "", 63: ""}).split()
    assert len(names) == len(set(names)) > 300
