"""Chunks on several sessions: they are read at one time, and one that takes too long is read in parts."""

from __future__ import annotations

import re
import threading

import mysql.connector
import pytest
from mysql.connector import errorcode

from volbench.errors import StepFailed
from volbench.validation.data import chunk_sums
from volbench.validation.data.checksums import compare_tables
from volbench.validation.data.chunk_sums import ChunkReaders
from volbench.validation.data.table import Column, ComparedTable
from volbench.validation.source.server import Rows

MEETING_S = 60.0


def table(name: str = "t", *, key: tuple[str, ...] = ("id",)) -> ComparedTable:
    return ComparedTable(schema="s", name=name, columns=(Column(name="id", type="int", nullable=False),), key=key)


class Numbers:
    """A server whose table has the keys 1 to `count`; a chunk of more than `rows_max` rows takes too long."""

    def __init__(self, count: int, *, rows_max: int = 10**9, changed: int = 0) -> None:
        self.count, self.rows_max, self.changed = count, rows_max, changed
        self.largest = 0

    def query(self, sql: str) -> Rows:
        low, high = self.range_of(sql)
        if " FORCE INDEX " in sql:
            at = low + int(re.findall(r"LIMIT (\d+), 1", sql)[0]) + 1
            return [(at,)] if at <= high else []
        if "data_length" in sql:
            return [(1,)]
        if "ORDER BY" in sql:
            return [(key, key == self.changed) for key in range(low + 1, high + 1)]
        if high - low > self.rows_max:
            too_long = mysql.connector.DatabaseError("too long", errno=errorcode.ER_QUERY_TIMEOUT)
            raise StepFailed("a query failed") from too_long
        self.largest = max(self.largest, high - low)
        return [(high - low, sum(range(low + 1, high + 1)) + (low < self.changed <= high))]

    def range_of(self, sql: str) -> tuple[int, int]:
        low = re.findall(r"`id` > (\d+)", sql)
        high = re.findall(r"`id` <= (\d+)", sql)
        return int(low[0]) if low else 0, min(int(high[0]) if high else self.count, self.count)


class Meeting(Numbers):
    """Sums are answered when so many sessions have been asked."""

    def __init__(self, count: int, barrier: threading.Barrier) -> None:
        super().__init__(count)
        self.barrier, self.threads = barrier, set[int]()

    def query(self, sql: str) -> Rows:
        self.threads.add(threading.get_ident())
        self.barrier.wait(MEETING_S)
        return super().query(sql)


def test_chunks_of_one_table_are_read_on_all_sessions_at_once() -> None:
    """One after the other would wait for ever."""
    barrier = threading.Barrier(4)
    pairs = [(Meeting(19_999, barrier), Meeting(19_999, barrier)) for _ in range(2)]
    [found] = compare_tables(Numbers(19_999), Numbers(19_999), [table()], lambda *_: None, pairs=pairs)
    assert (found.equal, found.source_rows, found.candidate_rows, found.chunks) == (True, 19_999, 19_999, 2)


def test_small_tables_are_read_on_all_sessions_at_once() -> None:
    barrier = threading.Barrier(4)
    pairs = [(Meeting(9, barrier), Meeting(9, barrier)) for _ in range(2)]
    tables = [table(f"t{number}") for number in range(200)]
    compared = list(compare_tables(Numbers(9), Numbers(9), tables, lambda *_: None, pairs=pairs))
    assert [one.table for one in compared] == [one.label for one in tables]
    assert all(one.equal and one.source_rows == 9 for one in compared)


def test_a_chunk_that_takes_too_long_is_read_in_parts() -> None:
    """Each row once, in statements that end in time; the row that differs is named."""
    pair = Numbers(25_000, rows_max=700), Numbers(25_000, rows_max=700, changed=12_345)
    own = Numbers(25_000), Numbers(25_000, changed=12_345)
    [found] = compare_tables(*own, [table()], lambda *_: None, pairs=[pair])
    assert (found.equal, found.source_rows, found.candidate_rows) == (False, 25_000, 25_000)
    assert found.texts == ("row 12345 has other values",)
    assert 0 < pair[0].largest <= 700


@pytest.mark.parametrize(("of_key", "rows_max"), [(("id",), 50), ((), 700)])
def test_what_takes_too_long_in_parts_too_has_no_verdict(of_key: tuple[str, ...], rows_max: int) -> None:
    """Neither a chunk of the fewest rows nor a table without a key is divided further: undecided, not an hour."""
    pair = Numbers(25_000, rows_max=rows_max), Numbers(25_000, rows_max=rows_max)
    [found] = compare_tables(*pair, [table(key=of_key)], lambda *_: None, pairs=[pair])
    assert found.equal is None
    assert "within 10 s" in found.texts[0]


def test_a_failure_ends_the_comparison_and_the_threads() -> None:
    class Failing(Numbers):
        def query(self, sql: str) -> Rows:
            raise StepFailed(f"gone: {sql}")

    pairs = [(Failing(9), Numbers(9)) for _ in range(3)]
    tables = [table(f"t{number}") for number in range(20)]
    with pytest.raises(StepFailed, match="gone"):
        list(compare_tables(Numbers(9), Numbers(9), tables, lambda *_: None, pairs=pairs))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("chunk")]


def test_no_more_chunks_wait_than_there_are_sessions() -> None:
    """The third is submitted when one of two has ended, so that the throttle decides about each when it begins."""
    begun, go_on = threading.Semaphore(0), threading.Event()
    submitted: list[int] = []

    def read(_pair: chunk_sums.Pair) -> None:
        begun.release()
        assert go_on.wait(MEETING_S)

    pairs = [(Numbers(1), Numbers(1)) for _ in range(2)]
    with ChunkReaders(pairs[0], pairs) as readers:

        def submit() -> None:
            for number in range(3):
                readers.submit(read, throttle=lambda: None)
                submitted.append(number)

        leader = threading.Thread(target=submit)
        leader.start()
        for _ in range(2):
            assert begun.acquire(timeout=MEETING_S)
        assert not begun.acquire(blocking=False)
        assert 2 not in submitted
        go_on.set()
        leader.join(MEETING_S)
    assert submitted == [0, 1, 2]
