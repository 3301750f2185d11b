"""The sampling process's own connection to the server: one for all sources that ask it, reopened when lost."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import mysql.connector

from volbench.core.base.text import counted
from volbench.errors import MissingPrerequisite
from volbench.machine.engine.bounded import ANSWER_BYTES
from volbench.machine.engine.connection import Account, account_from, connection, read_option_file
from volbench.measure.sample.interface import Unavailable

STATEMENT_TIMEOUT_S = 10
"""A server that takes longer for its counters is hung; its sources have a gap then, the others go on."""
NOT_INSTRUMENTED = (
    "UPDATE performance_schema.threads SET INSTRUMENTED = 'NO' WHERE PROCESSLIST_ID = CONNECTION_ID()"
)
"""Statements of a connection of ours shall not be counted among those that are measured."""
_PREPARE = (
    NOT_INSTRUMENTED,
    "SET SESSION group_concat_max_len = 1048576",
)


_PREPARE_READ_ONLY = (
    # The server itself then refuses a write. Both are variables of this session alone.
    "SET SESSION TRANSACTION READ ONLY",
    "SET SESSION group_concat_max_len = 1048576",
)


class ServerConnection:
    """Asks the server. Nothing is opened before the first question.

    Args:
        option_file: its [client] section has user, password and, without `socket`, where the server is; None:
            there is no server to ask.
        socket: the server's Unix socket; empty: as the option file says.
        read_only: the server is somebody else's: our statements are counted with the others, since keeping them
            out takes a change of performance_schema; sources subtract them (`own_account.OwnAccount`).
    """

    def __init__(self, option_file: Path | None, socket: str = "", *, read_only: bool = False) -> None:
        self._option_file = option_file
        self._prepare = _PREPARE_READ_ONLY if read_only else _PREPARE
        self._socket = socket
        self._stack = ExitStack()
        self._cursor: Any = None
        self.generation = 0
        """Counts the connections made: another one may be another life of the server, with new counters."""
        self.sent = 0
        """Counts statements, each before it is sent: no look at the server's count sees one that is not in it."""

    def rows(self, sql: str) -> Sequence[Sequence[bytes | None]]:
        """Return all rows of one statement, values as the server sent them.

        Raises Unavailable; the next call reconnects.

        A statement that the server refuses (unknown table) raises Unavailable too and keeps the connection.
        """
        if self._cursor is None:
            self._open()
        self.sent += 1
        try:
            self._cursor.execute(sql)
            return list(self._cursor.fetchall()) if self._cursor.description else []
        except (mysql.connector.errors.ProgrammingError, mysql.connector.errors.NotSupportedError) as error:
            raise Unavailable(f"the server refused: {error}") from error
        except (mysql.connector.Error, OSError) as error:
            self.close()
            raise Unavailable(f"the server does not answer: {error}") from error

    def text(self, sql: str) -> list[str]:
        """Return the columns of the one row that a statement gives; NULL is the empty text. Raises Unavailable."""
        rows = self.rows(sql)
        if len(rows) != 1:
            raise Unavailable(f"the server gave {counted(len(rows), 'row')} where one was expected")
        return ["" if column is None else bytes(column).decode("utf-8", "replace") for column in rows[0]]

    def _open(self) -> None:
        stack = ExitStack()
        try:
            opened = stack.enter_context(
                connection(self._account(), timeout_s=STATEMENT_TIMEOUT_S, bytes_max=ANSWER_BYTES)
            )
            cursor: Any = opened.cursor(raw=True)
            self._cursor = stack.enter_context(cursor)
        except (mysql.connector.Error, OSError, MissingPrerequisite) as error:
            stack.close()
            raise Unavailable(f"no connection to the server: {error}") from error
        self._stack = stack
        self.generation += 1
        self.sent += len(self._prepare)
        for statement in self._prepare:
            try:
                self._cursor.execute(statement)
            except mysql.connector.Error:  # lacks the right, or performance_schema is off: counted with the others
                continue

    def _account(self) -> Account:
        if self._option_file is None:
            raise Unavailable("there is no server to ask")
        return account_from(read_option_file(self._option_file), socket=self._socket)

    def close(self) -> None:
        """Close the connection; what goes wrong then does not matter any more."""
        stack, self._stack, self._cursor = self._stack, ExitStack(), None
        try:
            stack.close()
        except (mysql.connector.Error, OSError):
            return
