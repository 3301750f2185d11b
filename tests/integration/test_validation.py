"""Inventories and checksums of real servers: alike where nothing was lost, and each planted fault named."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import docker
import mysql.connector
import pytest
from featured_schema import ACCOUNTS, SCHEMA, STATEMENTS
from scratch_server import ScratchServer, scratch_server

from volbench.engine.connection import Account, connection, rows
from volbench.errors import Refused
from volbench.validation.checksums import TableComparison, compare_tables, tables_of
from volbench.validation.differences import inventory_differences
from volbench.validation.inventory import take_inventory, user_schemas
from volbench.validation.source import read_only

pytestmark = pytest.mark.mysqld


def fill(server: ScratchServer) -> None:
    fill_account(Account(user="root", socket=str(server.socket)))


def fill_account(account: Account) -> None:
    with connection(account, timeout_s=60) as opened, opened.cursor() as cursor:
        for statement in (*ACCOUNTS, *STATEMENTS):
            cursor.execute(statement)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ScratchServer, ScratchServer]]:
    """Two servers with the same schema, made by the same statements."""
    with (
        scratch_server(tmp_path_factory.mktemp("a")) as source,
        scratch_server(tmp_path_factory.mktemp("b")) as candidate,
    ):
        fill(source)
        fill(candidate)
        yield source, candidate


def compared(source: ScratchServer, candidate: ScratchServer) -> tuple[list[str], dict[str, TableComparison]]:
    """Differences in words, and each table's comparison."""
    ours, theirs = (Account(user="root", socket=str(server.socket)) for server in (source, candidate))
    with read_only(ours) as a, read_only(theirs) as b:
        left, right = take_inventory(a, [SCHEMA]), take_inventory(b, [SCHEMA])
        tables = {one.table: one for one in compare_tables(a, b, tables_of(left, right), lambda *_: None)}
        assert user_schemas(a) == [SCHEMA]
    return [str(one) for one in inventory_differences(left, right)], tables


def test_the_same_schema_is_equal_in_everything(pair: tuple[ScratchServer, ScratchServer]) -> None:
    differences, tables = compared(*pair)
    assert differences == []
    assert {name: one.equal for name, one in tables.items()} == dict.fromkeys(tables, True)
    assert tables[f"{SCHEMA}.orders"].source_rows == 2700
    assert len(tables) == 6


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ("DELETE FROM customers WHERE id = 77", "row 77 is missing on the candidate"),
        ("UPDATE orders SET total = total + 0.01 WHERE id = 5", "row 5 has other values"),
        ("UPDATE items SET price = NULL WHERE order_id = 9", "row (9, 1) has other values"),
        ("INSERT INTO settings VALUES ('new', '')", "row new is only on the candidate"),
        ("UPDATE settings SET v = NULL WHERE k = 'empty'", "row empty has other values"),
        ("INSERT INTO heap VALUES (1, 'x')", "no primary key"),
        ("DROP TRIGGER log_order", "trigger shop.log_order: missing on the candidate"),
        ("DROP PROCEDURE close_old", "routine shop.PROCEDURE.close_old: missing"),
        ("DROP EVENT nightly", "event shop.nightly: missing"),
        ("DROP VIEW open_orders", "view shop.open_orders: missing"),
        (
            "ALTER TABLE customers MODIFY name VARCHAR(80) COLLATE utf8mb4_bin",
            "column shop.customers.name: another collation ('utf8mb4_unicode_ci' became 'utf8mb4_bin')",
        ),
        ("ALTER TABLE orders DROP FOREIGN KEY who", "foreign key shop.orders.who: missing"),
        ("ALTER TABLE customers DROP KEY by_initial", "index shop.customers.by_initial.1: missing"),
        ("ALTER TABLE settings MODIFY v VARCHAR(100)", "another type ('varchar(200)' became 'varchar(100)')"),
        ("REVOKE UPDATE ON shop.* FROM 'app'@'localhost'", "UPDATE: missing on the candidate"),
    ],
)
def test_a_planted_fault_is_named(
    tmp_path: Path, pair: tuple[ScratchServer, ScratchServer], planted: str, said: str
) -> None:
    """On a copy of the schema of its own, so that one fault is planted at a time."""
    source, candidate = pair
    account = Account(user="root", socket=str(candidate.socket))
    with connection(account, timeout_s=60) as opened, opened.cursor() as cursor:
        cursor.execute(f"USE {SCHEMA}")
        cursor.execute(planted)
    try:
        differences, tables = compared(source, candidate)
    finally:
        rebuild(candidate)
    texts = [*differences, *(text for one in tables.values() for text in one.texts)]
    assert any(said in text for text in texts), texts
    changed = {name for name, one in tables.items() if one.equal is False}
    assert len(changed) + len(differences) <= 2, (changed, differences)


@pytest.mark.docker
def test_mariadb_and_mysql_9_agree_on_the_same_data(
    tmp_path: Path, pair: tuple[ScratchServer, ScratchServer], mysql_container: Account
) -> None:
    """Types, defaults, bodies and printed values that each writes in its own way are no differences."""
    fill_account(mysql_container)
    with read_only(Account(user="root", socket=str(pair[0].socket))) as a, read_only(mysql_container) as b:
        left, right = take_inventory(a, [SCHEMA]), take_inventory(b, [SCHEMA])
        tables = list(compare_tables(a, b, tables_of(left, right), lambda *_: None))
    assert [str(one) for one in inventory_differences(left, right)] == []
    assert {one.table: one.texts for one in tables if not one.equal} == {}


@pytest.fixture
def mysql_container(tmp_path: Path) -> Iterator[Account]:
    """MySQL 9.7 in a container, on a socket in a directory of this test."""
    directory = tmp_path / "socket"
    directory.mkdir()
    create = "mysqld --no-defaults --user=root --initialize-insecure --datadir=/var/tmp/data"
    serve = (
        "exec mysqld --no-defaults --user=root --datadir=/var/tmp/data --socket=/run/mysql/s "
        "--skip-networking --mysqlx=OFF"
    )
    container = docker.from_env().containers.run(
        "volbench/mysql:9.7", ["-c", f"{create} && {serve}"], entrypoint="sh", detach=True, network_mode="none",
        labels={"volbench-test": "validation"}, volumes={str(directory): {"bind": "/run/mysql", "mode": "rw"}},
    )  # fmt: skip
    try:
        account = Account(user="root", socket=str(directory / "s"))
        deadline = time.monotonic() + 120
        while not answers(account):
            assert time.monotonic() < deadline, container.logs().decode()[-2000:]
            time.sleep(0.2)
        yield account
    finally:
        container.remove(force=True)


def answers(account: Account) -> bool:
    try:
        rows(account, "SELECT 1", timeout_s=5)
    except mysql.connector.Error:
        return False
    return True


def rebuild(server: ScratchServer) -> None:
    server.query(f"DROP DATABASE {SCHEMA}")
    server.query("DROP USER 'app'@'localhost', 'reader'@'localhost'")
    fill(server)


def test_the_source_refuses_writes_by_itself_and_we_never_send_one(
    pair: tuple[ScratchServer, ScratchServer],
) -> None:
    source, _ = pair
    before = source.query("SELECT COUNT(*) FROM shop.audit")
    with read_only(Account(user="root", socket=str(source.socket))) as reader:
        for statement in (
            "DELETE FROM shop.audit", "SELECT 1 INTO OUTFILE '/tmp/x'", "SELECT * FROM shop.audit FOR UPDATE",
            "SELECT 1; DROP TABLE shop.audit", "SET GLOBAL read_only = 1", "CALL shop.close_old(1)",
        ):  # fmt: skip
            with pytest.raises(Refused):
                reader.query(statement)
        variable = "tx_read_only" if source.mariadb else "transaction_read_only"
        assert reader.query(f"SELECT @@SESSION.{variable}") == [(1,)]
    assert source.query("SELECT COUNT(*) FROM shop.audit") == before
