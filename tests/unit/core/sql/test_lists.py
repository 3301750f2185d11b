"""Lists of numbers, which the lexer passes over: the same shapes and verdicts as of lists that it does not."""

from __future__ import annotations

import pytest

from volbench.core.sql.fingerprint import fingerprint
from volbench.core.sql.guard import Allowed, Answer, judge
from volbench.core.sql.tokens import is_closed


@pytest.mark.parametrize(
    ("values", "shape"),
    [
        ("1", "(?+)"),
        ("1,2", "(?+)"),
        (" 1 , 2,3 ", "(?+)"),
        ("1,2.5,3", "(?+)"),
        ("1,0x1f,'x'", "(?+)"),
        ("1,-2,3e5", "(?+)"),
        ("1,2,a", "(?,?,a)"),
        ("1,,2", "(?,,?)"),
        ("1,2,", "(?,?,)"),
        ("1,2a", "(?,2a)"),
        ("1,(2,3)", "(?,(?+))"),
    ],
)
def test_lists_of_numbers_have_the_shape_of_other_lists(values: str, shape: str) -> None:
    """One value or hundreds, the class is one; what is no list of values stays."""
    assert fingerprint(f"SELECT a FROM t WHERE b IN ({values})") == f"select a from t where b in {shape}"


def test_a_list_outside_of_in_with_one_value_stays() -> None:
    assert fingerprint("SELECT f(1), g( 2 ), h(1, 2)") == "select f(?), g( ? ), h(?+)"


@pytest.mark.parametrize("allowed", Allowed)
@pytest.mark.parametrize(
    "sql", ["(1,INSERT INTO t VALUES (1)", "(1,2,INSERT INTO t VALUES (1)", ",1,DELETE FROM t", "1,2,DELETE FROM t"]
)
def test_a_statement_does_not_begin_with_numbers(sql: str, allowed: Allowed) -> None:
    assert judge(sql, allowed)[0] is Answer.ACTS


def test_what_follows_numbers_is_judged() -> None:
    assert judge("SELECT f FROM t WHERE a IN (1,2,3,sleep(9))")[0] is Answer.ACTS
    assert judge("SELECT f FROM t WHERE a IN (1,2,'x)")[0] is Answer.FAILS
    assert judge("SELECT f FROM t WHERE a IN (1,2,3)")[0] is Answer.PASSES


@pytest.mark.parametrize(("end", "closed"), [("3)", True), ("'x", False), ("`x", False), ("/* x", False)])
def test_a_text_after_numbers_may_be_open(end: str, closed: bool) -> None:
    assert is_closed(f"SELECT a FROM t WHERE b IN (1, 2,{end}") is closed
