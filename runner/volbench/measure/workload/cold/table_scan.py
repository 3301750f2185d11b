"""First query and full scan of all tables on a server that has just started with an empty buffer pool."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from volbench.errors import StepFailed
from volbench.measure.workload.cold.cold_files import difference
from volbench.measure.workload.interface import StepContext
from volbench.measure.workload.schema_data import data_bytes

SCAN = "SELECT SUM(LENGTH(pad)) FROM `{schema}`.`{table}` FORCE INDEX (PRIMARY)"
"""Reads a column that no secondary index has, so that the clustered index is read in full; COUNT(*) would take
the smallest index there is."""
POINT = "SELECT c FROM `{schema}`.`{table}` WHERE id = {row}"


@dataclass(frozen=True, kw_only=True)
class ScanResult:
    """Times and bytes of a scan on a cold server.

    Args:
        first_query_ms: a point select by primary key, the first statement that touches the schema.
        seconds: of the scans of all tables, one after another.
        data_bytes: of all clustered indexes, by the server's statistics.
        server_read_bytes: bytes that the server read from files, by its counter; None without the counter.
        device_bytes: bytes that the device delivered; None if the device is not visible.
    """

    first_query_ms: float
    seconds: float
    data_bytes: int
    server_read_bytes: int | None
    device_bytes: int | None
    statement: str


def scan_cold(ctx: StepContext, tables: Sequence[str], *, first_row: int, until_monotonic_s: float) -> ScanResult:
    """Read one row, then every table. Raise StepFailed at the timeout or if cancelled."""
    schema = ctx.dataset.schema_name
    device_before, server_before = ctx.device_read_bytes(), _server_read_bytes(ctx)
    left_s = max(1.0, until_monotonic_s - time.monotonic())
    with ctx.server.connect(schema, timeout_s=left_s) as connection, connection.cursor() as cursor:
        begun = time.monotonic()
        cursor.execute(POINT.format(schema=schema, table=tables[0], row=first_row))
        cursor.fetchall()
        first_query_ms = (time.monotonic() - begun) * 1000
        begun = time.monotonic()
        for done, table in enumerate(tables):
            _check_limits(ctx, until_monotonic_s)
            ctx.progress(f"scanning {schema}.{table}, cold", done / len(tables))
            cursor.execute(SCAN.format(schema=schema, table=table))
            cursor.fetchall()
        seconds = time.monotonic() - begun
    return ScanResult(
        first_query_ms=first_query_ms,
        seconds=seconds,
        data_bytes=data_bytes(ctx.server, schema),
        server_read_bytes=difference(server_before, _server_read_bytes(ctx)),
        device_bytes=difference(device_before, ctx.device_read_bytes()),
        statement=SCAN.format(schema=schema, table="..."),
    )


def _check_limits(ctx: StepContext, until_monotonic_s: float) -> None:
    if ctx.cancelled.is_set():
        raise StepFailed("the table scan was cancelled")
    if time.monotonic() > until_monotonic_s:
        raise StepFailed("the table scan took longer than the step's timeout", next_step="raise the step's timeout")


def _server_read_bytes(ctx: StepContext) -> int | None:
    rows = ctx.server.query("SHOW GLOBAL STATUS LIKE 'Innodb_data_read'")
    return int(rows[0][1]) if rows else None
