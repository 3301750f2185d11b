"""The ledger of a durability test: transactions whose every byte can be told again, and which were acknowledged."""

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
from volbench.workload.interface import ServerHandle, StepContext

SCHEMA = "volbench_ledger"
TABLE = f"{SCHEMA}.ledger"
_JOIN_S_MAX = 90.0
_STATEMENT_S_MAX = 60.0


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a transaction looks like; with the seed it decides every byte."""

    seed: int
    parts: int
    row_bytes: int

    def payload(self, cut: int, writer: int, number: int, part: int) -> bytes:
        """The bytes of one row."""
        name = f"{self.seed}/{cut}/{writer}/{number}/{part}".encode()
        return hashlib.shake_128(name).hexdigest(self.row_bytes // 2 + 1).encode()[: self.row_bytes]


@dataclass(kw_only=True)
class Writer:
    """One client: what it has begun, and which commits it was told of. Kept in the agent, never on the volume."""

    number: int
    begun: int = 0
    acknowledged: dict[int, float] = field(default_factory=dict)
    """Transaction to when its commit was acknowledged, seconds of CLOCK_MONOTONIC."""
    ended_by: str = ""

    def write(self, ctx: StepContext, shape: Shape, cut: int, stop: threading.Event) -> None:
        """Commit until told to stop, or until the server is gone."""
        insert = f"INSERT INTO {TABLE} VALUES (%s, %s, %s, %s, %s)"  # noqa: S608 - constants
        try:
            with ctx.server.connect(timeout_s=_STATEMENT_S_MAX) as connection, connection.cursor() as cursor:
                connection.autocommit = False
                while not stop.is_set():
                    self.begun += 1
                    for part in range(shape.parts):
                        row = (cut, self.number, self.begun, part)
                        cursor.execute(insert, (*row, shape.payload(*row)))
                    connection.commit()
                    self.acknowledged[self.begun] = time.monotonic()
        except (VolbenchError, mysql.connector.Error, OSError) as error:
            self.ended_by = str(error)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What is there of one cut's transactions after the recovery.

    Args:
        acknowledged: commits that clients were told of.
        lost: of these, not there at all.
        unacknowledged: complete, though nobody was told: legal, the answer was on its way.
        torn: there in part, acknowledged or not; a transaction is all or nothing.
        damaged_rows: rows with other bytes than were written, or that nobody wrote.
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


def create(server: ServerHandle, shape: Shape) -> None:
    """An empty ledger; one that an earlier step has left is dropped."""
    server.query(f"DROP DATABASE IF EXISTS {SCHEMA}")
    server.query(f"CREATE DATABASE {SCHEMA}")
    server.query(
        f"CREATE TABLE {TABLE} (cut INT NOT NULL, writer INT NOT NULL, number INT NOT NULL, part INT NOT NULL,"
        f" payload VARBINARY({shape.row_bytes}) NOT NULL, PRIMARY KEY (cut, writer, number, part),"
        " KEY payload_begin (payload(8))) ENGINE=InnoDB"
    )


def look(server: ServerHandle, cut: int) -> None:
    """One row by the primary key: the first query after a recovery."""
    server.query(f"SELECT payload FROM {TABLE} WHERE cut = {cut} LIMIT 1")  # noqa: S608 - no text from outside


def drop(server: ServerHandle) -> None:
    """Remove the ledger."""
    server.query(f"DROP DATABASE IF EXISTS {SCHEMA}")


@contextmanager
def writing(ctx: StepContext, shape: Shape, cut: int, threads: int) -> Iterator[tuple[Writer, ...]]:
    """Writers that commit during the block. Raises StepFailed when one does not end."""
    writers = tuple(Writer(number=number) for number in range(threads))
    stop = threading.Event()
    running = [
        threading.Thread(target=one.write, args=(ctx, shape, cut, stop), name=f"writer-{one.number}", daemon=True)
        for one in writers
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


def read_back(server: ServerHandle, shape: Shape, cut: int, writers: Sequence[Writer]) -> Kept:
    """Compare what is in the ledger with what was written and acknowledged. Raises StepFailed."""
    rows: dict[tuple[int, int], dict[int, bytes]] = {}
    with server.connect(timeout_s=10 * _STATEMENT_S_MAX) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT writer, number, part, payload FROM {TABLE} WHERE cut = %s", (cut,))  # noqa: S608
        while batch := cursor.fetchmany(10_000):
            for writer, number, part, payload in batch:
                rows.setdefault((writer, number), {})[part] = bytes(payload)
    return judge(shape, cut, writers, rows)


def judge(
    shape: Shape, cut: int, writers: Sequence[Writer], rows: Mapping[tuple[int, int], Mapping[int, bytes]]
) -> Kept:
    """What was lost, torn and damaged. Pure; `rows` is by writer and transaction, then by part."""
    begun = {(one.number, number) for one in writers for number in range(1, one.begun + 1)}
    told = {(one.number, number): at for one in writers for number, at in one.acknowledged.items()}
    damaged = [key for key in _damaged(shape, cut, rows) if key[:2] in begun]
    foreign = [(*key, part) for key, parts in rows.items() if key not in begun for part in parts]
    torn = [key for key, parts in rows.items() if key in begun and set(parts) != set(range(shape.parts))]
    lost = [key for key in told if key not in rows]
    unacknowledged = [key for key in rows if key in begun and key not in told and key not in set(torn)]
    examples = [
        *(f"lost: transaction {number} of client {writer}" for writer, number in sorted(lost)[:3]),
        *(f"torn: transaction {number} of client {writer}" for writer, number in sorted(torn)[:3]),
        *(f"damaged: row {part} of {number} of client {writer}" for writer, number, part in sorted(damaged)[:3]),
        *(f"foreign: row {part} of {number} of client {writer}" for writer, number, part in sorted(foreign)[:3]),
    ]
    return Kept(
        acknowledged=len(told),
        lost=len(lost),
        unacknowledged=len(unacknowledged),
        torn=len(torn),
        damaged_rows=len(damaged) + len(foreign),
        lost_s=max(told.values()) - min(told[key] for key in lost) if lost else 0.0,
        examples=tuple(examples),
    )


def _damaged(
    shape: Shape, cut: int, rows: Mapping[tuple[int, int], Mapping[int, bytes]]
) -> Iterator[tuple[int, int, int]]:
    for (writer, number), parts in rows.items():
        for part, payload in parts.items():
            if payload != shape.payload(cut, writer, number, part):
                yield writer, number, part


def damaged_tables(server: ServerHandle, tables: Iterable[str]) -> tuple[str, ...]:
    """What CHECK TABLE says of tables that are not well: pages, indexes and their counts."""
    said = []
    for table in tables:
        with server.connect(timeout_s=3600.0) as connection, connection.cursor() as cursor:
            cursor.execute(f"CHECK TABLE {table}")
            rows: list[Any] = list(cursor.fetchall())
        wrong = [str(row[3]) for row in rows if str(row[2]).lower() in {"error", "warning"}]
        said += [f"{table}: {wrong[0]}"] if wrong else []
    return tuple(said)
