"""What a candidate's files take before and after a replay: tablespaces and binary logs, as the server tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import mysql.connector

from volbench.engine.connection import Account, connection
from volbench.errors import StepFailed
from volbench.validation.source import Reads

_BOUND_S = 60.0
_TABLESPACES = (
    "SELECT s.NAME, s.FILE_SIZE, s.ALLOCATED_SIZE, f.DATA_FREE FROM information_schema.INNODB_TABLESPACES s "
    "LEFT JOIN information_schema.FILES f ON f.TABLESPACE_NAME = s.NAME",
    "SELECT s.NAME, s.FILE_SIZE, s.ALLOCATED_SIZE, t.DATA_FREE FROM information_schema.INNODB_SYS_TABLESPACES s "
    "LEFT JOIN information_schema.TABLES t ON s.NAME = CONCAT(t.TABLE_SCHEMA, '/', t.TABLE_NAME)",
)
"""MySQL's and MariaDB's; both take the PROCESS privilege. DATA_FREE is that of extents without a page in use, which
MariaDB does not tell of partitions."""
_VARIABLES = (
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_bin', 'binlog_expire_logs_seconds', 'expire_logs_days', "
    "'binlog_expire_logs_auto_purge', 'max_binlog_size', 'innodb_redo_log_capacity', 'innodb_log_file_size', "
    "'innodb_log_files_in_group', 'innodb_page_size')"
)
_BINARY_LOGS = "SHOW BINARY LOGS"
_CREATED = "SHOW GLOBAL STATUS LIKE 'Innodb_pages_created'"
"""Each page that was ever added to a table, and those that were used again."""
_PASSING = ("innodb_undo", "innodb_temporary")
"""Tablespaces that are used again and again, so they do not grow with the data."""
LARGE_BYTES = 32 << 20
STEP_BYTES, LARGE_STEP_BYTES = 5 << 20, 8 << 20
"""A file is extended ahead of its data. What is filled is told by extents of 1 MiB; of those that are free InnoDB
does not count the two that it keeps for itself, and in a larger file a segment takes four more at a time."""


@dataclass(frozen=True, kw_only=True)
class Space:
    """A tablespace: its file, so much of it without free extents, and how wrong that may be."""

    file_bytes: int
    filled_bytes: int
    step_bytes: int


@dataclass(frozen=True, kw_only=True)
class Stored:
    """All files at a moment.

    Args:
        created_bytes: pages that were created since the server began.
        passing_bytes: undo and temporary tablespaces.
        binlog_bytes: of all binary logs; None: none is written.
        kept_s: until a binary log is removed; None: never.
    """

    spaces: Mapping[str, Space]
    created_bytes: int
    passing_bytes: int
    redo_bytes: int
    binlog_bytes: int | None
    binlog_file_bytes: int
    kept_s: float | None

    @property
    def bytes_without_binlog(self) -> int:
        """Data, undo, temporary and redo."""
        return sum(one.file_bytes for one in self.spaces.values()) + self.passing_bytes + self.redo_bytes


def stored(account: Account) -> Stored | None:
    """What the candidate has now; None where it does not tell, for lack of PROCESS or REPLICATION CLIENT."""
    try:
        with connection(account, timeout_s=_BOUND_S) as opened:

            def ask(sql: str) -> list[tuple[Any, ...]]:
                with opened.cursor() as cursor:
                    cursor.execute(sql)
                    return [tuple(map(_plain, row)) for row in cursor.fetchall()]

            variables = {str(name): str(value) for name, value in ask(_VARIABLES)}
            spaces = _spaces(ask)
            ((_, created),) = ask(_CREATED)
            logged = variables.get("log_bin", "OFF").upper() in {"ON", "1"}
            binlog = sum(int(row[1]) for row in ask(_BINARY_LOGS)) if logged else None
    except mysql.connector.Error:
        return None
    return Stored(
        spaces={name: one for name, one in spaces.items() if not name.startswith(_PASSING)},
        created_bytes=int(created) * int(variables["innodb_page_size"]),
        passing_bytes=sum(one.file_bytes for name, one in spaces.items() if name.startswith(_PASSING)),
        redo_bytes=_redo_bytes(variables),
        binlog_bytes=binlog,
        binlog_file_bytes=int(variables.get("max_binlog_size", 1 << 30)),
        kept_s=kept_s(variables),
    )


def filled(server: Reads) -> dict[str, int] | None:
    """Bytes that fill each tablespace of a server that is only read; None where it does not tell."""
    try:
        spaces = _spaces(server.query)
    except StepFailed:
        return None
    return {name: one.filled_bytes for name, one in spaces.items() if not name.startswith(_PASSING)}


def binary_logs(server: Reads) -> int | None:
    """Bytes of all binary logs, 0 without any; None where it does not tell."""
    try:
        if server.query("SELECT @@GLOBAL.log_bin")[0][0] in (0, "0", "OFF"):
            return 0
        return sum(int(row[1]) for row in server.query(_BINARY_LOGS))
    except StepFailed:
        return None


def kept_s(variables: Mapping[str, str]) -> float | None:
    """How long a binary log is kept, by variables of either flavor; None: for ever."""
    if variables.get("binlog_expire_logs_auto_purge", "ON").upper() in {"OFF", "0"}:
        return None
    seconds = float(variables.get("binlog_expire_logs_seconds") or 0)
    return seconds or float(variables.get("expire_logs_days") or 0) * 86400 or None


def _spaces(ask: Callable[[str], list[tuple[Any, ...]]]) -> dict[str, Space]:
    try:
        found = ask(_TABLESPACES[0])
    except (mysql.connector.Error, StepFailed):
        found = ask(_TABLESPACES[1])
    return {
        str(name): Space(
            # A hole that was punched into a file takes no room; what the file system took ahead is not the file's.
            file_bytes=min(int(size), int(allocated) or int(size)),
            filled_bytes=min(int(size) - int(free or 0), int(allocated) or int(size)),
            step_bytes=step_bytes(int(size)),
        )
        for name, size, allocated, free in found
    }


def step_bytes(file_bytes: int) -> int:
    """How wrong it may be by what a file of this size seems to be filled."""
    return STEP_BYTES if file_bytes < LARGE_BYTES else LARGE_STEP_BYTES


def _redo_bytes(variables: Mapping[str, str]) -> int:
    capacity = variables.get("innodb_redo_log_capacity")
    if capacity is not None:
        return int(capacity)
    return int(variables.get("innodb_log_file_size", 0)) * int(variables.get("innodb_log_files_in_group", 1))


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes | bytearray) else value
