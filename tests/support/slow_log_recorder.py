"""Records slow query logs of real servers: many clients, and a ledger of what each of them sent on which schema.

`python tests/support/slow_log_recorder.py mariadb-10.11 DIR` writes `DIR/slow.log` and `DIR/truth.json`:
the fixtures of tests/fixtures/slowlog were made so.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import mysql.connector
from empty_data import copy_of_local
from mysql.connector.connection import MySQLConnection
from slow_log_truth import FORGED, SCHEMAS, Sent, Truth
from waiting import wait_for

from volbench.machine.engine.connection import Account, rows

CLIENTS = 16
IMAGES = {"mysql-9.7": "volbench/mysql:9.7", "mariadb-11.8": "volbench/mariadb:11.8"}
LOCAL = "mariadb-10.11"


def record(
    connect: Callable[..., Any], log: Path, *, name: str, rounds: int, seed: int = 1, general: bool = False
) -> Truth:
    """Let the clients work while the server writes `log`, which must be its slow_query_log_file.

    Args:
        connect: opens a connection as root, with mysql.connector's keywords.
        rounds: statements of each client, about.
        general: the server writes its general log too, `general.log` beside the other.
    """
    with connect() as root:
        _prepare(root)
        version = _only_value(root, "SELECT VERSION()")
        mariadb = "MariaDB" in version
        _run(root, "SET GLOBAL long_query_time = 0")
        if mariadb:
            _run(root, "SET GLOBAL log_slow_disabled_statements = ''")
        else:
            _run(root, "SET GLOBAL log_slow_admin_statements = ON")
        before = _slow_queries(root)
        _run(root, "SET GLOBAL slow_query_log = ON")
        _run(root, f"SET GLOBAL general_log = {'ON' if general else 'OFF'}")
        sent = _work(connect, rounds // 2, seed, mariadb=mariadb)
        until_alone(root)
        _run(root, "FLUSH SLOW LOGS")  # the banner again, in the middle of the file
        _run(root, "FLUSH GENERAL LOGS")
        if mariadb:
            _run(root, "SET GLOBAL log_slow_verbosity = 'query_plan,explain,innodb'")
        else:
            _run(root, "SET GLOBAL log_slow_extra = ON")
        sent += _work(connect, rounds - rounds // 2, seed + 1, mariadb=mariadb)
        until_alone(root)
        _run(root, "SET GLOBAL slow_query_log = OFF")
        _run(root, "SET GLOBAL general_log = OFF")
        counted = _slow_queries(root) - before
    assert log.stat().st_size
    return Truth(server=name, version=version, slow_queries=counted, sent=sent)


def until_alone(root: Any) -> None:
    """Wait until the server has ended all other sessions: it logs a statement after its answer to the client."""
    remaining = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'root' AND id <> CONNECTION_ID()"
    wait_for(lambda: int(_only_value(root, remaining)) == 0, "sessions of clients that have gone are still there")


def _prepare(root: Any) -> None:
    for schema in SCHEMAS:
        _run(root, f"CREATE DATABASE `{schema}`")
        _run(root, f"USE `{schema}`")
        _run(root, "CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(40))")
        _run(root, "INSERT INTO customers VALUES (1,'a'),(2,'b'),(3,'c'),(4,'d'),(5,'e')")
        _run(root, "CREATE TABLE notes (id INT AUTO_INCREMENT PRIMARY KEY, ref INT, body LONGBLOB)")
        _run(
            root,
            "CREATE PROCEDURE note(tag VARCHAR(40)) BEGIN "
            "INSERT INTO notes (ref, body) VALUES (7, CONCAT('inner ', tag)); "
            "SELECT COUNT(*) AS rows_of_it FROM customers WHERE name <> tag; END",
        )


def _work(connect: Callable[..., Any], rounds: int, seed: int, *, mariadb: bool) -> list[Sent]:
    workers = [
        _Client(connect, f"c{seed}-{number:02d}", random.Random(seed * 1000 + number), rounds, mariadb=mariadb)
        for number in range(CLIENTS)
    ]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failed = [worker.error for worker in workers if worker.error is not None]
    if failed:
        raise failed[0]
    return [item for worker in workers for item in worker.sent]


class _Ledger(MySQLConnection):
    """A connection that notes each statement that it sends, those of mysql.connector too."""

    client = threading.local()

    def cmd_query(self, query: Any, *args: Any, **more: Any) -> Any:
        """Send a text, once it is noted."""
        note = getattr(self.client, "note", None)
        if note is not None:
            note(self.connection_id, bytes(query).decode("latin-1") if not isinstance(query, str) else query)
        return super().cmd_query(query, *args, **more)


class _Client:
    """One connection after another, each on a schema of its own; two in sixteen never choose a schema."""

    def __init__(
        self, connect: Callable[..., Any], name: str, draw: random.Random, rounds: int, *, mariadb: bool
    ) -> None:
        self._connect, self._name, self._draw, self._rounds, self._mariadb = connect, name, draw, rounds, mariadb
        self._opened: Any = None
        self._schema = ""
        self._without_schema = name[-2:] in {"03", "11"}
        self._kind, self._texts = "", [""]
        self.sent: list[Sent] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        """All rounds; an error ends the client and is kept."""
        _Ledger.client.note = self._note_text
        actions = (
            (8, self._select),
            (4, self._lines),
            (3, self._crlf),
            (3, self._forged),
            (3, self._insert),
            (2, self._last_insert_id),
            (3, self._binary_data),
            (3, self._comment_first),
            (4, self._prepared),
            (2, self._prepared_as_text),
            (4, self._call),
            (3, self._several),
            (2, self._transaction),
            (5, self._change_schema),
            (2, self._commands),
            (2, self._error),
            (1, self._reconnect),
            (2, self._unclosed),
        )
        try:
            self._reconnect()
            for number in range(self._rounds):
                self._draw.choices([action for _, action in actions], [weight for weight, _ in actions])[0]()
                if self._name.endswith("05") and number == self._rounds // 2:
                    self._ask(f"SELECT SLEEP(1.3), '{self._tag()}'", "sleep")
            self._opened.close()
        except BaseException as error:  # noqa: BLE001 - a thread's error is raised by the caller
            self.error = error

    def _tag(self) -> str:
        return f"{self._name}-{len(self.sent):03d}"

    def _note_text(self, connection: int, text: str) -> None:
        kind, texts, self._kind, self._texts = self._kind, self._texts, "", [""]
        if kind == "syntax error" and not self._mariadb:
            return
        for item in texts if texts != [""] else [text]:
            self._note(kind or "other", item, connection=connection)

    def _note(self, kind: str, sql: str, *, schema: str | None = None, connection: int | None = None) -> None:
        self.sent.append(
            Sent(
                kind=kind,
                schema=self._schema if schema is None else schema,
                sent_s=round(time.time(), 6),
                connection=connection or self._opened.connection_id,
                sql=sql.rstrip().rstrip(";").rstrip(),
            )
        )

    def _ask(self, sql: str | bytes, kind: str, *texts: str) -> None:
        self._kind, self._texts = kind, list(texts) or [""]
        with suppress(mysql.connector.Error):
            _run(self._opened, sql)

    def _table(self, name: str) -> str:
        return name if self._schema else f"`{self._draw.choice(SCHEMAS)}`.{name}"

    def _select(self) -> None:
        self._ask(f"SELECT name FROM {self._table('customers')} WHERE name <> '{self._tag()}' AND id = 5", "select")

    def _lines(self) -> None:
        self._ask(
            f"/* the client's own */ SELECT id\n     , name -- it's a comment; with an end\n"
            f"  FROM {self._table('customers')}\n\n WHERE name <> '{self._tag()}'\n# don't mind\n",
            "lines",
        )

    def _crlf(self) -> None:
        self._ask(f"SELECT id\r\n  FROM {self._table('customers')}\r\n WHERE name = '{self._tag()}'", "crlf")

    def _forged(self) -> None:
        table = self._table("notes")
        self._ask(f"INSERT INTO {table} (body) VALUES ('{self._tag()} it''s;\n{FORGED}and \\' more')", "forged")

    def _insert(self) -> None:
        self._ask(f"INSERT INTO {self._table('notes')} (ref, body) VALUES (3, '{self._tag()}')", "insert")

    def _last_insert_id(self) -> None:
        self._ask(
            f"INSERT INTO {self._table('notes')} (ref, body) VALUES (LAST_INSERT_ID(), '{self._tag()}')", "last id"
        )

    def _binary_data(self) -> None:
        data = bytes(byte for byte in range(256) if byte not in b"'\\") + b";\n# Time: \n"
        sql = f"INSERT INTO {self._table('notes')} (ref, body) VALUES (4, '{self._tag()}'), (5, _binary'".encode()
        self._ask(sql + data + b"')", "binary data")

    def _comment_first(self) -> None:
        self._ask(f"# administrator command: Quit;\nSELECT '{self._tag()}' AS comment_first", "comment first")

    def _prepared(self) -> None:
        table, tag = self._table("customers"), self._tag()
        self._note("prepared", f"SELECT id, name FROM {table} WHERE name <> '{tag}' AND id IN (1, 2)")
        with self._opened.cursor(prepared=True) as cursor:
            cursor.execute(f"SELECT id, name FROM {table} WHERE name <> ? AND id IN (?, ?)", (tag, 1, 2))
            cursor.fetchall()

    def _prepared_as_text(self) -> None:
        sql = f"SELECT COUNT(*) FROM {self._table('customers')} WHERE name = ?"
        self._ask(
            f"PREPARE once FROM '{sql}'", "prepare", "" if self._mariadb else " "
        )  # MySQL leaves the text out
        self._ask("SET @tag = 'x'", "set")
        self._ask("EXECUTE once USING @tag", "execute", " ")
        self._ask("DEALLOCATE PREPARE once", "deallocate")

    def _call(self) -> None:
        schema, tag = self._draw.choice(SCHEMAS), self._tag()
        if self._mariadb:
            self._note("routine", "", schema=schema)
            self._note("routine", "", schema=schema)
        self._ask(f"CALL `{schema}`.note('{tag}')", "call")

    def _several(self) -> None:
        item = f"SELECT COUNT(*) AS several FROM {self._table('customers')} WHERE name = '{self._tag()}'"
        two = f"UPDATE {self._table('customers')} SET name = 'b' WHERE id = 2 AND name = '{self._tag()}'"
        self._ask(f"{item};\n  {two}", "several", item, two)

    def _transaction(self) -> None:
        self._ask("START TRANSACTION", "begin")
        self._ask(
            f"SELECT id FROM {self._table('customers')} WHERE id = 3 AND name <> '{self._tag()}' FOR UPDATE",
            "locked",
        )
        self._ask("COMMIT", "commit")

    def _change_schema(self) -> None:
        if self._without_schema:
            return
        self._schema = self._draw.choice(SCHEMAS)
        if self._draw.random() < 0.5:
            self._opened.cmd_init_db(self._schema)
        else:
            self._ask(f"USE `{self._schema}`", "use")
        if self._draw.random() < 0.5:
            self._ask(f"SELECT '{self._tag()}' AS just_changed", "after use")

    def _commands(self) -> None:
        self._opened.cmd_ping()
        self._opened.cmd_statistics()
        if self._without_schema or self._draw.random() < 0.5:
            return
        self._schema = self._draw.choice(SCHEMAS)
        self._opened.cmd_change_user("root", "", self._schema)

    def _error(self) -> None:
        self._ask(f"SELECT nothing_such FROM {self._table('customers')} WHERE name = '{self._tag()}'", "error")

    def _unclosed(self) -> None:
        self._ask(f"SELECT 1 FROM dual WHERE name = '{self._tag()}' AND 'it is not closed", "syntax error")

    def _reconnect(self) -> None:
        if self._opened is not None:
            self._opened.close()
        self._schema = "" if self._without_schema else self._draw.choice(SCHEMAS)
        self._opened = self._connect(**({"database": self._schema} if self._schema else {}))


def _run(opened: Any, sql: str | bytes) -> list[Any]:
    with opened.cursor(raw=True) as cursor:
        cursor.execute(sql)
        results: list[Any] = []
        while True:
            if cursor.description:
                results = cursor.fetchall()
            if not cursor.nextset():
                return results


def _only_value(opened: Any, sql: str) -> str:
    return bytes(_run(opened, sql)[0][-1]).decode()


def _slow_queries(root: Any) -> int:
    return int(_only_value(root, "SHOW GLOBAL STATUS LIKE 'Slow_queries'"))


@contextmanager
def recorded_server(name: str, directory: Path) -> Iterator[tuple[Callable[..., Any], Path]]:
    """A new server with its slow log switched off still: how to connect to it as root, and the path of its log.

    Args:
        name: `mysql-9.7` or `mariadb-11.8`, in a container; `mariadb-10.11`, which is this machine's mariadbd.
        directory: for its socket and log; short, since a socket's path is.
    """
    options = [
        "--no-defaults",
        "--skip-networking",
        "--innodb-buffer-pool-size=64M",
        "--max-allowed-packet=64M",
        "--log-output=FILE",
    ]
    with ExitStack() as stack:
        if name == LOCAL:
            stack.enter_context(_local(directory, options))
        else:
            stack.enter_context(_container(name, directory, options))

        def connect(**more: Any) -> Any:
            return _Ledger(
                user="root",
                unix_socket=str(directory / "s"),
                charset="utf8mb4",
                collation="utf8mb4_general_ci",
                autocommit=True,
                connection_timeout=60,
                **more,
            )

        yield connect, directory / "slow.log"


@contextmanager
def _local(directory: Path, options: Sequence[str]) -> Iterator[None]:
    data, mariadbd = directory / "data", shutil.which("mariadbd")
    copy_of_local(data)
    server = subprocess.Popen(
        [
            mariadbd or "mysqld",
            *options,
            "--user=root",
            f"--datadir={data}",
            f"--socket={directory / 's'}",
            f"--tmpdir={directory}",
            f"--slow-query-log-file={directory / 'slow.log'}",
            f"--general-log-file={directory / 'general.log'}",
            *([] if mariadbd else ["--mysqlx=OFF"]),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: _answers(Account(user="root", socket=str(directory / "s"))), "the server does not answer")
        yield
    finally:
        server.terminate()
        server.wait(60)


def _answers(account: Account) -> bool:
    with suppress(mysql.connector.Error):
        return bool(rows(account, "SELECT 1", timeout_s=5))
    return False


@contextmanager
def _container(name: str, directory: Path, options: Sequence[str]) -> Iterator[None]:
    from server_container import throwaway_container  # noqa: PLC0415 - not where the local server is enough

    from volbench.testing.containers import QueryWaitStrategy  # noqa: PLC0415

    data, more = "/var/tmp/data", f"--user=root --datadir=/var/tmp/data {' '.join(options[1:])}"
    mariadb = name.startswith("mariadb")
    create = (
        f"mariadb-install-db --no-defaults --auth-root-authentication-method=normal --user=root --datadir={data}"
        if mariadb
        else f"mysqld --no-defaults --user=root --datadir={data} --initialize-insecure"
    )
    serve = (
        f"{create} && exec mysqld --no-defaults {more} --socket=/run/mysql/s "
        "--slow-query-log-file=/run/mysql/slow.log --general-log-file=/run/mysql/general.log"
        f"{'' if mariadb else ' --mysqlx=OFF'}"
    )
    container = throwaway_container(IMAGES[name], ["-c", serve], entrypoint="sh", network_mode="none")
    container.with_volume_mapping(directory, "/run/mysql", "rw")
    with container.waiting_for(QueryWaitStrategy(lambda _: Account(user="root", socket=str(directory / "s")))):
        yield


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", choices=[*IMAGES, LOCAL])
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=16)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sl") as directory:
        with recorded_server(chosen.server, Path(directory)) as (connect, log):
            truth = record(connect, log, name=chosen.server, rounds=chosen.rounds)
        chosen.out.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, chosen.out / "slow.log")
    lines = ",\n".join(json.dumps(list(asdict(item).values())) for item in truth.sent)
    head = json.dumps({key: value for key, value in asdict(truth).items() if key != "sent"})
    (chosen.out / "truth.json").write_text(f'{head[:-1]}, "sent": [\n{lines}\n]}}\n')
    return 0


if __name__ == "__main__":
    sys.exit(main())
