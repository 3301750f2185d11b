"""Checksums of tables: both servers work at once, columns of many tables are found soon, a row is read once."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass, field

import pytest

from volbench.errors import StepFailed
from volbench.validation.catalog.objects import Inventory
from volbench.validation.checks import checksums_check
from volbench.validation.data.checksums import compare_tables, tables_of
from volbench.validation.data.chunk_sums import on_both
from volbench.validation.data.row_sql import chunk_query, row_text
from volbench.validation.source.server import Rows

MEETING_S = 60.0


def column(kind: str, *, nullable: str = "NO", charset: str = "") -> dict[str, str]:
    return {"type": kind, "nullable": nullable, "charset": charset}


def inventory(tables: int) -> Inventory:
    names = [f"s.t{number}" for number in range(tables)]
    return {
        "table": {name: {} for name in names},
        "column": {f"{name}.c{location}": column("int") for name in names for location in range(10)},
        "index": {
            f"{name}.PRIMARY.{location}": {"column": f"c{location}"} for name in names for location in (2, 1)
        },
    }


@dataclass
class Meeting:
    """A server that answers a query when the other one has been asked the same."""

    barrier: threading.Barrier
    row: tuple[object, ...]
    asked: list[str] = field(default_factory=list)

    def query(self, sql: str) -> Rows:
        if " FORCE INDEX " in sql:
            return []  # the source's last key is the candidate's
        self.asked.append(sql)
        self.barrier.wait(MEETING_S)
        return [self.row]


def test_both_servers_are_asked_at_once() -> None:
    """One after the other would wait for the other for ever."""
    barrier = threading.Barrier(2)
    source, candidate = Meeting(barrier, (0, 9, 10)), Meeting(barrier, (0, 9, 10))
    [table] = tables_of(inventory(1), inventory(1))
    [result] = compare_tables(source, candidate, [table], lambda *_: None)
    assert result.equal
    assert source.asked == candidate.asked
    assert len(source.asked) == 1, "one chunk"


def test_an_error_of_either_server_is_raised_when_both_have_answered() -> None:
    class Failing(Meeting):
        def query(self, sql: str) -> Rows:
            super().query(sql)
            raise StepFailed(f"{self.row[0]} failed")

    barrier = threading.Barrier(2)
    for source, candidate, name in (
        (Failing(barrier, ("source",)), Meeting(barrier, ()), "source"),
        (Meeting(barrier, ()), Failing(barrier, ("candidate",)), "candidate"),
    ):
        with pytest.raises(StepFailed, match=f"{name} failed"):
            on_both(source, candidate, "SELECT 1")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("candidate")]


def test_ten_times_as_many_tables_take_ten_times_as_long() -> None:
    """And not a hundred times: 1,000 tables took 14 s."""

    def cpu_s(tables: int) -> float:
        side, used_s = inventory(tables), []
        for _ in range(3):
            begun_s = time.process_time()
            assert len(tables_of(side, side)) == tables
            used_s.append(time.process_time() - begun_s)
        return min(used_s)

    assert cpu_s(1000) < 40 * cpu_s(100)


def test_columns_and_key_of_a_table_are_its_own_also_where_names_have_dots() -> None:
    side: Inventory = {
        "table": {"s.a": {}, "s.a.b": {}},
        "column": {"s.a.id": column("int"), "s.a.b.id": column("int"), "s.a.b.x.y": column("text")},
        "index": {"s.a.b.PRIMARY.1": {"column": "id"}},
    }
    first, second = tables_of(side, side)
    assert [column.name for column in first.columns] == ["id"]
    assert [column.name for column in second.columns] == ["id", "x.y"]
    assert (first.key, second.key) == ((), ("id",))


def test_strings_are_converted_only_where_they_are_stored_in_different_character_sets() -> None:
    def text(own: dict[str, str], foreign: dict[str, str]) -> str:
        sides: list[Inventory] = [
            {"table": {"s.t": {}}, "column": {"s.t.c": item}, "index": {}} for item in (own, foreign)
        ]
        [table] = tables_of(*sides)
        return row_text(table)

    latin, unicode = column("varchar(9)", charset="latin1"), column("varchar(9)", charset="utf8mb4")
    assert text(latin, latin) == "CONCAT_WS('#', CAST(`c` AS BINARY))"
    assert (
        text(unicode, unicode)
        == text(latin, unicode)
        == text(unicode, latin)
        == "CONCAT_WS('#', CONVERT(`c` USING utf8mb4))"
    )
    assert text(column("enum('a')", charset="latin1"), column("enum('a')", charset="latin1")) == (
        "CONCAT_WS('#', CONVERT(`c` USING utf8mb4))"
    )
    assert text(column("blob"), column("blob")) == "CONCAT_WS('#', CAST(`c` AS BINARY))"
    nulls = column("int", nullable="YES")
    for result, entry in ((nulls, nulls), (nulls, column("int")), (column("int"), nulls)):
        assert text(result, entry) == "CONCAT_WS('#', `c`, CONCAT(ISNULL(`c`)))"


def test_a_row_is_hashed_once() -> None:
    """The text of a row costs more than its hash."""
    [table] = tables_of(inventory(1), inventory(1))
    assert chunk_query(table, "TRUE").count("CONCAT_WS") == 1


class Rows434:
    """A server with 10,000 rows in two chunks; on the candidate 434 of them have other values."""

    def __init__(self, changed: int) -> None:
        self.changed = changed

    def query(self, sql: str) -> Rows:
        if sql.startswith("SHOW "):
            return []  # the throttle looks where a busy machine takes a second for the chunks
        low = max([int(key) for key in re.findall(r"`c0` > (-?\d+)", sql)], default=0)
        high = min([int(key) for key in re.findall(r"`c0` <= (-?\d+)", sql)], default=200_000)
        keys = [key for key in range(low + 1, high + 1) if key % 20 == 0]
        if offset := re.search(r"LIMIT (\d+), 1$", sql):
            return [(str(key),) for key in keys[int(offset[1]) :][:1]]
        rows = [(key, "b" if key // 20 > 10_000 - self.changed else "a") for key in keys]
        if "COUNT(*)" in sql:
            return [(len(rows), sum(value == "b" for _, value in rows))]
        return list(rows)


def test_all_rows_that_differ_are_counted() -> None:
    """In every chunk that differs, not only in the first; and the check counts rows as rows."""
    side = inventory(1)
    side["index"] = {"s.t0.PRIMARY.1": {"column": "c0"}}
    check = checksums_check(Rows434(0), Rows434(434), side, side, lambda *_: None)
    assert check.text == "434 rows differ in 1 table; 10,000 rows of 1 table were compared"
    assert check.details[-1] == "s.t0: and 429 more rows"
    assert checksums_check(Rows434(0), Rows434(0), side, side, lambda *_: None).decision == "go"
