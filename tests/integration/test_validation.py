"""Inventories and checksums of real servers: alike where nothing was lost, and each planted fault named."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from featured_schema import ACCOUNTS, SCHEMA, STATEMENTS
from mysql_container import mysql_container as mysql_in_a_container
from scratch_server import ScratchServer, scratch_server
from slow_log_writer import Shop, slow_log
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.errors import Refused
from volbench.machine.engine.connection import Account, connection, rows, write_private
from volbench.validation.capture.digests import read_capture, repeatable_classes
from volbench.validation.catalog.differences import inventory_differences
from volbench.validation.catalog.inventory import read_inventory, user_schemas
from volbench.validation.data.checksums import TableComparison, compare_tables, tables_of
from volbench.validation.source.server import read_only

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
    own, foreign = (Account(user="root", socket=str(server.socket)) for server in (source, candidate))
    with read_only(own) as a, read_only(foreign) as b:
        left, right = read_inventory(a, [SCHEMA]), read_inventory(b, [SCHEMA])
        tables = {item.table: item for item in compare_tables(a, b, tables_of(left, right), lambda *_: None)}
        assert user_schemas(a) == [SCHEMA]
    return [str(item) for item in inventory_differences(left, right)], tables


def test_the_same_schema_is_equal_in_everything(pair: tuple[ScratchServer, ScratchServer]) -> None:
    differences, tables = compared(*pair)
    assert differences == []
    assert {name: table.equal for name, table in tables.items()} == dict.fromkeys(tables, True)
    assert tables[f"{SCHEMA}.orders"].source_rows == 2700
    assert len(tables) == 6


@pytest.mark.parametrize(
    ("planted", "message"),
    [
        ("DELETE FROM customers WHERE id = 77", "row 77 is missing on the candidate"),
        ("UPDATE orders SET total = total + 0.01 WHERE id = 5", "row 5 has other values"),
        ("UPDATE items SET price = NULL WHERE order_id = 9", "row (9, 1) has other values"),
        ("INSERT INTO settings VALUES ('new', '')", "row new is only on the candidate"),
        ("UPDATE settings SET v = NULL WHERE k = 'empty'", "row empty has other values"),
        ("INSERT INTO heap VALUES (1, 'x')", "no primary key"),
        ("UPDATE customers SET name = CONCAT(name, ' ') WHERE id = 5", "row 5 has other values"),
        ("UPDATE settings SET v = UPPER(v) WHERE k = 'colour'", "row colour has other values"),
        ("UPDATE orders SET picture = CONCAT(picture, 0x00) WHERE id = 7", "row 7 has other values"),
        (
            "ALTER TABLE settings MODIFY v VARCHAR(200) CHARACTER SET latin1",
            "another charset ('utf8mb4' became 'latin1')",
        ),
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
    tmp_path: Path, pair: tuple[ScratchServer, ScratchServer], planted: str, message: str
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
    texts = [*differences, *(text for table in tables.values() for text in table.texts)]
    assert any(message in text for text in texts), texts
    changed = {name for name, table in tables.items() if table.equal is False}
    assert len(changed) + len(differences) <= 2, (changed, differences)


@pytest.mark.docker
def test_mariadb_and_mysql_9_agree_on_the_same_data(
    tmp_path: Path, pair: tuple[ScratchServer, ScratchServer], mysql_container: Account
) -> None:
    """Types, defaults, bodies and printed values that each writes in its own way are no differences."""
    fill_account(mysql_container)
    with read_only(Account(user="root", socket=str(pair[0].socket))) as a, read_only(mysql_container) as b:
        left, right = read_inventory(a, [SCHEMA]), read_inventory(b, [SCHEMA])
        tables = list(compare_tables(a, b, tables_of(left, right), lambda *_: None))
    assert [str(item) for item in inventory_differences(left, right)] == []
    assert {table.table: table.texts for table in tables if not table.equal} == {}


def test_two_rows_that_exchanged_a_value_differ_where_crc32_is_blind(
    pair: tuple[ScratchServer, ScratchServer],
) -> None:
    """CRC32 is affine: BIT_XOR of it, the default of pt-table-checksum, is the same for values of equal length."""
    source, candidate = pair
    row_bits = "CAST(CRC32(CONCAT_WS('#', id, born)) AS UNSIGNED)"
    crc32 = f"SELECT COUNT(*), BIT_XOR({row_bits}) FROM {SCHEMA}.customers"
    accounts = [Account(user="root", socket=str(server.socket)) for server in pair]
    born_of = f"SELECT born FROM {SCHEMA}.customers WHERE id IN (11, 12) ORDER BY id"
    [first], [second] = rows(accounts[0], born_of)
    with connection(accounts[1], SCHEMA, timeout_s=60) as opened, opened.cursor() as cursor:
        for number, born in ((11, second), (12, first)):
            cursor.execute("UPDATE customers SET born = %s, seen = seen WHERE id = %s", (born, number))
    assert first != second
    try:
        answers = [rows(account, crc32) for account in accounts]
        _, tables = compared(source, candidate)
    finally:
        rebuild(candidate)
    assert answers[0] == answers[1]
    assert tables[f"{SCHEMA}.customers"].texts == ("row 11 has other values", "row 12 has other values")


@pytest.mark.docker
def test_a_capture_of_mysql_9_has_whole_statements_to_compare_and_a_masked_one_none(
    tmp_path: Path, mysql_container: Account
) -> None:
    fill_account(mysql_container)
    stop = threading.Event()

    def ask() -> None:
        with connection(mysql_container, "shop", timeout_s=30) as opened:
            while not stop.wait(0.02):
                with opened.cursor() as cursor:
                    cursor.execute("SELECT COUNT(*) FROM orders WHERE state = 'paid'")
                    cursor.fetchall()

    asking = threading.Thread(target=ask)
    asking.start()
    dsn = f"mysql://root@localhost/shop?socket={mysql_container.socket}"
    try:
        for name, options in (("plain", ()), ("masked", ("--mask",))):
            command = [
                "capture",
                str(tmp_path / name),
                "--server",
                dsn,
                "--for",
                "2s",
                "--allow-privileged",
                *options,
            ]
            ended = CliRunner().invoke(app, command)
            assert ended.exit_code == 0, f"{ended.output} {ended.exception}"
    finally:
        stop.set()
        asking.join(120)
    plain, masked = (read_capture(tmp_path / name) for name in ("plain", "masked"))
    assert (tmp_path / "plain").stat().st_mode & 0o077 == 0
    results = {
        repeatable_class_name.fingerprint: repeatable_class_name
        for repeatable_class_name in repeatable_classes(plain)
    }
    paid = results["select count(*) from orders where state = ?"]
    assert (paid.schema, paid.samples) == ("shop", ("SELECT COUNT(*) FROM orders WHERE state = 'paid'",))
    assert 10 < paid.count < 200
    assert repeatable_classes(masked) == []
    assert "paid" not in (tmp_path / "masked").read_text()


QUERIES = (
    "SELECT COUNT(*) FROM orders WHERE state = 'paid'",
    "SELECT c.name, SUM(o.total) FROM customers c JOIN orders o ON o.customer_id = c.id "
    "GROUP BY c.name ORDER BY c.name",
    "SELECT id FROM customers WHERE email = 'u17@example.org'",
    "SELECT vat(100.00)",
)


@pytest.mark.docker
def test_validate_from_mariadb_to_mysql_9(tmp_path: Path, mysql_container: Account) -> None:
    """The command, a clean twin first (go, nothing invented), then one of each kind of fault, all named."""
    with scratch_server(
        tmp_path,
        "--slow-query-log=1",
        "--long-query-time=0",
        "--log-bin=b",
        "--server-id=1",
        f"--slow-query-log-file={tmp_path / 'slow.log'}",
    ) as source:
        fill(source)
        fill_account(mysql_container)
        with connection(Account(user="root", socket=str(source.socket)), "shop", timeout_s=30) as opened:
            for query in QUERIES:
                with opened.cursor() as cursor:
                    cursor.execute(query)
                    cursor.fetchall()
        replayed = tmp_path / "made.log"
        replayed.write_text("".join(slow_log(Shop(statements=3000, writes=False))))
        plan = tmp_path / "plan.yaml"
        plan.write_text(
            f"schema: 2\nsource: {{socket: {source.socket}, user: reader, option_file: {reader_file(tmp_path)}}}\n"
            f"candidate: {{socket: {mysql_container.socket}}}\nschemas: [shop]\n"
            f"queries: {{slow_log: {tmp_path / 'slow.log'}}}\n"
            f"replay: {{slow_log: {replayed}, late_max: 50%}}\n"
            f"settings: {{accept: [{', '.join(OF_THE_FLAVOR)}]}}\n"
            "policy: [checksums equal, replay equal, settings equal]\n"
        )
        before = source.query("SHOW MASTER STATUS")
        code, clean = validated(plan, tmp_path / "clean")
        # MariaDB and MySQL may well differ in speed: only what is equal by right has to be found so.
        decided = {row["check"]: row["decision"] for row in (*clean["checks"], *clean["conditions"])}
        assert (decided.pop("times") == "no-go") == (code == 1), clean["checks"]
        replay_details = next(row["details"] for row in clean["checks"] if row["check"] == "replay")
        if any("too busy to judge" in text for text in replay_details):
            assert {decided.pop("replay"), decided.pop("replay equal")} == {"undecided"}
        assert set(decided.values()) == {"go"}, clean["checks"]
        assert {"objects", "accounts", "definers", "checksums", "queries", "checksums equal"} <= decided.keys()
        assert clean["source_changed"] is False  # by the GTID: a reader may not see the binary log's position
        assert clean["source"]["excess_privileges"] == []
        plant(mysql_container)
        code, faulty = validated(plan, tmp_path / "faulty")
        assert source.query("SHOW MASTER STATUS") == before
    assert code == 1
    messages = "\n".join(text for row in faulty["checks"] for text in row["details"])
    for output in MESSAGES:
        assert output in messages, messages


OF_THE_FLAVOR = (
    "sql_mode",
    "character_set_server",
    "collation_server",
    "group_concat_max_len",
    "sync_binlog",
    "binlog_format",
    "event_scheduler",
    "local_infile",
    "max_allowed_packet",
    "lock_wait_timeout",
)
"""What MariaDB and MySQL ship differently."""
FAULTS = (
    "DELETE FROM orders WHERE id = 2001",
    "ALTER TABLE customers MODIFY name VARCHAR(80) COLLATE utf8mb4_bin",
    "DROP TRIGGER log_order",
    "DROP FUNCTION vat",
    "CREATE FUNCTION vat (amount DECIMAL(12,2)) RETURNS DECIMAL(12,2) DETERMINISTIC RETURN amount * 0.16",
    "ALTER TABLE customers DROP INDEX email",
    "DROP USER 'app'@'localhost'",
)
MESSAGES = (
    "row 2001 is missing on the candidate",
    "column shop.customers.name: another collation",
    "trigger shop.log_order: missing",
    "routine shop.FUNCTION.vat: another body",
    "that do more than read",  # among them vat(), a stored function: it could write
    "index shop.customers.email.1: missing",
    "app@localhost does not exist on the candidate",
)


def plant(account: Account) -> None:
    with connection(account, "shop", timeout_s=60) as opened, opened.cursor() as cursor:
        for statement in FAULTS:
            cursor.execute(statement)


def validated(plan: Path, out: Path) -> tuple[int, Any]:
    ended = CliRunner().invoke(app, ["validate", str(plan), "--out", str(out)])
    assert (out / "validation.json").exists(), f"{ended.output} {ended.exception}"
    assert (out / "validation.html").stat().st_size > 2000
    return ended.exit_code, json.loads((out / "validation.json").read_text())


def reader_file(directory: Path) -> Path:
    path = directory / "reader.cnf"
    write_private(path, '[client]\nuser="reader"\npassword="read only"\n')
    return path


@pytest.fixture
def mysql_container(tmp_path: Path) -> Iterator[Account]:
    """MySQL 9.7 in a container, on a socket in a directory of this test."""
    directory = tmp_path / "socket"
    directory.mkdir()
    with mysql_in_a_container(directory) as account:
        yield account


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
            "DELETE FROM shop.audit",
            "SELECT 1 INTO OUTFILE '/tmp/x'",
            "SELECT * FROM shop.audit FOR UPDATE",
            "SELECT 1; DROP TABLE shop.audit",
            "SET GLOBAL read_only = 1",
            "CALL shop.close_old(1)",
        ):
            with pytest.raises(Refused):
                reader.query(statement)
        variable = "tx_read_only" if source.mariadb else "transaction_read_only"
        assert reader.query(f"SELECT @@SESSION.{variable}") == [(1,)]
    assert source.query("SELECT COUNT(*) FROM shop.audit") == before
