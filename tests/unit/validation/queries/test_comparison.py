"""Queries on two servers that answer from tables in memory: rows, order, errors, times and plans."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from volbench.core.sql.fingerprint import fingerprint
from volbench.core.sql.guard import refuse_writes
from volbench.errors import Refused, StepFailed
from volbench.measure.workload.replay.logged_statement import LoggedStatement
from volbench.validation.checks import query_checks
from volbench.validation.queries.classes import query_classes
from volbench.validation.queries.comparison import QueryComparison, compare_queries, plan_text, rounds_for
from volbench.validation.source.server import Rows

Answer = Callable[[], Rows]


class FakeServer:
    """Answers each query with what a function gives; an unknown one is an error of the server."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        self._answers = answers

    def query(self, sql: str) -> Rows:
        if sql.startswith("USE "):
            return []
        if sql not in self._answers:
            raise StepFailed("a query failed", evidence="1054 (42S22): Unknown column; SELECT ...")
        return self._answers[sql]()


def logged(sql: str, query_s: float = 0.01) -> LoggedStatement:
    return LoggedStatement(
        at_s=0,
        connection=1,
        user="u",
        schema="shop",
        query_s=query_s,
        lock_s=0,
        rows_sent=1,
        rows_examined=1,
        sql=sql,
    )


def compare(sql: str, source: Answer | None, candidate: Answer | None) -> QueryComparison:
    own, foreign = (FakeServer({sql: answer} if answer else {}) for answer in (source, candidate))
    classes = query_classes([logged(sql)], [logged(sql).schema or ""])
    [item] = compare_queries(own, foreign, classes, lambda *_: None, clock=Clock(), pause=lambda _: None)
    return item


def rows(*values: int) -> Answer:
    return lambda: [(value,) for value in values]


class Clock:
    """Time that passes only while a server works, and a little each time it is asked."""

    now_s = 0.0

    def __call__(self) -> float:
        Clock.now_s += 1e-7
        return Clock.now_s


def slow(seconds: float) -> Answer:
    def answer() -> Rows:
        Clock.now_s += seconds
        return [(1,)]

    return answer


counter = itertools.count()


@pytest.mark.parametrize(
    ("sql", "source", "candidate", "result"),
    [
        ("SELECT a FROM t", rows(1, 2), rows(1, 2), "equal"),
        ("SELECT a FROM t", rows(1, 2), rows(2, 1), "equal"),
        ("SELECT a FROM t ORDER BY a", rows(1, 2), rows(2, 1), "differs"),
        ("SELECT a FROM t ORDER\n BY a", rows(1, 2), rows(2, 1), "differs"),
        ("SELECT a FROM t WHERE b = 'order by' -- order by a", rows(1, 2), rows(2, 1), "equal"),
        ("SELECT a FROM t", rows(1, 2), rows(1), "differs"),
        ("SELECT a FROM t", rows(1, 2), rows(1, 3), "differs"),
        ("SELECT a FROM t", rows(1), None, "error on the candidate"),
        ("SELECT a FROM t", None, rows(1), "error on the source"),
        ("SELECT a FROM t", None, None, "error on both"),
        ("SELECT RAND()", lambda: [(next(counter),)], rows(1), "not deterministic"),
    ],
)
def test_rows_are_compared_as_a_client_would_see_them(
    sql: str, source: Answer | None, candidate: Answer | None, result: str
) -> None:
    assert compare(sql, source, candidate).result == result


def test_three_times_slower_is_slower_and_the_same_is_not() -> None:
    assert compare("SELECT 1", slow(0.004), slow(0.012)).slower
    assert not compare("SELECT 1", slow(0.004), slow(0.004)).slower
    assert not compare("SELECT 1", slow(0.012), slow(0.004)).slower


def test_twice_as_slow_without_proof_is_no_go() -> None:
    """A third of the rounds are quicker than the source's, the others four times as slow."""
    took = itertools.cycle([0.003, 0.016, 0.016])

    def answer() -> Rows:
        return slow(next(took))()

    comparison = compare("SELECT 1", slow(0.004), answer)
    assert (comparison.slower, comparison.unproven) == (False, True)
    row = next(row for row in query_checks([comparison]) if row.check == "times")
    assert row.decision == "undecided"
    assert row.text.startswith("none is slower beyond doubt: 1 of 1 class were timed; not decided: may be slower: ")


def test_what_is_slow_for_a_moment_only_is_not_called_slower() -> None:
    """All rounds of a class fit into a checkpoint's time."""
    took = itertools.chain([0.012] * (rounds_for(1) + 1), itertools.repeat(0.004))

    def answer() -> Rows:
        return slow(next(took))()

    comparison = compare("SELECT 1", slow(0.004), answer)
    assert (comparison.slower, comparison.unproven) == (False, False)


def test_what_is_too_fast_to_judge_is_not_judged() -> None:
    assert not compare("SELECT 1", slow(0.00002), slow(0.0001)).slower


def test_rounds_grow_with_the_classes_so_that_one_slow_query_can_be_shown() -> None:
    assert [rounds_for(n) for n in (1, 6, 7, 23, 24, 85, 300)] == [5, 5, 6, 6, 7, 7, 8]


@pytest.mark.parametrize("commented", ["/* app:shop */ SELECT a FROM t", "-- app:shop\nSELECT a FROM t"])
def test_a_comment_before_a_query_does_not_decide_whether_its_class_is_read(commented: str) -> None:
    """Frameworks mark their queries so; the class must not depend on which of them comes first."""
    queries = [logged(commented), logged("SELECT a FROM t")]
    for in_order in (queries, queries[::-1]):
        left_out = Counter[str]()
        [query_class] = query_classes(in_order, [queries[0].schema or ""], skipped=left_out)
        assert (query_class.count, left_out) == (2, Counter())


def test_classes_are_of_one_shape_and_only_of_reading_queries() -> None:
    left_out = Counter[str]()
    classes = query_classes(
        [
            replace(logged("SELECT 'of another'"), schema="other"),
            replace(logged("SELECT 'of none'"), schema=""),
            replace(logged("SELECT 'who knows'"), schema=None),
            logged("SELECT '\udcff'"),
            logged("SELECT * FROM t WHERE id = 1", 1.0),
            logged("select *  from t where id = 22 -- why", 1.0),
            logged("SELECT * FROM t WHERE id IN (1,2,3)", 5.0),
            logged("SELECT * FROM t WHERE id IN (1, 2)", 5.0),
            logged("UPDATE t SET a = 1"),
            logged("SELECT * FROM t FOR UPDATE"),
            logged("SELECT 1 INTO OUTFILE '/tmp/x'"),
        ],
        [logged("").schema or ""],
        skipped=left_out,
    )
    assert left_out == {
        "that do more than read": 3,
        "of other schemas": 1,
        "without a schema": 1,
        "with an unknown schema": 1,
        "that are no UTF-8": 1,
    }
    assert [(query_class.fingerprint, query_class.count) for query_class in classes] == [
        ("select * from t where id in (?+)", 2),
        ("select * from t where id = ?", 2),
    ]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("INSERT INTO t VALUES (1,'a;b'),(2,'c')", "insert into t values (?+)"),
        ("SELECT `Mixed Case` FROM T1 WHERE a=-1.5e3", "select `Mixed Case` from t1 where a=?"),
        ("SELECT /* hint */ 'it''s' , \"x\\\"y\"", "select ? , ?"),
        ("SELECT /*!80000 1 */ 2 # end", "select /*!? ? */ ?"),
    ],
)
def test_a_fingerprint_has_no_values(sql: str, expected: str) -> None:
    assert fingerprint(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM t",
        "SELECT 1; DELETE FROM t",
        "SET GLOBAL a = 1",
        "/*!50000 DELETE */ FROM t",
        "CALL p()",
        "SELECT * FROM t LOCK IN SHARE MODE",
        "EXPLAIN DELETE FROM t",
        "EXPLAIN ANALYZE SELECT 1",
        "LOCK TABLES t READ",
        "SELECT /*!50000 1 INTO @x */",
        "FLUSH TABLES",
        "WITH x AS (SELECT 1) DELETE FROM t",
        "WITH x AS (SELECT 1) UPDATE t SET a = 1",
        "SET SESSION x = 1; DROP TABLE t",
    ],
)
def test_only_reading_statements_are_sent_to_a_source(sql: str) -> None:
    with pytest.raises(Refused):
        refuse_writes(sql)


def test_a_literal_cannot_look_like_a_write() -> None:
    refuse_writes("SELECT 'x; DROP TABLE t INTO OUTFILE' FROM t")


def test_plans_of_both_servers_read_alike() -> None:
    mysql = {"query_block": {"nested_loop": [{"table": {"table_name": "t", "access_type": "ALL"}}]}}
    mariadb = {
        "query_block": {"nested_loop": [{"table": {"table_name": "t", "access_type": "ref", "key": "by_a"}}]}
    }
    assert plan_text(mysql) == "t all"
    assert plan_text(mariadb) == "t ref by_a"
