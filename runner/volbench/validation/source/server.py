"""A server that is only read: statements are checked before they are sent, and listed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import mysql.connector
from mysql.connector.abstracts import MySQLConnectionAbstract

from volbench.core.sql.fingerprint import fingerprint
from volbench.core.sql.guard import refuse_writes
from volbench.errors import MissingPrerequisite, StepFailed
from volbench.machine.engine.answers import reads_answers, whole_number
from volbench.machine.engine.connection import Account, connection
from volbench.machine.engine.tls import tls_failure

STATEMENT_BOUND_S = 3600.0
"""No statement on the source runs longer; checksums work in chunks to stay far below."""
ROWS_MAX = 1_000_000
ANSWER_BYTES = 256 << 20
"""Of one answer: a query whose rows are more is not compared."""
_BATCH_ROWS = 100_000
CONNECTING = ("SET NAMES 'utf8mb4' COLLATE 'utf8mb4_general_ci'", "SET @@session.autocommit = ON")
"""Statements that the client library sends for each connection."""
SESSION: tuple[str, ...] = (
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION sql_mode = ''",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET SESSION TRANSACTION READ ONLY",
    "SET SESSION group_concat_max_len = 1048576",
)
"""Settings with which both servers print values alike and whole, and refuse writes."""

SESSION_IF_KNOWN: tuple[str, ...] = (
    "SET SESSION explain_json_format_version = 1",
    "SET SESSION information_schema_stats_expiry = 0",
)
"""Without the first MySQL 9 prints plans in a form that MariaDB and older versions do not have; without the second
MySQL 8 and later show sizes of tables as they were up to a day ago."""
SAME_SERVER = "SELECT @@GLOBAL.hostname, @@GLOBAL.port, @@GLOBAL.datadir"
SERVER_IDS = ("SELECT @@GLOBAL.server_uuid", "SELECT @@GLOBAL.server_uid")
"""MySQL's and MariaDB's; older releases of MariaDB have none."""
STARTED = ("SELECT UNIX_TIMESTAMP()", "SHOW GLOBAL STATUS LIKE 'Uptime'")
_CLOCK_S = 3
"""The time of a start is the difference of two whole seconds, read one after the other."""
LOG_POSITIONS = (
    "SHOW BINARY LOG STATUS",
    "SHOW MASTER STATUS",
    "SELECT 'gtid', @@GLOBAL.gtid_binlog_pos",
    "SELECT 'gtid', @@GLOBAL.gtid_executed",
)
"""The first that the server supports and the account may run counts; every account may run the last two."""
VERSION = "SELECT @@GLOBAL.version, @@GLOBAL.version_comment"
PRIVILEGES = (
    "SELECT privilege_type FROM information_schema.user_privileges WHERE grantee = "
    "CONCAT('''', SUBSTRING_INDEX(CURRENT_USER(), '@', 1), '''@''', "
    "SUBSTRING_INDEX(CURRENT_USER(), '@', -1), '''')"
)
SNAPSHOT = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
Rows = list[tuple[Any, ...]]


class SqlReader(Protocol):
    """Runs reading statements on a server."""

    def query(self, sql: str) -> Rows:
        """Return all rows of one reading statement."""
        ...


class ReadOnlyServer:
    """Reads one server in one consistent snapshot, and counts the statements that it sends.

    `statements` counts them by fingerprint, in the order of their first use.
    """

    def __init__(self, opened: MySQLConnectionAbstract, address: str) -> None:
        self._opened = opened
        self.address = address
        self.statements = dict.fromkeys(map(fingerprint, CONNECTING), 1)

    def record_external_statements(self, statements: Mapping[str, int]) -> None:
        """Add statements that another tool sends to this server: fingerprints and counts."""
        for shape, count in statements.items():
            self.statements[shape] = self.statements.get(shape, 0) + count

    def query(self, sql: str) -> Rows:
        """Return all rows of one statement. Raises Refused for a write, StepFailed with the server's message."""
        refuse_writes(sql)
        shape = fingerprint(sql)
        self.statements[shape] = self.statements.get(shape, 0) + 1
        try:
            with self._opened.cursor() as cursor:
                cursor.execute(sql)
                return _rows(self._opened) if cursor.description else []
        except mysql.connector.Error as error:
            raise StepFailed(
                "a query failed", where=f"reading {self.address}", evidence=f"{error}; {shape[:200]}"
            ) from error


def _rows(opened: MySQLConnectionAbstract) -> Rows:
    """Return the rows of an answer. Raises InterfaceError beyond ROWS_MAX; the rest is read and dropped then."""
    kept_rows: Rows = []
    end, is_too_long = None, False
    while end is None:
        rows, end = opened.get_rows(count=_BATCH_ROWS)  # a cursor's fetchmany takes twice the time
        is_too_long = is_too_long or len(kept_rows) + len(rows) > ROWS_MAX
        kept_rows += [] if is_too_long else (tuple(map(_plain, row)) for row in rows)
    if is_too_long:
        raise mysql.connector.InterfaceError(f"the answer has more than {ROWS_MAX:,} rows", errno=-1)
    return kept_rows


@contextmanager
def read_only(
    account: Account, *, snapshot: bool = True, statement_s: float = STATEMENT_BOUND_S
) -> Iterator[ReadOnlyServer]:
    """Open a read-only session, by default in one snapshot of all InnoDB tables.

    Raises MissingPrerequisite when the connection fails.
    """
    address = account.address
    try:
        opening = connection(account, timeout_s=statement_s, bytes_max=ANSWER_BYTES)
        opened = opening.__enter__()
    except mysql.connector.Error as error:
        unencrypted = tls_failure(error, account.tls, address=address, where=f"reading {address}")
        if unencrypted is not None:
            raise unencrypted from error
        raise MissingPrerequisite(
            "cannot connect to the server",
            where=f"reading {address}",
            evidence=account.without_user(str(error)),
            next_step="check host, port or socket, the user and its password, and that they are not swapped",
        ) from error
    try:
        source = ReadOnlyServer(opened, address)
        for statement in SESSION:
            source.query(statement)
        for statement in SESSION_IF_KNOWN:
            with suppress(StepFailed):
                source.query(statement)
        if snapshot:
            source.query(SNAPSHOT)
        yield source
    finally:
        opening.__exit__(None, None, None)


@reads_answers("itself")
def is_same_server(source: SqlReader, candidate: SqlReader) -> bool:
    """Return whether both are one server, perhaps under two addresses.

    By host name, port, data directory, start time, and by their identifiers where they have them: containers may
    share the former, and a physical copy the latter.
    """
    if source.query(SAME_SERVER) != candidate.query(SAME_SERVER):
        return False
    identifiers = [_identifier(server) for server in (source, candidate)]
    if identifiers[0] != identifiers[1]:
        return False
    starts = [_started_s(server) for server in (source, candidate)]
    return abs(starts[0] - starts[1]) <= _CLOCK_S


def _identifier(server: SqlReader) -> str:
    for statement in SERVER_IDS:
        with suppress(StepFailed):
            return str(server.query(statement)[0][0])
    return ""


def _started_s(server: SqlReader) -> int:
    now, uptime = (server.query(statement)[0][-1] for statement in STARTED)
    return whole_number(now) - whole_number(uptime)


# TRIGGER and EVENT permit writes too, but without them triggers and events are not visible.
WRITE_PRIVILEGES = frozenset(
    [
        "INSERT",
        "UPDATE",
        "DELETE",
        "CREATE",
        "DROP",
        "ALTER",
        "INDEX",
        "SUPER",
        "FILE",
        "SHUTDOWN",
        "RELOAD",
    ]
)


@reads_answers("privileges")
def excessive_privileges(query: Callable[[str], Rows]) -> list[str]:
    """Return global privileges of the account that a reader does not need."""
    return sorted({str(row[0]).upper() for row in query(PRIVILEGES)} & WRITE_PRIVILEGES)


def _plain(value: Any) -> Any:
    if isinstance(value, set):  # the client returns a SET as an unordered set
        return ",".join(sorted(map(str, value)))
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes | bytearray) else value
