"""The ledger of a durability test: transactions with reproducible bytes, and which of them were acknowledged."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import mysql.connector

from volbench.errors import StepFailed, VolbenchError
from volbench.measure.workload.interface import ServerHandle, StepContext

SCHEMA = "volbench_ledger"
TABLE = f"{SCHEMA}.ledger"
_JOIN_S_MAX = 90.0
_STATEMENT_S_MAX = 60.0


@dataclass(frozen=True, kw_only=True)
class LedgerSpec:
    """Size and seed of the transactions, which determine every byte."""

    seed: int
    rows_per_commit: int
    row_bytes: int

    def payload(self, cut: int, writer: int, number: int, row_number: int) -> bytes:
        """Return the bytes of one row."""
        name = f"{self.seed}/{cut}/{writer}/{number}/{row_number}".encode()
        return hashlib.shake_128(name).hexdigest(self.row_bytes // 2 + 1).encode()[: self.row_bytes]


@dataclass(kw_only=True)
class Writer:
    """One client: its begun and acknowledged transactions. The agent keeps them in memory, not on the volume."""

    number: int
    begun: int = 0
    acknowledged: dict[int, float] = field(default_factory=dict)
    """Transaction to when its commit was acknowledged, seconds of CLOCK_MONOTONIC."""
    ended_by: str = ""

    def write(self, ctx: StepContext, spec: LedgerSpec, cut: int, stop: threading.Event) -> None:
        """Commit until `stop` is set or the server is gone."""
        insert = f"INSERT INTO {TABLE} VALUES (%s, %s, %s, %s, %s)"  # noqa: S608 - constants
        try:
            with ctx.server.connect(timeout_s=_STATEMENT_S_MAX) as connection, connection.cursor() as cursor:
                connection.autocommit = False
                while not stop.is_set():
                    self.begun += 1
                    for row_number in range(spec.rows_per_commit):
                        row = (cut, self.number, self.begun, row_number)
                        cursor.execute(insert, (*row, spec.payload(*row)))
                    connection.commit()
                    self.acknowledged[self.begun] = time.monotonic()
        except (VolbenchError, mysql.connector.Error, OSError) as error:
            self.ended_by = str(error)


@dataclass(frozen=True, kw_only=True)
class RecoveryCheck:
    """The state of one cut's transactions after the recovery.

    Args:
        acknowledged: commits that the server acknowledged to a client.
        lost: acknowledged, but without any row.
        unacknowledged: complete without an acknowledgement, which is legal: the answer was on its way.
        torn: with some of their rows only, acknowledged or not; a transaction is all or nothing.
        damaged_rows: rows with other bytes than were written, or that no client wrote.
        lost_s: from the first acknowledgement of a lost commit to the last of any.
        examples: some of what is wrong, as text.
    """

    acknowledged: int
    lost: int
    unacknowledged: int
    torn: int
    damaged_rows: int
    lost_s: float
    examples: tuple[str, ...]


def create(server: ServerHandle, spec: LedgerSpec) -> None:
    """Create an empty ledger; drop one of an earlier step."""
    server.query(f"DROP DATABASE IF EXISTS {SCHEMA}")
    server.query(f"CREATE DATABASE {SCHEMA}")
    server.query(
        f"CREATE TABLE {TABLE} (cut INT NOT NULL, writer INT NOT NULL, number INT NOT NULL, part INT NOT NULL,"
        f" payload VARBINARY({spec.row_bytes}) NOT NULL, PRIMARY KEY (cut, writer, number, part),"
        " KEY payload_begin (payload(8))) ENGINE=InnoDB"
    )


def query_first_row(server: ServerHandle, cut: int) -> None:
    """Read one row by the primary key: the first query after a recovery."""
    server.query(f"SELECT payload FROM {TABLE} WHERE cut = {cut} LIMIT 1")  # noqa: S608 - no text from outside


def drop(server: ServerHandle) -> None:
    """Remove the ledger."""
    server.query(f"DROP DATABASE IF EXISTS {SCHEMA}")


@contextmanager
def writing(ctx: StepContext, spec: LedgerSpec, cut: int, threads: int) -> Iterator[tuple[Writer, ...]]:
    """Yield writers that commit during the block. Raise StepFailed if one does not end."""
    writers = tuple(Writer(number=number) for number in range(threads))
    stop = threading.Event()
    running = [
        threading.Thread(
            target=writer.write, args=(ctx, spec, cut, stop), name=f"writer-{writer.number}", daemon=True
        )
        for writer in writers
    ]
    for thread in running:
        thread.start()
    try:
        yield writers
    finally:
        stop.set()
        until = time.monotonic() + _JOIN_S_MAX
        for thread in running:
            thread.join(max(0.0, until - time.monotonic()))
    if any(thread.is_alive() for thread in running):
        raise StepFailed(
            f"a client still waits for its commit {_JOIN_S_MAX:g} s after the server was killed", where="ledger"
        )


def read_back(server: ServerHandle, spec: LedgerSpec, cut: int, writers: Sequence[Writer]) -> RecoveryCheck:
    """Compare the ledger's rows with the written and acknowledged transactions. Raise StepFailed."""
    rows: dict[tuple[int, int], dict[int, bytes]] = {}
    with server.connect(timeout_s=10 * _STATEMENT_S_MAX) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT writer, number, part, payload FROM {TABLE} WHERE cut = %s", (cut,))  # noqa: S608
        while batch := cursor.fetchmany(10_000):
            for writer, number, row_number, payload in batch:
                rows.setdefault((writer, number), {})[row_number] = bytes(payload)
    return judge(spec, cut, writers, rows)


def judge(
    spec: LedgerSpec, cut: int, writers: Sequence[Writer], rows: Mapping[tuple[int, int], Mapping[int, bytes]]
) -> RecoveryCheck:
    """Return what was lost, torn and damaged. Pure; `rows` is by writer and transaction, then by row number."""
    begun = {(writer.number, number) for writer in writers for number in range(1, writer.begun + 1)}
    acknowledged = {(writer.number, number): at for writer in writers for number, at in writer.acknowledged.items()}
    damaged = [key for key in _damaged(spec, cut, rows) if key[:2] in begun]
    foreign = [(*key, row_number) for key, payloads in rows.items() if key not in begun for row_number in payloads]
    torn = [
        key for key, payloads in rows.items() if key in begun and set(payloads) != set(range(spec.rows_per_commit))
    ]
    lost = [key for key in acknowledged if key not in rows]
    unacknowledged = [key for key in rows if key in begun and key not in acknowledged and key not in set(torn)]
    examples = [
        *(f"lost: transaction {number} of client {writer}" for writer, number in sorted(lost)[:3]),
        *(f"torn: transaction {number} of client {writer}" for writer, number in sorted(torn)[:3]),
        *(
            f"damaged: row {row_number} of {number} of client {writer}"
            for writer, number, row_number in sorted(damaged)[:3]
        ),
        *(
            f"foreign: row {row_number} of {number} of client {writer}"
            for writer, number, row_number in sorted(foreign)[:3]
        ),
    ]
    return RecoveryCheck(
        acknowledged=len(acknowledged),
        lost=len(lost),
        unacknowledged=len(unacknowledged),
        torn=len(torn),
        damaged_rows=len(damaged) + len(foreign),
        lost_s=max(acknowledged.values()) - min(acknowledged[key] for key in lost) if lost else 0.0,
        examples=tuple(examples),
    )


def _damaged(
    spec: LedgerSpec, cut: int, rows: Mapping[tuple[int, int], Mapping[int, bytes]]
) -> Iterator[tuple[int, int, int]]:
    for (writer, number), payloads in rows.items():
        for row_number, payload in payloads.items():
            if payload != spec.payload(cut, writer, number, row_number):
                yield writer, number, row_number


def damaged_tables(server: ServerHandle, tables: Iterable[str]) -> tuple[str, ...]:
    """Return CHECK TABLE's first message about each damaged table."""
    messages = []
    for table in tables:
        with server.connect(timeout_s=3600.0) as connection, connection.cursor() as cursor:
            cursor.execute(f"CHECK TABLE {table}")
            rows: list[Any] = list(cursor.fetchall())
        problems = [str(row[3]) for row in rows if str(row[2]).lower() in {"error", "warning"}]
        messages += [f"{table}: {problems[0]}"] if problems else []
    return tuple(messages)
