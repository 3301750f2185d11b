"""Chunks of checksums on real servers: every type of key divides a table, by ranges of its primary key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mysql_container import mysql_container
from scratch_server import scratch_server

from volbench.machine.engine.connection import Account, connection
from volbench.validation.catalog.inventory import is_mariadb, read_inventory
from volbench.validation.data import checksums, chunk_sums
from volbench.validation.data.checksums import TableComparison, compare_tables, tables_of
from volbench.validation.data.chunk_sums import chunk_sessions
from volbench.validation.data.chunks import Pace, chunks_of
from volbench.validation.source.server import SESSION, read_only

pytestmark = pytest.mark.mysqld

ROWS = 3_000
CHUNK = 500
SCHEMA = "keys"
KEYS = {
    "int": ("k INT", "n - 1500", "k"),
    "unsigned": ("k BIGINT UNSIGNED", "18446744073709551615 - n * 7", "k"),
    "gaps": ("k INT", "n * n", "k"),
    "decimal": ("k DECIMAL(20,4)", "n / 16 - 90", "k"),
    "float": ("k FLOAT", "1048576 + n / 8", "k"),
    "double": ("k DOUBLE", "n * 1e-9 + 0.1", "k"),
    "date": ("k DATE", "DATE_ADD('1999-01-01', INTERVAL n DAY)", "k"),
    "datetime": ("k DATETIME(6)", "DATE_ADD('2026-01-01', INTERVAL n * 7 MICROSECOND)", "k"),
    "timestamp": ("k TIMESTAMP", "DATE_ADD('2026-03-29', INTERVAL n * 60 SECOND)", "k"),
    "time": ("k TIME", "SEC_TO_TIME(n * 60 - 90000)", "k"),
    "latin1": ("k VARCHAR(40) CHARACTER SET latin1", "CONCAT(IF(MOD(n, 2), 'Ä', 'b'), '''', '\\\\\\\\', n)", "k"),
    "utf8mb4": ("k VARCHAR(40) CHARACTER SET utf8mb4", "CONCAT(IF(MOD(n, 3), '猫', 'Z'), CHAR(1), n)", "k"),
    "case": ("k CHAR(12) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "CONCAT(IF(MOD(n, 2), 'a', 'A'), n)", "k"),
    "uuid": ("k BINARY(16)", "UNHEX(LEFT(SHA2(n, 256), 32))", "k"),
    "two": ("a VARCHAR(9), k INT", "CONCAT('g', MOD(n, 3)), n", "a, k"),
    "three": ("a DATE, b VARBINARY(9), k INT", "'2026-01-01', CHAR(MOD(n, 5)), n", "a, b, k"),
    "enum_first": ("a ENUM('z','a'), k INT", "IF(MOD(n, 2), 'a', 'z'), n", "a, k"),
    "enum_second": ("k INT, a ENUM('z','a')", "n, 'a'", "k, a"),
}
UNDIVIDED = {"enum_first"}
OF_DEFAULT_COLLATION = {"utf8mb4", "two"}
"""Flavors have others, by which they sort differently."""


@contextmanager
def local_server(directory: Path) -> Iterator[Account]:
    with scratch_server(directory) as server:
        yield Account(user="root", socket=str(server.socket))


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((local_server, local_server), id="local"),
        pytest.param((mysql_container, mysql_container), id="mysql", marks=pytest.mark.docker),
        pytest.param((local_server, mysql_container), id="local-to-mysql", marks=pytest.mark.docker),
    ],
)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Account, Account]]:
    first, second = request.param
    with first(tmp_path_factory.mktemp("a")) as source, second(tmp_path_factory.mktemp("b")) as candidate:
        for account in (source, candidate):
            fill(account)
        yield source, candidate


def fill(account: Account) -> None:
    digits = "(SELECT 0 d" + "".join(f" UNION SELECT {digit}" for digit in range(1, 10)) + ")"
    numbers = (
        f"SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d AS n FROM {digits} a, {digits} b, {digits} c, {digits} e"
    )
    with connection(account, timeout_s=60) as opened, opened.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE `{SCHEMA}`")
        cursor.execute(f"USE `{SCHEMA}`")
        for name, (columns, values, key) in KEYS.items():
            cursor.execute(f"CREATE TABLE `{name}` ({columns}, v INT NOT NULL, PRIMARY KEY ({key}))")
            cursor.execute(f"INSERT INTO `{name}` SELECT {values}, n FROM ({numbers}) numbers WHERE n < {ROWS}")
        cursor.execute("CREATE TABLE no_key (v INT)")
        cursor.execute("INSERT INTO no_key VALUES (1), (2)")
        opened.commit()


def compared(pair: tuple[Account, Account], *names: str) -> dict[str, TableComparison]:
    """The comparison of these tables; without a name, of each table."""
    with read_only(pair[0]) as source, read_only(pair[1]) as candidate:
        inventories = [read_inventory(side, [SCHEMA]) for side in (source, candidate)]
        tables = [table for table in tables_of(*inventories) if not names or table.name in names]
        return {item.table: item for item in compare_tables(source, candidate, tables, lambda *_: None)}


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 500 rows, whatever time they take."""

    class Even(Pace):
        def adapt(self, seconds: float, *, rows: int) -> None:
            pass

    monkeypatch.setattr(checksums, "Pace", lambda: Even(rows=CHUNK))


@pytest.mark.usefixtures("small_chunks")
def test_a_key_of_any_type_divides_a_table(pair: tuple[Account, Account]) -> None:
    """Each row is in one chunk; a key that may be sorted in two ways is read in one statement."""
    tables = compared(pair)
    assert {name: table.source_rows for name, table in tables.items()} == {
        **{f"{SCHEMA}.{name}": ROWS for name in KEYS},
        f"{SCHEMA}.no_key": 2,
    }
    assert all(table.equal and table.candidate_rows == table.source_rows for table in tables.values())
    chunks = {name.removeprefix(f"{SCHEMA}."): table.chunks for name, table in tables.items()}
    even = ROWS // CHUNK + 1
    with read_only(pair[0]) as source, read_only(pair[1]) as candidate:
        one_flavor = is_mariadb(source) == is_mariadb(candidate)
    total = [*UNDIVIDED, "no_key", *(() if one_flavor else OF_DEFAULT_COLLATION)]
    assert chunks == {**dict.fromkeys(KEYS, even), **dict.fromkeys(total, 1)}


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("name", [name for name in KEYS if name not in UNDIVIDED])
def test_a_row_is_found_in_its_chunk(pair: tuple[Account, Account], name: str) -> None:
    """A value that differs, a row that only the candidate has, and one that it has not: three rows, no other."""
    with connection(pair[1], SCHEMA, timeout_s=60) as opened, opened.cursor() as cursor:
        cursor.execute(f"UPDATE `{name}` SET v = v + 1000000 WHERE v = 777")
        cursor.execute(f"CREATE TABLE aside AS SELECT * FROM `{name}` WHERE v = 1888")
        cursor.execute(f"DELETE FROM `{name}` WHERE v = 1888")
        opened.commit()
    try:
        of_table = compared(pair, name)[f"{SCHEMA}.{name}"]
    finally:
        with connection(pair[1], SCHEMA, timeout_s=60) as opened, opened.cursor() as cursor:
            cursor.execute(f"UPDATE `{name}` SET v = 777 WHERE v = 1000777")
            cursor.execute(f"INSERT INTO `{name}` SELECT * FROM aside")
            cursor.execute("DROP TABLE aside")
            opened.commit()
    assert (of_table.equal, of_table.different_rows, of_table.all_counted) == (False, 2, True)


def test_chunks_are_ranges_of_the_key(pair: tuple[Account, Account]) -> None:
    """The server goes to the chunk and reads it; it does not read the table for each."""
    with read_only(pair[0]) as source:
        inventory = read_inventory(source, [SCHEMA])
        for table in tables_of(inventory, inventory):
            if not table.key or table.name in UNDIVIDED:
                continue
            conditions = [chunk.where for chunk in chunks_of((source, source), table, Pace(rows=CHUNK))]
            for where in conditions[1:-1]:
                [plan] = source.query(f"EXPLAIN SELECT COUNT(*), SUM(v) FROM {table.quoted} WHERE {where}")
                matches = set(re.findall(r"\w+", " ".join(map(str, plan))))
                assert {"range", "PRIMARY"} <= matches, (table.name, where, plan)


@pytest.mark.usefixtures("small_chunks")
def test_sessions_of_their_own_find_what_one_finds(pair: tuple[Account, Account]) -> None:
    """On three connections to each server: the same tables, rows and chunks."""
    alone = compared(pair)
    with (
        read_only(pair[0]) as source,
        read_only(pair[1]) as candidate,
        chunk_sessions(*pair, 3) as sessions,
    ):
        inventories = [read_inventory(side, [SCHEMA]) for side in (source, candidate)]
        tables = tables_of(*inventories)
        together = list(compare_tables(source, candidate, tables, lambda *_: None, pairs=sessions))
    assert {one.table: one for one in together} == alone
    assert all(len(session.statements) > len(SESSION) for of_pair in sessions for session in of_pair)


def test_a_statement_that_takes_too_long_is_ended_by_the_server(
    pair: tuple[Account, Account], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is not left with it, and the table has no verdict."""
    every_row = f"`{SCHEMA}`.`int`"
    slow = f"SELECT COUNT(*), SUM(a.v * b.v * c.v) FROM {every_row} a, {every_row} b, {every_row} c"
    bounds = ("SET SESSION max_execution_time = 300", "SET SESSION max_statement_time = 0.3")
    monkeypatch.setattr(chunk_sums, "BOUNDS", bounds)
    monkeypatch.setattr(chunk_sums, "chunk_query", lambda *_: slow)
    with (
        read_only(pair[0]) as source,
        read_only(pair[1]) as candidate,
        chunk_sessions(*pair, 1) as sessions,
    ):
        inventories = [read_inventory(side, [SCHEMA]) for side in (source, candidate)]
        [table] = [table for table in tables_of(*inventories) if table.name == "no_key"]
        [found] = compare_tables(source, candidate, [table], lambda *_: None, pairs=sessions)
    assert found.equal is None
    assert "did not read within" in found.texts[0]


def test_a_large_table_without_a_key_is_not_read_and_told(
    pair: tuple[Account, Account], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One statement would take longer than ten seconds: no verdict, instead of an hour on the source."""
    monkeypatch.setattr(checksums, "UNDIVIDED_BYTES_MAX", 1_000)
    tables = compared(pair)
    for name in ("no_key", *UNDIVIDED):
        of_table = tables[f"{SCHEMA}.{name}"]
        assert (of_table.equal, of_table.chunks) == (None, 0)
        assert "no primary key divides" in of_table.texts[0]
    assert tables[f"{SCHEMA}.int"].equal
