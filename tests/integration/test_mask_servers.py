"""Masked statements on real servers: they parse, they have the digest that they had, and no value survives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import mysql.connector
import pytest
from mysql.connector.abstracts import MySQLConnectionAbstract
from mysql_container import mysql_container
from scratch_server import scratch_server

from volbench.machine.engine.connection import Account, connection
from volbench.validation.capture.mask import masked_sql

KEY = b"k" * 32
MODES = ("", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES")
STATEMENTS = 400
ALPHABET = "abz \\\\\\''\"`-#/*!+%_0.5é$;\n"
FORMS = (
    "SELECT {s} FROM t WHERE a = {s} AND b = {n}",
    "INSERT INTO t (a, b) VALUES ({s}, {n}), ({s}, {n})",
    "UPDATE t SET a = {s} WHERE b IN ({n}, {n}, {n}) -- {c}\n LIMIT 5",
    "SELECT /*+ MAX_EXECUTION_TIME(1000) */ a FROM t WHERE a LIKE {s} /* {c} */ ORDER BY b",
    "SELECT /*!50000 STRAIGHT_JOIN */ x'{h}', 0x{h}, b'0101', _utf8mb4{q}, N{q}, -{n}, {n}.{n}, {n}e2 "
    "FROM t # {c}\n",
    "SELECT DATE'2020-01-02', TIMESTAMP'2020-01-02 03:04:05.5', TIME'11:12:13', {{d '2021-02-03'}} "
    "FROM t WHERE a > {s}",
    "SELECT CAST(b AS DECIMAL(10,2)), NOW(6), 5--3, `a` FROM t WHERE a <> {s} AND b = {n}",
)


def planted(rng: random.Random, mode: str) -> tuple[str, tuple[str, ...]]:
    """A statement as a client in that mode writes it, with the secrets in its literals and comments."""
    secrets: list[str] = []

    def secret() -> str:
        term = "Zq" + "".join(rng.choices("ghjkmn", k=6))
        secrets.append(term)
        return term

    def literal(quote: str) -> str:
        text = (
            secret() + "".join(rng.choices(ALPHABET, k=rng.randint(0, 8))) + secret() + rng.choice(("", "\\", "'"))
        )
        if "NO_BACKSLASH_ESCAPES" not in mode:
            text = text.replace("\\", "\\\\")
            if rng.random() < 0.3:
                return f"{quote}{text.replace(quote, chr(92) + quote)}{quote}"
        return f"{quote}{text.replace(quote, quote * 2)}{quote}"

    def string() -> str:
        return literal("'" if "ANSI_QUOTES" in mode else rng.choice("''\""))

    def number() -> str:
        secrets.append(term := str(rng.randint(10**8, 10**9)))
        return term

    form = rng.choice(FORMS)
    pieces: dict[str, Callable[[], str]] = {
        "{s}": string,
        "{q}": lambda: literal("'"),
        "{n}": number,
        "{c}": secret,
        "{h}": lambda: secret().encode().hex(),
    }
    for mark, make in pieces.items():
        while mark in form:
            form = form.replace(mark, make(), 1)
    return form.replace("{{", "{").replace("}}", "}"), tuple(secrets)


def survivors(text: str, secrets: tuple[str, ...]) -> list[str]:
    return [secret for secret in secrets if secret in text or secret.encode().hex() in text]


@pytest.fixture(scope="module")
def mysql_account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with mysql_container(tmp_path_factory.mktemp("mysql")) as account:
        yield account


@pytest.fixture(scope="module")
def mariadb_account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with scratch_server(tmp_path_factory.mktemp("mariadb")) as server:
        yield Account(user="root", socket=str(server.socket))


@pytest.mark.docker
@pytest.mark.parametrize("mode", MODES)
def test_mysql_reads_the_masked_statement_as_it_read_the_first(mysql_account: Account, mode: str) -> None:
    """STATEMENT_DIGEST() of MySQL's own parser, in the session's mode; with the mode given, nothing is left out."""
    rng = random.Random(f"mysql {mode}")
    with connection(mysql_account) as opened, opened.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS m")
        cursor.execute("USE m")
        cursor.execute(f"SET SESSION sql_mode = '{mode}'")
        for _ in range(STATEMENTS):
            sql, secrets = planted(rng, mode)
            known_names, unknown = masked_sql(sql, KEY, sql_mode=mode), masked_sql(sql, KEY)
            assert known_names is not None, sql
            assert not survivors(known_names + (unknown or ""), secrets), sql
            digests = []
            for text in (sql, known_names, *([unknown] if unknown else [])):
                hexadecimal = text.encode().hex()
                cursor.execute(f"SELECT STATEMENT_DIGEST(CONVERT(0x{hexadecimal} USING utf8mb4))")
                digests.append(cursor.fetchone())
            assert len(set(digests)) == 1, (sql, known_names, unknown)


@pytest.mark.mysqld
@pytest.mark.parametrize("mode", MODES)
def test_mariadb_parses_the_masked_statement(mariadb_account: Account, mode: str) -> None:
    """By PREPARE, which parses and looks up the tables."""
    rng = random.Random(f"mariadb {mode}")
    with connection(mariadb_account) as opened:
        run(opened, "CREATE DATABASE IF NOT EXISTS m")
        run(opened, "USE m")
        run(opened, "CREATE TABLE IF NOT EXISTS t (a VARCHAR(200), b DECIMAL(30,2))")
        run(opened, f"SET SESSION sql_mode = '{mode}'")
        for _ in range(STATEMENTS):
            sql, secrets = planted(rng, mode)
            known_names = masked_sql(sql, KEY, sql_mode=mode)
            assert known_names is not None, sql
            assert not survivors(known_names, secrets), sql
            for text in (sql, known_names):
                try:
                    run(opened, f"PREPARE s FROM 0x{text.encode().hex()}")
                except mysql.connector.Error as error:
                    pytest.fail(f"{error}: {text!r} of {sql!r}")


def run(opened: MySQLConnectionAbstract, sql: str) -> None:
    with opened.cursor() as cursor:
        cursor.execute(sql)
