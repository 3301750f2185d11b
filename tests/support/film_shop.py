"""A schema that is not sysbench's, with generated rows: films, customers, rentals; and a load with a slow log.

`python tests/support/film_shop.py DIR --rows N` writes DIR/shop.sql, a dump whose rentals have N rows; 3,000,000
make about 1 GB. The tables follow the idea of MySQL's sample schema `sakila`; definitions and rows are our own.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from volbench.machine.engine.connection import Account, connection

SCHEMA = "shop"
_INSERT_ROWS = 500
_TERMS = (
    "amber",
    "brave",
    "cobalt",
    "daring",
    "early",
    "faint",
    "golden",
    "hidden",
    "iron",
    "jade",
    "keen",
    "lunar",
    "misty",
    "noble",
    "onyx",
    "pale",
    "quiet",
)
_DDL = """
CREATE TABLE film (film_id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, title VARCHAR(128) NOT NULL,
  description TEXT, rate DECIMAL(4,2) NOT NULL, length SMALLINT UNSIGNED, rating ENUM('G','PG','R'), KEY (title));
CREATE TABLE customer (customer_id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(80) NOT NULL,
  email VARCHAR(80), active TINYINT NOT NULL, created DATETIME NOT NULL, KEY (name));
CREATE TABLE rental (rental_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, rented DATETIME NOT NULL,
  film_id INT UNSIGNED NOT NULL, customer_id INT UNSIGNED NOT NULL, returned DATETIME, note VARCHAR(400) NOT NULL,
  KEY (customer_id, rented), KEY (film_id),
  CONSTRAINT rental_film FOREIGN KEY (film_id) REFERENCES film (film_id),
  CONSTRAINT rental_customer FOREIGN KEY (customer_id) REFERENCES customer (customer_id));
CREATE TABLE payment (payment_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, rental_id BIGINT UNSIGNED,
  amount DECIMAL(5,2) NOT NULL, paid DATETIME NOT NULL, KEY (rental_id));
"""


def dump(rows: int, *, seed: int = 1) -> Iterator[str]:
    """The lines of a dump whose rental table has `rows` rows, with films and customers in proportion."""
    source = random.Random(seed)
    films, customers = max(20, rows // 50), max(20, rows // 20)
    yield "/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;"
    yield "SET UNIQUE_CHECKS=0;"
    yield _DDL
    text = " ".join(source.choices(_TERMS, k=60))
    yield from _inserts(
        "film",
        films,
        lambda n: (
            f"({n},'{source.choice(_TERMS)} {n}','{text[: source.randint(40, 300)]}',"
            f"{source.randint(99, 999) / 100},"
            f"{source.randint(60, 200)},'{source.choice(('G', 'PG', 'R'))}')"
        ),
    )
    yield from _inserts(
        "customer",
        customers,
        lambda n: (
            f"({n},'{source.choice(_TERMS)} {n}','c{n}@example.com',1,"
            f"'2026-01-{source.randint(1, 28):02} 10:00:00')"
        ),
    )
    yield from _inserts(
        "rental",
        rows,
        lambda n: (
            f"({n},'2026-0{source.randint(1, 9)}-{source.randint(1, 28):02} 12:00:00',{source.randint(1, films)},"
            f"{source.randint(1, customers)},NULL,'{text[: source.randint(100, 380)]}')"
        ),
    )
    yield from _inserts(
        "payment",
        rows,
        lambda n: f"({n},{n},{source.randint(99, 999) / 100},'2026-09-{source.randint(1, 28):02} 13:00:00')",
    )
    yield "SET UNIQUE_CHECKS=1;\n/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;\n"


def _inserts(table: str, rows: int, row: object) -> Iterator[str]:
    assert callable(row)
    for first in range(1, rows + 1, _INSERT_ROWS):
        values = ",\n".join(row(number) for number in range(first, min(first + _INSERT_ROWS, rows + 1)))
        yield f"INSERT INTO {table} VALUES {values};"


def statements(source: random.Random, rows: int) -> Iterator[str]:
    """One business transaction after the other, each of several statements; ids are within `rows`."""
    films, customers = max(20, rows // 50), max(20, rows // 20)
    while True:
        kind = source.random()
        film, customer, rental = (source.randint(1, most) for most in (films, customers, rows))
        if kind < 0.4:
            yield f"SELECT title, rate FROM film WHERE film_id = {film}"
            columns = "rental_id, rented, note"
            yield f"SELECT {columns} FROM rental WHERE customer_id = {customer} ORDER BY rented DESC LIMIT 20"
        elif kind < 0.6:
            yield f"SELECT COUNT(*), MAX(rented) FROM rental WHERE film_id = {film}"
        elif kind < 0.85:
            yield "BEGIN"
            yield (
                "INSERT INTO rental (rented, film_id, customer_id, note) "
                f"VALUES ('2026-10-01 10:00:00', {film}, {customer}, 'new')"
            )
            yield f"UPDATE customer SET active = 1 - active WHERE customer_id = {customer}"
            yield "COMMIT"
        else:
            yield f"UPDATE rental SET returned = '2026-10-02 10:00:00' WHERE rental_id = {rental}"
            yield f"SELECT SUM(amount) FROM payment WHERE rental_id BETWEEN {rental} AND {rental + 50}"


def write_dump(path: Path, rows: int) -> Path:
    """Write the dump."""
    with path.open("w") as file:
        file.writelines(f"{line}\n" for line in dump(rows))
    return path


class LoggingServer(Protocol):
    """A server whose statements are logged."""

    @property
    def socket(self) -> Path:
        """Its socket, as this process sees it."""

    def query(self, sql: str) -> object:
        """Return all rows of one statement, as root."""


def record_load(server: LoggingServer, rows_in_rental: int, *, seconds: float, log: Path) -> None:
    """Put the business load on the schema from four clients, with all statements in the server's slow log.

    `general.log` beside it has them too.
    """
    for setting in (
        f"general_log_file = '{log.with_name('general.log')}'",
        f"slow_query_log_file = '{log}'",
        "long_query_time = 0",
        "log_output = 'FILE'",
        "slow_query_log = 1",
        "general_log = 1",
    ):
        server.query(f"SET GLOBAL {setting}")
    account = Account(user="root", socket=str(server.socket))
    clients = [threading.Thread(target=_client, args=(account, rows_in_rental, seconds, n)) for n in range(4)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    server.query("SET GLOBAL slow_query_log = 0")
    server.query("SET GLOBAL general_log = 0")


def _client(account: Account, rows_in_rental: int, seconds: float, seed: int) -> None:
    source, until_s = random.Random(seed), time.monotonic() + seconds
    with connection(account, SCHEMA) as opened, opened.cursor() as cursor:
        in_transaction = False
        for sql in statements(source, rows_in_rental):
            if time.monotonic() > until_s and not in_transaction:
                return
            in_transaction = sql == "BEGIN" or (in_transaction and sql != "COMMIT")
            cursor.execute(sql)
            if cursor.description:
                cursor.fetchall()
            time.sleep(source.expovariate(40))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rows", type=int, default=20_000)
    given = parser.parse_args()
    write_dump(given.directory / "shop.sql", given.rows)
