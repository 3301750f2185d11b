"""A validation on real servers that has no evidence for a part of its plan: never a go, and the reason in words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from featured_schema import ACCOUNTS, SCHEMA, STATEMENTS
from scratch_server import ScratchServer, scratch_server
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.errors import Refused
from volbench.machine.engine.connection import Account, connection

pytestmark = pytest.mark.mysqld
HEAD = """# Time: 2026-01-05T10:00:00.{number:06d}Z
# User@Host: app[app] @ localhost []  Id: 7
# Schema: {schema}  QC_hit: No
# Query_time: 0.010000  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 1
{sql};
"""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ScratchServer, ScratchServer]]:
    with (
        scratch_server(tmp_path_factory.mktemp("a")) as source,
        scratch_server(tmp_path_factory.mktemp("b")) as candidate,
    ):
        for server in (source, candidate):
            account = Account(user="root", socket=str(server.socket))
            with connection(account, timeout_s=60) as opened, opened.cursor() as cursor:
                for statement in (*ACCOUNTS, *STATEMENTS, "CREATE DATABASE empty", "CREATE TABLE empty.t (a INT)"):
                    cursor.execute(statement)
        yield source, candidate


def validated(
    directory: Path, servers: tuple[ScratchServer, ScratchServer], plan: str, *queries: str, schema: str = SCHEMA
) -> tuple[int, dict[str, Any]]:
    """The exit code and the record; the log has these queries of that schema."""
    log = directory / "slow.log"
    log.write_text("".join(HEAD.format(number=n, schema=schema, sql=sql) for n, sql in enumerate(queries)))
    (directory / "plan.yaml").write_text(
        f"schema: 2\nsource: {{socket: {servers[0].socket}, allow_privileged: true}}\n"
        f"candidate: {{socket: {servers[1].socket}}}\n" + plan.format(log=log)
    )
    ended = CliRunner().invoke(app, ["validate", str(directory / "plan.yaml"), "--out", str(directory / "out")])
    assert (directory / "out/validation.json").exists(), f"{ended.output} {ended.exception}"
    return ended.exit_code, json.loads((directory / "out/validation.json").read_text())


def check(outcome: dict[str, Any], name: str) -> dict[str, Any]:
    return next(row for row in outcome["checks"] if row["check"] == name)


QUERIES = "schemas: [shop]\nqueries: {{slow_log: {log}}}\npolicy: [queries equal]\n"


@pytest.mark.parametrize(
    ("queries", "code", "text"),
    [
        (("SELECT * FROM nowhere",), 6, "1 class: error on both 1146"),
        (("SELECT nothing FROM customers", "SELECT COUNT(*) FROM orders"), 6, "1 class: error on both 1054"),
        (("SELECT id FROM customers WHERE id < 0",), 6, "no row was compared"),
        (("SELECT RAND()",), 6, "give other rows each time"),
        (("SELECT COUNT(*) FROM orders",), 0, "1 of 1 class gave the same rows"),
    ],
)
def test_queries_that_prove_nothing_are_undecided(
    tmp_path: Path, pair: tuple[ScratchServer, ScratchServer], queries: tuple[str, ...], code: int, text: str
) -> None:
    ended, outcome = validated(tmp_path, pair, QUERIES, *queries)
    row = check(outcome, "queries")
    assert text in row["text"], row
    decided = {0: "go", 6: "undecided"}[code]
    assert row["decision"] == decided
    assert [condition["decision"] for condition in outcome["conditions"]] == [decided]
    unproven = check(outcome, "times")["decision"] != "go"  # one statement on a busy machine may prove nothing
    assert ended == code or unproven, outcome["reason"]


@pytest.mark.parametrize(
    ("queries", "schema", "reason"),
    [
        (("SELECT 1",), "another", "skipped 1 statement of other schemas"),
        (("UPDATE customers SET score = 1", "DELETE FROM audit"), SCHEMA, "skipped 2 statements that do more"),
    ],
)
def test_a_log_without_a_query_to_send_is_undecided_with_what_was_skipped(
    tmp_path: Path, pair: tuple[ScratchServer, ScratchServer], queries: tuple[str, ...], schema: str, reason: str
) -> None:
    plan = QUERIES + "replay: {{slow_log: {log}}}\n"
    ended, outcome = validated(tmp_path, pair, plan, *queries, schema=schema)
    assert (ended, outcome["decision"]) == (6, "undecided")
    for name in ("queries", "times", "plans", "replay"):
        assert check(outcome, name)["decision"] == "undecided"
    assert any(reason in detail for detail in check(outcome, "queries")["details"])
    assert check(outcome, "replay")["text"] == "the log has no statement to replay"


def test_a_query_that_one_account_may_not_run_is_no_difference(
    tmp_path: Path, pair: tuple[ScratchServer, ScratchServer]
) -> None:
    """The other account's privileges say nothing about the data."""
    source, candidate = pair
    for server in pair:
        server.query("CREATE USER half@localhost")
        server.query("GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, EXECUTE ON shop.* TO half@localhost")
    source.query("GRANT SELECT ON mysql.* TO half@localhost")
    plan = "user: half"
    try:
        log = tmp_path / "slow.log"
        log.write_text(HEAD.format(number=1, schema=SCHEMA, sql="SELECT COUNT(*) FROM mysql.user"))
        (tmp_path / "plan.yaml").write_text(
            f"schema: 2\nsource: {{socket: {source.socket}, {plan}}}\n"
            f"candidate: {{socket: {candidate.socket}, {plan}}}\nschemas: [shop]\nqueries: {{slow_log: {log}}}\n"
        )
        CliRunner().invoke(app, ["validate", str(tmp_path / "plan.yaml"), "--out", str(tmp_path / "out")])
        outcome = json.loads((tmp_path / "out/validation.json").read_text())
    finally:
        for server in pair:
            server.query("DROP USER half@localhost")
    row = check(outcome, "queries")
    assert (row["decision"], "error on the candidate 1142" in row["text"]) == ("undecided", True)
    assert check(outcome, "definers")["decision"] == "undecided"
    assert check(outcome, "accounts")["decision"] == "undecided"


def test_tables_without_a_row_are_undecided(tmp_path: Path, pair: tuple[ScratchServer, ScratchServer]) -> None:
    ended, outcome = validated(tmp_path, pair, "schemas: [empty]\n")
    row = check(outcome, "checksums")
    assert (ended, row["decision"]) == (6, "undecided")
    assert row["text"] == "no row was compared: 1 table on both sides, none with a row"


def test_a_server_is_not_compared_with_itself(tmp_path: Path, pair: tuple[ScratchServer, ScratchServer]) -> None:
    other_name = tmp_path / "s"
    other_name.symlink_to(pair[0].socket)
    (tmp_path / "plan.yaml").write_text(
        f"schema: 2\nsource: {{socket: {pair[0].socket}, allow_privileged: true}}\n"
        f"candidate: {{socket: {other_name}}}\nschemas: [shop]\n"
    )
    ended = CliRunner().invoke(app, ["validate", str(tmp_path / "plan.yaml"), "--out", str(tmp_path / "out")])
    assert isinstance(ended.exception, Refused), ended.output
    assert "same server" in str(ended.exception)
    assert not (tmp_path / "out").exists()
