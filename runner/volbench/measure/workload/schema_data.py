"""A schema's tables, their size, and checksums that prove two schemas equal.

Schema names match DatasetSpec's pattern, and are in statements as they are.
"""

# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from volbench.machine.engine.connection import as_text, quoted_name
from volbench.measure.workload.interface import ServerHandle

_FRESH_STATISTICS = "SET /*!80000 SESSION information_schema_stats_expiry = 0, */ @volbench = 0"
"""MySQL 8 and later may show sizes of a day ago; MariaDB has no such variable and skips the comment."""


@dataclass(frozen=True, kw_only=True)
class TableSum:
    """Rows of a table and the checksum over all their columns."""

    rows: int
    checksum: int


def table_names(server: ServerHandle, schema: str) -> list[str]:
    """Return the base tables of a schema, sorted."""
    rows = server.query(
        "SELECT table_name FROM information_schema.tables "
        f"WHERE table_schema = '{schema}' AND table_type = 'BASE TABLE' ORDER BY table_name"
    )
    return [as_text(row[0]) for row in rows]


def data_bytes(server: ServerHandle, schema: str) -> int:
    """Return the server's current estimate of the bytes in a schema's clustered indexes."""
    rows = _current(
        server, f"SELECT SUM(data_length) FROM information_schema.tables WHERE table_schema = '{schema}'"
    )
    return int(rows[0][0] or 0)


def rows_and_bytes(server: ServerHandle, schema: str, table: str) -> tuple[int, int] | None:
    """Return the server's current estimate of a table's rows and bytes with its indexes; None without it."""
    rows = _current(
        server,
        "SELECT table_rows, data_length + index_length FROM information_schema.tables "
        f"WHERE table_schema = '{schema}' AND table_name = '{table}' AND table_type = 'BASE TABLE'",
    )
    return (int(rows[0][0] or 0), int(rows[0][1] or 0)) if rows else None


def _current(server: ServerHandle, sql: str) -> Sequence[Any]:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(_FRESH_STATISTICS)
        cursor.execute(sql)
        rows: Sequence[Any] = cursor.fetchall()
    return rows


def table_sums(
    server: ServerHandle, schema: str, progress: Callable[[str, float | None], None]
) -> dict[str, TableSum]:
    """Return row count and checksum of every table, read in full.

    CHECKSUM TABLE ... EXTENDED adds up a CRC of each row's columns. It does not depend on the rows' order, and may
    be compared between tables of one definition on one server.
    """
    sums = {}
    tables = table_names(server, schema)
    for done, table in enumerate(tables):
        progress(f"checksum of {schema}.{table}", done / len(tables))
        table_name = f"`{schema}`.{quoted_name(table)}"
        rows = int(server.query(f"SELECT COUNT(*) FROM {table_name}")[0][0])
        checksum = int(server.query(f"CHECKSUM TABLE {table_name} EXTENDED")[0][1])
        sums[table] = TableSum(rows=rows, checksum=checksum)
    return sums


def differences(
    source: Mapping[str, TableSum], restored: Mapping[str, TableSum], *, copy: str = "restored"
) -> list[str]:
    """Return how two schemas differ, one sentence a table; empty if they are equal. `copy` names the second one."""
    mismatches = []
    for table in sorted(source.keys() | restored.keys()):
        expected, actual = source.get(table), restored.get(table)
        if expected is None or actual is None:
            mismatches.append(f"{table} is only in the {copy if expected is None else 'source'} schema")
        elif expected.rows != actual.rows:
            mismatches.append(f"{table} has {expected.rows} rows, {copy} {actual.rows}")
        elif expected.checksum != actual.checksum:
            mismatches.append(f"{table} has checksum {expected.checksum}, {copy} {actual.checksum}")
    return mismatches


def sums_as_details(sums: Mapping[str, TableSum]) -> dict[str, dict[str, int]]:
    """For a step's details."""
    return {table: {"rows": table_sum.rows, "checksum": table_sum.checksum} for table, table_sum in sums.items()}
