"""pt-upgrade itself, on two real servers: planted differences are found by kind, a clean twin has none."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from featured_schema import ACCOUNTS, STATEMENTS
from mysql_container import mysql_container as mysql_in_a_container
from scratch_server import ScratchServer, scratch_server
from waiting import wait_for

import volbench
from volbench.core.records.validation.result import CheckRow
from volbench.machine.engine.connection import Account, connection
from volbench.validation import toolkit
from volbench.validation.queries.classes import QueryClass
from volbench.validation.queries.comparison import compare_queries
from volbench.validation.queries.pt_upgrade import NOT_INSTALLED, pt_upgrade_check
from volbench.validation.source.server import read_only

pytestmark = [
    pytest.mark.mysqld,
    pytest.mark.docker,
    pytest.mark.skipif(shutil.which("pt-upgrade") is None, reason="pt-upgrade is not installed"),
]
BOUND_S = 180.0
QUERIES = (
    "SELECT COUNT(*) FROM orders WHERE state = 'paid'",
    "SELECT id, email, name, born, score, seen, initial FROM customers ORDER BY id",
    "SELECT id, note, HEX(picture), mask + 0, total FROM orders ORDER BY id LIMIT 50",
    "SELECT id FROM orders WHERE customer_id IN (3, 4, 5)",
    "SELECT 'Grüße \U0001f600' AS greeting, CAST('2026-01-01' AS DATE)",
    "SELECT UUID()",
    "WITH few AS (SELECT id FROM customers WHERE id < 3) SELECT COUNT(*) FROM few",
    "SELECT vat(100.00)",
)
PLANTED = (
    "DROP FUNCTION vat",
    "UPDATE customers SET name = 'the hidden name' WHERE id = 7",
    "DELETE FROM orders WHERE state = 'paid' LIMIT 3",
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ScratchServer, Account]]:
    """MariaDB with an account that only reads, and MySQL 9.7 with one of caching_sha2_password, filled alike."""
    socket = tmp_path_factory.mktemp("c")
    with scratch_server(tmp_path_factory.mktemp("a")) as source, mysql_in_a_container(socket) as root:
        for account in (Account(user="root", socket=str(source.socket)), root):
            execute(account, *ACCOUNTS, *STATEMENTS)
        yield source, root


def execute(account: Account, *statements: str, schema: str = "") -> None:
    with connection(account, schema or None, timeout_s=60) as opened, opened.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def requested(source: ScratchServer, root: Account, queries: Sequence[str], *, values: bool = True) -> CheckRow:
    classes = [
        QueryClass(fingerprint=query.lower(), schema="shop", samples=(query,), count=1, total_s=1.0)
        for query in queries
    ]
    accounts = (
        Account(user="reader", password="read only", socket=str(source.socket)),
        Account(user="reader", password="read only", socket=root.socket),
    )
    with read_only(accounts[0]) as only, read_only(accounts[1]) as foreign:
        compared = compare_queries(only, foreign, classes, lambda *_: None, pause=lambda _: None)
        return pt_upgrade_check((only, foreign), accounts, compared, seconds=60, values=values)


def test_a_clean_twin_has_no_difference_and_a_planted_one_is_named_by_its_kind(
    pair: tuple[ScratchServer, Account],
) -> None:
    """NOW() and the like are left out, since the source itself answers otherwise each time."""
    source, root = pair
    clean = requested(source, root, QUERIES)
    assert (clean.check, clean.decision) == ("pt_upgrade", "go"), clean.details
    assert "skipped: 1 query that are not deterministic" in clean.details
    assert any("not begin with SELECT" in text for text in clean.details)
    execute(root, *PLANTED, schema="shop")
    try:
        faulty = requested(source, root, QUERIES)
        silent = requested(source, root, QUERIES, values=False)
    finally:
        execute(root, "DROP DATABASE shop", "DROP USER app@localhost, reader@localhost", *ACCOUNTS, *STATEMENTS)
    assert faulty.decision == "no-go"
    output = "\n".join(faulty.details)
    assert "other rows: select count(*) from orders" in output
    assert "an error on one side: select vat(100.00): No error vs. DBD::mysql::st execute failed" in output
    assert "the hidden name" in output
    assert "greeting" not in output
    assert silent.decision == "no-go"
    assert "hidden" not in "\n".join((silent.text, *silent.details))


def test_an_answer_that_hangs_on_the_servers_own_sql_mode_is_seen(pair: tuple[ScratchServer, Account]) -> None:
    """Our own comparison asks both under one mode."""
    source, root = pair
    execute(root, "SET GLOBAL sql_mode = CONCAT(@@GLOBAL.sql_mode, ',PIPES_AS_CONCAT')")
    try:
        row = requested(source, root, ["SELECT MAX(id) || 'x' FROM customers"])
    finally:
        execute(root, "SET GLOBAL sql_mode = DEFAULT")
    assert row.decision == "no-go", row
    assert "other rows" in row.details[0]


def test_without_the_tool_nothing_is_decided(
    pair: tuple[ScratchServer, Account], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolkit, "local_tools_image", lambda: "")
    row = requested(*pair, QUERIES[:1])
    assert (row.decision, row.text) == ("undecided", NOT_INSTALLED)


ASKING = """
import sys
from volbench.machine.engine.connection import Account
from volbench.validation.queries.classes import QueryClass
from volbench.validation.queries.pt_upgrade import pt_upgrade_check
from volbench.validation.queries.comparison import QueryComparison
from volbench.validation.source.server import read_only
account = Account(user="reader", password="read only", socket=sys.argv[1])
query = QueryClass(fingerprint="x", schema="shop", samples=("SELECT SLEEP(60)",), count=1, total_s=1.0)
with read_only(account) as server:
    asked = [QueryComparison(query=query, result="equal")]
    pt_upgrade_check((server, server), (account, account), asked, seconds=90)
"""


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="nothing ends it when we are killed")
def test_it_ends_when_we_are_killed(pair: tuple[ScratchServer, Account]) -> None:
    source, _ = pair
    environment = {**os.environ, "PYTHONPATH": str(Path(volbench.__file__).parents[1])}
    running = subprocess.Popen(
        [sys.executable, "-c", ASKING, str(source.socket)], env=environment, start_new_session=True
    )
    requests = "SELECT COUNT(*) FROM information_schema.processlist WHERE info = 'SELECT SLEEP(60)'"
    try:
        wait_for(lambda: source.query(requests) == [(1,)], "it asked nothing")
        assert processes_of(running.pid) > 1
    finally:
        running.kill()
        running.wait(BOUND_S)
    wait_for(lambda: processes_of(running.pid) == 0, "it still runs")


def processes_of(group: int) -> int:
    result = 0
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            result += os.getpgid(int(entry.name)) == group
    return result
