"""What is in a schema: its tables, their size, and checksums that prove two schemas equal.

Names go into statements as they are: schema names by DatasetSpec's pattern, table names as the server gave them.
"""

# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from volbench.workload.interface import ServerHandle

_FRESH_STATISTICS = "SET /*!80000 SESSION information_schema_stats_expiry = 0, */ @volbench = 0"
"""MySQL 8 and later may show sizes of a day ago; MariaDB has no such variable and skips the comment."""


@dataclass(frozen=True, kw_only=True)
class TableSum:
    """Rows of a table and the checksum over all their columns."""

    rows: int
    checksum: int


def table_names(server: ServerHandle, schema: str) -> list[str]:
    """The base tables of a schema, sorted."""
    rows = server.query(
        "SELECT table_name FROM information_schema.tables "
        f"WHERE table_schema = '{schema}' AND table_type = 'BASE TABLE' ORDER BY table_name"
    )
    return [_text(row[0]) for row in rows]


def data_bytes(server: ServerHandle, schema: str) -> int:
    """Bytes in the clustered indexes of a schema, as the server estimates them now."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(_FRESH_STATISTICS)
        cursor.execute(f"SELECT SUM(data_length) FROM information_schema.tables WHERE table_schema = '{schema}'")
        return int(cursor.fetchall()[0][0] or 0)


def table_sums(
    server: ServerHandle, schema: str, progress: Callable[[str, float | None], None]
) -> dict[str, TableSum]:
    """Row count and checksum of every table, read in full.

    CHECKSUM TABLE ... EXTENDED adds up a CRC of each row's columns. It does not depend on the rows' order, and may
    be compared between tables of one definition on one server.
    """
    sums = {}
    tables = table_names(server, schema)
    for done, table in enumerate(tables):
        progress(f"checksum of {schema}.{table}", done / len(tables))
        rows = int(server.query(f"SELECT COUNT(*) FROM `{schema}`.`{table}`")[0][0])
        checksum = int(server.query(f"CHECKSUM TABLE `{schema}`.`{table}` EXTENDED")[0][1])
        sums[table] = TableSum(rows=rows, checksum=checksum)
    return sums


def differences(source: Mapping[str, TableSum], restored: Mapping[str, TableSum]) -> list[str]:
    """How two schemas differ, one sentence a table; empty when they are equal."""
    found = []
    for table in sorted(source.keys() | restored.keys()):
        ours, theirs = source.get(table), restored.get(table)
        if ours is None or theirs is None:
            found.append(f"{table} is only in the {'restored' if ours is None else 'source'} schema")
        elif ours.rows != theirs.rows:
            found.append(f"{table} has {ours.rows} rows, restored {theirs.rows}")
        elif ours.checksum != theirs.checksum:
            found.append(f"{table} has checksum {ours.checksum}, restored {theirs.checksum}")
    return found


def sums_as_details(sums: Mapping[str, TableSum]) -> dict[str, dict[str, int]]:
    """For a step's details."""
    return {table: {"rows": one.rows, "checksum": one.checksum} for table, one in sums.items()}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes | bytearray) else str(value)
