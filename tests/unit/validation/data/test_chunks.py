"""Chunks of a table: any type of key, no more rows than take a second, and a source that is spared."""

from __future__ import annotations

import pytest

from volbench.errors import StepFailed
from volbench.validation.data.chunks import Pace, chunks_of, divisible_key
from volbench.validation.data.table import Column, ComparedTable
from volbench.validation.data.throttle import LAG_S_MAX, SNAPSHOT_S_MAX, THREADS_RUNNING_MAX, Throttle
from volbench.validation.source.server import SNAPSHOT, Rows


def table(*types: str, ordered_alike: bool = True) -> ComparedTable:
    columns = tuple(
        Column(name=f"k{location}", type=kind, ordered_alike=ordered_alike) for location, kind in enumerate(types)
    )
    return ComparedTable(schema="s", name="t", columns=columns, key=tuple(column.name for column in columns))


class Keys:
    """A server with so many keys left."""

    def __init__(self, *rows: tuple[str, ...]) -> None:
        self.rows, self.asked = list(rows), list[str]()

    def query(self, sql: str) -> Rows:
        self.asked.append(sql)
        return [self.rows.pop(0)] if self.rows else []


def test_a_key_of_one_column() -> None:
    sides = Keys(("5",), ("9",)), Keys(("12",))
    assert [chunk.where for chunk in chunks_of(sides, table("int"), Pace())] == [
        "`k0` <= 5",
        "`k0` > 5 AND `k0` <= 9",
        "`k0` > 9 AND `k0` <= 12",
        "`k0` > 12",
    ]
    assert sides[0].asked[1].endswith("FORCE INDEX (`PRIMARY`) WHERE `k0` > 5 ORDER BY `k0` LIMIT 9999, 1")


def test_a_key_of_several_columns_is_compared_column_by_column() -> None:
    """With the first alone in front, by which a server without row ranges finds the place."""
    sides = Keys(("61", "2026-01-02")), Keys()
    assert [chunk.where for chunk in chunks_of(sides, table("varchar(9)", "date"), Pace())] == [
        "`k0` <= _utf8mb4 X'61' AND (`k0` < _utf8mb4 X'61' OR (`k0` = _utf8mb4 X'61' AND `k1` <= '2026-01-02'))",
        "`k0` >= _utf8mb4 X'61' AND (`k0` > _utf8mb4 X'61' OR (`k0` = _utf8mb4 X'61' AND `k1` > '2026-01-02'))",
    ]


@pytest.mark.parametrize(
    ("types", "ordered_alike", "columns"),
    [
        (("varchar(9)",), False, 0),
        (("int", "varchar(9)", "int"), False, 1),
        (("enum('b','a')",), True, 0),
        (("binary(16)", "bit(3)"), True, 1),
        ((), True, 0),
    ],
)
def test_only_columns_that_both_servers_sort_alike_divide(
    types: tuple[str, ...], ordered_alike: bool, columns: int
) -> None:
    """Otherwise a row would be in one chunk here and in another there."""
    of_types = table(*types, ordered_alike=ordered_alike)
    assert len(divisible_key(of_types)) == columns
    if not columns:
        assert [chunk.where for chunk in chunks_of((Keys(), Keys()), of_types, Pace())] == ["TRUE"]


@pytest.mark.parametrize(
    ("kind", "answer"),
    [("int", "1 OR 1"), ("int", "1e9999"), ("date", "x' OR '"), ("varchar(9)", "zz"), ("blob", "ABC"), ("int", "")],
)
def test_an_answer_that_is_no_key_is_refused(kind: str, answer: str) -> None:
    with pytest.raises(ValueError, match="no key of type"):
        list(chunks_of((Keys((answer,)), Keys()), table(kind), Pace()))


def test_a_server_that_answers_one_key_for_ever_is_left() -> None:
    with pytest.raises(ValueError, match="does not go on"):
        list(chunks_of((Keys(*[("7",)] * 9), Keys()), table("int"), Pace()))


def test_chunks_shrink_at_once_and_grow_by_two() -> None:
    """So that rows ten times as long as those before take no longer than ten seconds."""
    pace = Pace()
    pace.adapt(0.01, rows=10_000)
    assert pace.rows == 20_000
    pace.adapt(8.0, rows=20_000)
    assert pace.rows == 2_500
    for _ in range(20):
        pace.adapt(0.001, rows=pace.rows)
    assert pace.rows == 100_000


class Busy:
    """A source with a load that ends, in a time of its own."""

    def __init__(self, looks: int, *, lag_s: int = 0) -> None:
        self.looks, self.lag_s, self.now_s, self.asked = looks, lag_s, 0.0, list[str]()

    def query(self, sql: str) -> Rows:
        self.asked.append(sql)
        if sql == "SHOW REPLICA STATUS":
            raise StepFailed("a query failed")
        if sql.endswith("STATUS"):
            self.looks -= 1
            return [(*[None] * 32, self.lag_s if self.looks >= 0 else None)]
        if "Threads_running" in sql:
            self.looks -= not self.lag_s
            return [("Threads_running", THREADS_RUNNING_MAX + (self.looks >= 0 and not self.lag_s))]
        return []

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def throttle(self) -> Throttle:
        return Throttle(self, self, clock_s=lambda: self.now_s, sleep=self.sleep)


@pytest.mark.parametrize("lag_s", [0, LAG_S_MAX + 1])
def test_chunks_wait_for_a_busy_source(lag_s: int) -> None:
    source = Busy(looks=3, lag_s=lag_s)
    throttle = source.throttle()
    source.now_s = 2.0
    throttle.wait()
    assert throttle.waited_s == 3.0
    assert source.asked.count("SHOW REPLICA STATUS") == 1, "the statement that the server knows is remembered"


def test_a_source_that_never_rests_is_waited_for_ten_minutes_in_all() -> None:
    source = Busy(looks=10**9)
    throttle = source.throttle()
    for _ in range(5):
        source.now_s += 2.0
        throttle.wait()
    assert throttle.waited_s == 600.0


def test_no_snapshot_is_older_than_two_minutes() -> None:
    source = Busy(looks=0)
    throttle = source.throttle()
    for _ in range(30):
        source.now_s += SNAPSHOT_S_MAX / 10
        throttle.wait()
    assert source.asked.count(SNAPSHOT) == 2 * 3, "of both sides"
