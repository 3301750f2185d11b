"""Chunks read on several sessions: rows and sums of each on both servers, in parts where a chunk takes too long.

One thread finds where chunks end and hands each to a free pair of sessions, so that no more chunks wait than there
are sessions. A session has no snapshot: each statement sees one of its own, and none gets old.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TypeVar

import mysql.connector
from mysql.connector import errorcode

from volbench.errors import StepFailed, VolbenchError
from volbench.machine.engine.answers import reads_answers, whole_number
from volbench.machine.engine.connection import Account
from volbench.validation.catalog.inventory import is_mariadb
from volbench.validation.data.chunks import ROWS_MIN, STATEMENT_S_MAX, Chunk, Pace, chunks_of
from volbench.validation.data.row_sql import chunk_query
from volbench.validation.data.table import ComparedTable
from volbench.validation.source.server import ReadOnlyServer, Rows, SqlReader, read_only

BOUNDS = (
    f"SET SESSION max_execution_time = {STATEMENT_S_MAX * 1000:.0f}",
    f"SET SESSION max_statement_time = {STATEMENT_S_MAX:.0f}",
)
"""MySQL's and MariaDB's; a server without the variable has no such limit."""
_TIMED_OUT = (errorcode.ER_QUERY_TIMEOUT, 1969)
"""MySQL's and MariaDB's number of a statement that the limit ended."""
_FEWER = 10
"""Times as few rows has each part of a chunk that took too long."""
Pair = tuple[SqlReader, SqlReader]
"""A session on the source and one on the candidate."""
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Number of rows and sum of a range of keys on both servers."""

    where: str
    source: tuple[int, int]
    candidate: tuple[int, int]


@contextmanager
def chunk_sessions(
    source: Account, candidate: Account, count: int
) -> Iterator[tuple[tuple[ReadOnlyServer, ReadOnlyServer], ...]]:
    """Open so many sessions on each server, whose statements are ended after STATEMENT_S_MAX."""
    with ExitStack() as stack:
        pairs = []
        for _ in range(count):
            of_source, of_candidate = (
                stack.enter_context(read_only(account, snapshot=False)) for account in (source, candidate)
            )
            for session in (of_source, of_candidate):
                with suppress(StepFailed):
                    session.query(BOUNDS[is_mariadb(session)])
            pairs.append((of_source, of_candidate))
        yield tuple(pairs)


class ChunkReaders:
    """Reads chunks on pairs of sessions, each in a thread; on one pair that the caller uses too, at once."""

    def __init__(self, own: Pair, pairs: Sequence[Pair]) -> None:
        self._own, self._count = own, len(pairs)
        self._free = SimpleQueue[Pair]()
        for pair in pairs:
            self._free.put(pair)
        self._threads: ThreadPoolExecutor | None = None

    def __enter__(self) -> ChunkReaders:
        if self._count:
            self._threads = ThreadPoolExecutor(self._count, thread_name_prefix="chunk")
        return self

    def __exit__(self, *_: object) -> None:
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)

    def submit(self, read: Callable[[Pair], _Answer], *, throttle: Callable[[], None]) -> Future[_Answer]:
        """Read on the next free pair, after the throttle; returns when it has begun, not when it has ended."""
        if self._threads is None:
            throttle()
            return _done(read, self._own)
        pair = self._free.get()
        try:
            throttle()
        except BaseException:
            self._free.put(pair)
            raise
        return self._threads.submit(self._read, read, pair)

    def _read(self, read: Callable[[Pair], _Answer], pair: Pair) -> _Answer:
        try:
            return read(pair)
        finally:
            self._free.put(pair)


def on_both(source: SqlReader, candidate: SqlReader, sql: str) -> tuple[Rows, Rows]:
    """Return the answers of both servers, which work at the same time. Raises StepFailed when either has failed."""
    with ThreadPoolExecutor(1, thread_name_prefix="candidate") as pool:
        candidate_rows = pool.submit(candidate.query, sql)
        return source.query(sql), candidate_rows.result()


@reads_answers("rows")
def sums_of(pair: Pair, table: ComparedTable, chunk: Chunk, pace: Pace) -> list[Sums] | None:
    """Return the sums of a chunk, in parts where it takes too long as a whole; None where its parts do, too.

    The pace learns how long the chunk took.
    """
    begun_s = time.monotonic()
    try:
        source, candidate = (_sums(rows) for rows in on_both(*pair, chunk_query(table, chunk.where)))
    except StepFailed as error:
        if not _took_too_long(error):
            raise
        return _sums_of_chunks(pair, table, chunk)
    finally:
        pace.adapt(time.monotonic() - begun_s, rows=chunk.rows)
    return [Sums(where=chunk.where, source=source, candidate=candidate)]


def _sums_of_chunks(pair: Pair, table: ComparedTable, chunk: Chunk) -> list[Sums] | None:
    if not chunk.is_divisible or chunk.rows <= ROWS_MIN:
        return None
    sums: list[Sums] = []
    pace = Pace(rows=max(ROWS_MIN, chunk.rows // _FEWER))
    for smaller_chunk in chunks_of(pair, table, pace, within=chunk):
        of_chunk = sums_of(pair, table, smaller_chunk, pace)
        if of_chunk is None:
            return None
        sums += of_chunk
    return sums


def _took_too_long(error: StepFailed) -> bool:
    cause = error.__cause__
    return isinstance(cause, mysql.connector.Error) and cause.errno in _TIMED_OUT


def _sums(answer: Rows) -> tuple[int, int]:
    """Return the number of rows and the sum of a chunk."""
    ((rows, row_sum, *_),) = answer
    return whole_number(rows), whole_number(row_sum)


def _done(read: Callable[[Pair], _Answer], pair: Pair) -> Future[_Answer]:
    future = Future[_Answer]()
    try:
        future.set_result(read(pair))
    except VolbenchError as error:
        future.set_exception(error)
    return future
