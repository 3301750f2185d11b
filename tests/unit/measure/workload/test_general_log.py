"""General logs as servers wrote them, and what no recorded one has: parts of logs, open literals, quoted logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.core.records.steps.replay import ReplayStep
from volbench.errors import UsageError
from volbench.measure.workload.replay.general_log import (
    OF_ROUTINES,
    WITHOUT_VALUES,
    GeneralLog,
    general_log,
    is_general_log,
    is_of_routine,
    statements_in,
)
from volbench.measure.workload.replay.logged_statement import ADMINISTRATOR, CUT, WITHOUT_TIME, LoggedStatement
from volbench.measure.workload.replay.step import plan_replay

FIXTURES = Path(__file__).parents[3] / "fixtures"
LOGS = FIXTURES / "general-log"
QUOTED = "INSERT INTO t (name) VALUES ('a'),('b'),('c\n2026-11-23T08:00:00.000000Z\t    9 Query\tSELECT 666\nd')"


def read(text: str, schema: str | None = None) -> tuple[GeneralLog, list[LoggedStatement]]:
    log = GeneralLog(text=[text], name="log", schema=schema)
    return log, list(log)


def entry(second: int, connection: int, sql: str, command: str = "Query") -> str:
    return f"2026-11-23T10:00:{second:02d}.000000Z\t{connection:5d} {command}\t{sql}\n"


@pytest.mark.parametrize("server", ["mysql-9.7", "mariadb-10.11"])
def test_a_servers_log_gives_what_the_client_sent_and_on_which_schema(server: str) -> None:
    with general_log(LOGS / server / "general.log") as log:
        statements = list(log)
    by_schema = {(statement.schema, statement.sql) for statement in statements}
    assert ("shop", QUOTED) in by_schema
    assert ("shop", "UPDATE t SET n = 5 WHERE id = 1") in by_schema
    assert ("shop", r"SELECT * FROM t WHERE id = 1 AND name = 'a\'b\nc'") in by_schema, "values of a prepared one"
    assert not any("SELECT 666" in statement.sql and statement.sql != QUOTED for statement in statements)
    assert not any("name_const" in statement.sql.lower() for statement in statements)
    assert log.skipped[OF_ROUTINES] == (3 if server == "mysql-9.7" else 2), "of a trigger, and of a function"
    assert log.of_open_connections == 0
    assert {statement.schema for statement in statements} == (
        {"", "shop", "mysql"} if server == "mysql-9.7" else {"", "shop"}
    )
    times = [statement.at_s for statement in statements]
    assert times == sorted(times)
    assert times[-1] - times[0] < 2
    assert all(time_s.is_integer() for time_s in times) == (server == "mariadb-10.11")


def test_a_log_is_told_from_a_slow_log() -> None:
    assert is_general_log(LOGS / "mysql-9.7" / "general.log")
    assert is_general_log(LOGS / "mariadb-10.11" / "general.log")
    for path in (FIXTURES / "slowlog").glob("*/slow.log"):
        assert not is_general_log(path)
    assert not is_general_log(LOGS / "README.md")


def test_what_is_no_general_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a general query log"):
        read("Nov 23 10:00:00 host kernel: nothing\n")
    with pytest.raises(UsageError, match="cannot be read"), general_log(tmp_path / "missing") as log:
        list(log)
    assert read("")[1] == []


def test_a_part_of_a_log_begins_within_a_statement_and_with_open_connections() -> None:
    """Their schema is unknown, or what the caller says, and they are counted."""
    text = (
        "FROM b WHERE c = 'd'\n"
        + entry(1, 7, "SELECT 1")
        + entry(2, 7, "shop", "Init DB")
        + entry(3, 7, "SELECT 2")
    )
    log, statements = read(text)
    assert [(statement.schema, statement.sql) for statement in statements] == [
        (None, "SELECT 1"),
        ("shop", "SELECT 2"),
    ]
    log, statements = read(text, schema="crm")
    assert [statement.schema for statement in statements] == ["crm", "shop"]
    assert log.of_open_connections == 1


def test_a_comment_before_use_changes_nothing() -> None:
    """An application's trace id, say; a comment that servers execute is a statement."""
    _, statements = read(
        entry(1, 7, "/* trace 1 */ -- x\n USE other")
        + entry(2, 7, "SELECT 1")
        + entry(3, 7, "/*! USE third */")
        + entry(4, 7, "SELECT 2"),
        "shop",
    )
    schemas = {statement.sql: statement.schema for statement in statements}
    assert schemas["SELECT 1"] == schemas["SELECT 2"] == "other"


def test_the_banner_of_a_log_that_was_opened_again_belongs_to_no_statement() -> None:
    banner = (LOGS / "mysql-9.7" / "general.log").read_text().split("\n2026")[0] + "\n"
    _, statements = read(entry(1, 7, "SELECT\n 1") + banner + entry(2, 7, "SELECT 2"))
    assert [statement.sql for statement in statements] == ["SELECT\n 1", "SELECT 2"]
    _, (quoting, _) = read(entry(1, 7, f"SELECT '{banner}'") + entry(2, 7, "SELECT 2"))
    assert quoting.sql == f"SELECT '{banner}'"


def test_a_literal_that_never_ends_takes_no_other_statement_with_it() -> None:
    """Of a statement with an error of syntax: it alone is left out. With NO_BACKSLASH_ESCAPES it is whole."""
    log, statements = read(entry(1, 7, "SELECT 'open") + entry(1, 8, "SELECT 'it'") + entry(2, 7, "SELECT 2"))
    assert [statement.sql for statement in statements] == ["SELECT 'it'", "SELECT 2"]
    assert log.skipped == {CUT: 1}
    log, statements = read(entry(1, 7, "SELECT 'C:\\'") + entry(2, 7, "SELECT 2"))
    assert [statement.sql for statement in statements] == ["SELECT 'C:\\'", "SELECT 2"]


def test_a_quoted_log_whose_lines_have_no_time_is_text_where_it_is_older() -> None:
    def inserted(text: str) -> str:
        return f"INSERT INTO t VALUES ('{text}')"

    old = "261101 10:00:00\t     7 Query\tDROP TABLE a\n\t\t     7 Query\tDROP TABLE b\n"
    head = "261123 10:00:00\t     7 Connect\troot@localhost on shop using Socket\n"
    for quoted in (old, f"\n{old}"):
        _, statements = read(f"{head}\t\t     7 Query\t{inserted(quoted)}\n\t\t     7 Query\tSELECT 1\n")
        assert [statement.sql for statement in statements] == [inserted(quoted), "SELECT 1"]
    opened = "\t\t     8 Connect\troot@localhost on crm using Socket\n\t\t     8 Query\tSELECT 1\n"
    _, statements = read(f"{head}\t\t     7 Query\tSELECT 'open\n{opened}")
    assert [(statement.schema, statement.sql) for statement in statements] == [("crm", "SELECT 1")], (
        "a connection that begins then"
    )
    log, statements = read("\t\t     7 Query\tSELECT 1\n")
    assert statements == []
    assert log.skipped == {WITHOUT_TIME: 1}


def test_statements_sent_at_once_are_taken_apart_where_they_end() -> None:
    assert statements_in("SELECT ';' AS a;\n UPDATE b -- x;\n SET c = 1") == [
        "SELECT ';' AS a",
        "UPDATE b -- x;\n SET c = 1",
    ]
    for total in (
        "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END",
        "/* of a client */ create trigger t BEFORE INSERT ON a FOR EACH ROW BEGIN SET @x = 1; END",
        "/*!50003 CREATE*/ /*!50003 TRIGGER t BEFORE INSERT ON a FOR EACH ROW BEGIN SET @x = 1; END */",
        "ALTER EVENT e DO BEGIN DELETE FROM a; END",
        "BEGIN NOT ATOMIC INSERT INTO a VALUES (1); INSERT INTO a VALUES (2); END",
    ):
        assert statements_in(total) == [total]
    assert statements_in("BEGIN; DELETE FROM a; COMMIT") == ["BEGIN", "DELETE FROM a", "COMMIT"]


def test_several_statements_are_taken_apart_in_logs_of_mariadb_alone() -> None:
    """MySQL writes each by itself; what has backslashes, which some sessions do not know, is not taken apart."""
    _, statements = read(entry(1, 7, "SELECT 1; SELECT 2"))
    assert [statement.sql for statement in statements] == ["SELECT 1; SELECT 2"]
    _, statements = read("261123 10:00:00\t     7 Query\tSELECT 1; SELECT 2\n")
    assert [statement.sql for statement in statements] == ["SELECT 1", "SELECT 2"]
    slashed = "INSERT INTO n VALUES ('C:\\', 'x; DELETE FROM t; y')"
    assert statements_in(slashed) == [slashed]


def test_a_bulk_of_rows_without_its_values_is_left_out() -> None:
    log, statements = read(
        entry(1, 7, "INSERT INTO t (a) VALUES (?)", "Execute") + entry(2, 7, "SELECT '?'", "Execute")
    )
    assert [statement.sql for statement in statements] == ["SELECT '?'"]
    assert log.skipped == {WITHOUT_VALUES: 1}


def test_each_connection_of_a_log_without_durations_has_one_of_its_own_while_there_are_enough(
    tmp_path: Path,
) -> None:
    """Nobody knows when a statement ended: a second one on the same connection would wait for the first."""
    log = tmp_path / "general.log"
    log.write_text("".join(entry(number, 7 + number, "SELECT 1 FROM a") for number in range(20)))
    planned = plan_replay(ReplayStep(name="r", log=str(log), connections=16), "shop")
    assert len(planned.connections) == 16
    assert planned.shared_connections == 4
    assert max(map(len, planned.connections)) == 2


def test_a_long_log_in_a_literal_takes_bounded_time() -> None:
    """Looks at the text do not grow with the square of its lines, and none of them is taken for an entry."""
    old = "".join(f"2026-11-01T10:00:00.000000Z\t    7 Query\tSELECT {number}\n" for number in range(20_000))
    log, statements = read(entry(1, 7, f"SELECT '{old}'") + entry(2, 7, "SELECT 2"))
    assert [statement.sql for statement in statements] == [f"SELECT '{old}'", "SELECT 2"]
    log, statements = read(entry(1, 7, f"SELECT '{old}") + entry(2, 7, "SELECT 2"))
    assert [statement.sql for statement in statements] == ["SELECT 2"]
    assert log.skipped == {CUT: 1}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("INSERT INTO audit (t_id) VALUES (NEW.id)", True),
        ("UPDATE a SET b = OLD.b WHERE c = 1", True),
        ("SELECT MAX(n) INTO v FROM t WHERE id >  NAME_CONST('a',1)", True),
        ("SELECT a INTO b FROM c", True),
        ("SELECT a INTO @b FROM c", False),
        ("SELECT new.id FROM orders AS new", False),
        ("SELECT 'NEW.id'", False),
        ("SELECT * FROM `new`.orders JOIN old.orders o ON o.id = 1", False),
        ("INSERT INTO new.t (a) VALUES (OLD.a)", True),
        ("CREATE TRIGGER t AFTER UPDATE ON a FOR EACH ROW SET @x = NEW.id", False),
        ("INSERT INTO a SELECT * FROM b", False),
    ],
)
def test_what_only_a_trigger_or_a_routine_can_have_sent(sql: str, expected: bool) -> None:
    assert is_of_routine(sql) == expected


def test_a_replay_of_a_general_log_says_what_it_leaves_open(tmp_path: Path) -> None:
    log = tmp_path / "general.log"
    log.write_text(
        entry(0, 7, "SELECT 1 FROM rental") + entry(1, 7, "", "Ping") + entry(2, 8, "SELECT 2 FROM rental")
    )
    planned = plan_replay(ReplayStep(name="r", log=str(log)), "shop")
    assert planned.statements == 2
    assert planned.log_s == 2.0
    assert planned.skipped == {ADMINISTRATOR: 1}
    assert planned.notes == (
        "the log is a general log: it has no durations, and does not tell what triggers and routines sent",
        "of connections older than the log, and taken for shop: 2 statements",
    )
