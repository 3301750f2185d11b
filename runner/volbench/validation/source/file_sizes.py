"""How many bytes fill a server's tablespaces, and how many its binary logs take."""

from __future__ import annotations

from typing import Any

from volbench.errors import StepFailed
from volbench.machine.engine.answers import reads_answers, whole_number, whole_or_zero
from volbench.validation.source.server import SqlReader

_TABLESPACES = (
    "SELECT s.NAME, s.FILE_SIZE, s.ALLOCATED_SIZE, f.DATA_FREE FROM information_schema.INNODB_TABLESPACES s "
    "LEFT JOIN information_schema.FILES f ON f.TABLESPACE_NAME = s.NAME",
    "SELECT s.NAME, s.FILE_SIZE, s.ALLOCATED_SIZE, t.DATA_FREE FROM information_schema.INNODB_SYS_TABLESPACES s "
    "LEFT JOIN information_schema.TABLES t ON s.NAME = CONCAT(t.TABLE_SCHEMA, '/', t.TABLE_NAME)",
)
"""MySQL's and MariaDB's; both need the PROCESS privilege. DATA_FREE counts extents without a page in use; MariaDB
does not report DATA_FREE of partitions."""
_BINARY_LOGS = "SHOW BINARY LOGS"
_RECYCLED = ("innodb_undo", "innodb_temporary")
"""Tablespaces whose space is used again, so that they do not grow with the data."""
LARGE_BYTES = 32 << 20
STEP_BYTES, LARGE_STEP_BYTES = 5 << 20, 8 << 20
"""A file is extended ahead of its data. Free space is reported in extents of 1 MiB; InnoDB does not count the two
free extents that it reserves for itself, and in a larger file a segment takes four more at a time."""


@reads_answers("tablespaces")
def tablespace_bytes(server: SqlReader) -> dict[str, int] | None:
    """Return the bytes in use of each tablespace; None where this account may not see them."""
    try:
        rows = _tablespace_rows(server)
    except StepFailed:
        return None
    return {
        # A hole that was punched into a file takes no space; what the file system preallocated is not the file's.
        str(name): min(whole_number(size) - whole_or_zero(free), whole_or_zero(allocated) or whole_number(size))
        for name, size, allocated, free in rows
        if not str(name).startswith(_RECYCLED)
    }


@reads_answers("binary logs")
def binlog_bytes(server: SqlReader) -> int | None:
    """Return the bytes of all binary logs, 0 without any; None where this account may not see them."""
    try:
        if server.query("SELECT @@GLOBAL.log_bin")[0][0] in (0, "0", "OFF"):
            return 0
        return sum(whole_number(row[1]) for row in server.query(_BINARY_LOGS))
    except StepFailed:
        return None


def resolution_bytes(file_bytes: int) -> int:
    """Return how wrong the bytes in use of a file of this size may be."""
    return STEP_BYTES if file_bytes < LARGE_BYTES else LARGE_STEP_BYTES


def _tablespace_rows(server: SqlReader) -> list[tuple[Any, ...]]:
    try:
        return server.query(_TABLESPACES[0])
    except StepFailed:
        return server.query(_TABLESPACES[1])
