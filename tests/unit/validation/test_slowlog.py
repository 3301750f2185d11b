"""Slow logs that real servers wrote, read statement by statement."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volbench.errors import UsageError
from volbench.validation.slowlog import LoggedStatement, read_slow_log

LOGS = Path(__file__).resolve().parents[2] / "fixtures/slowlog"
WRITTEN = [
    "SELECT COUNT(*) FROM orders",
    "SELECT *\nFROM customers WHERE id = 5 -- ; x",
    "INSERT INTO audit (what) VALUES ('a;\n# Time: fake\nb')",
    "UPDATE orders SET note='x''y' WHERE id=3",
    "SELECT SLEEP(0.05)",
    "SELECT 'use shop;'",
]
"""What was sent to both servers, in this order, on one connection after USE shop."""


def statements(name: str) -> list[LoggedStatement]:
    return list(read_slow_log((LOGS / name).read_text().splitlines(), name=name))


@pytest.mark.parametrize("name", ["mysql-9.7.log", "mariadb-10.11.log"])
def test_what_was_sent_is_what_is_read(name: str) -> None:
    found = statements(name)[-len(WRITTEN) :]
    assert [one.sql for one in found] == WRITTEN
    assert {one.schema for one in found} == {"shop"}
    assert len({one.connection for one in found}) == 1
    assert {one.user for one in found} == {"root"}
    assert found[4].query_s == pytest.approx(0.0503, abs=0.0003)


def test_mysql_logs_the_end_so_the_start_is_known() -> None:
    """The statement of 50 ms began before the one after it, by its own time at least."""
    sleep, after = statements("mysql-9.7.log")[-2:]
    assert after.at_s - sleep.at_s >= sleep.query_s
    assert sleep.at_s == pytest.approx(1795263297.075399, abs=1e-5)


def test_mariadb_knows_the_second_only() -> None:
    assert {one.at_s for one in statements("mariadb-10.11.log")[-6:]} == {1795263287.0}


def test_another_kind_of_file_is_refused_with_its_line() -> None:
    with pytest.raises(UsageError, match="not a line of a slow query log") as caught:
        list(read_slow_log(["2024-01-01 [Note] ready for connections"], name="error.log"))
    assert caught.value.where == "error.log:1"


@given(st.lists(st.sampled_from((LOGS / "mysql-9.7.log").read_text().splitlines()), max_size=40))
def test_lines_in_any_order_never_break_it(lines: list[str]) -> None:
    """A log that was cut or rotated begins and ends anywhere."""
    try:
        list(read_slow_log(lines, name="cut.log"))
    except UsageError as error:
        assert error.where.startswith("cut.log:")  # noqa: PT017 - refusing is one of two right answers
