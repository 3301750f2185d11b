"""The search for a capacity: ladders until one brackets it, a fine one with repeats then, and a limit on all."""

from __future__ import annotations

import pytest

from volbench.core.records.goals.capacity import CapacityRow
from volbench.core.records.steps.oltp import OltpStep
from volbench.core.suite.capacity import capacity_suite
from volbench.core.suite.load import check_suite
from volbench.errors import Undecided, UsageError
from volbench.measure.session.capacity_search import search

SUITE = """schema: 2
name: shop
engine: {config: {innodb_buffer_pool_size: 64M}}
dataset: {tables: 2, rows: 1000}
steps:
  - {kind: idle, duration: 1s}
  - {kind: oltp, name: reads, test: oltp_read_only, threads: [1, 8]}
  - {kind: oltp, name: both, threads: 100, duration: 20s, concurrent: [{kind: dump, to: nowhere}]}
repeats: 5
volumes: {a: "path:/mnt/a"}
"""


class Volume:
    """Holds rates up to `true` transactions a second."""

    def __init__(self, true: float) -> None:
        self.true = true
        self.asked: list[tuple[tuple[int, ...], int]] = []

    def __call__(self, rates: tuple[int, ...], cells: int) -> list[CapacityRow]:
        self.asked.append((rates, cells))
        retained, broke = [r for r in rates if r <= self.true], [r for r in rates if r > self.true]
        return [
            CapacityRow(
                volume="a",
                load="x",
                run_id="r",
                cells=cells,
                sustained_per_s=max(retained, default=None),
                low_per_s=max(retained, default=0),
                high_per_s=min(broke, default=None),
                confidence=None,
                queries_per_transaction=20,
            )
        ]


@pytest.mark.parametrize("true", [3, 49, 50, 400, 1599, 1601, 30_000])
def test_any_capacity_is_bracketed_within_a_quarter(true: int) -> None:
    volume = Volume(true)
    [row] = search(volume, 50, 6)
    assert row.sustained_per_s is not None
    assert row.high_per_s is not None
    assert row.sustained_per_s <= true < row.high_per_s
    assert row.high_per_s / row.sustained_per_s < 1.25 or row.high_per_s - row.sustained_per_s == 1
    assert [cells for _, cells in volume.asked] == [1] * (len(volume.asked) - 1) + [6]


@pytest.mark.parametrize("true", [0, 10**9])
def test_a_search_that_finds_no_end_is_given_up(true: int) -> None:
    volume = Volume(true)
    with pytest.raises(Undecided, match="brackets"):
        search(volume, 50, 6)
    assert len(volume.asked) <= 4


def test_the_generated_suite_is_the_load_at_rising_rates_alone() -> None:
    text = capacity_suite(
        SUITE, name="shop.yaml", step="both", rates=[10, 20], repeats=6, settings=["dataset.rows=99"]
    )
    suite = check_suite(text, name="made")
    loads = [step for step in suite.steps if isinstance(step, OltpStep)]
    assert [(load.name, load.rate, load.threads, load.concurrent) for load in loads] == [
        ("rate-10", 10, (100,), ()),
        ("rate-20", 20, (100,), ()),
    ]
    assert (suite.dataset.rows, suite.repeats, suite.volumes) == (99, 6, {"a": "path:/mnt/a"})
    assert suite.engine.config["innodb_buffer_pool_size"] == "64M"


def test_without_a_name_it_is_the_first_load_and_an_unknown_one_is_told() -> None:
    first = check_suite(capacity_suite(SUITE, name="s", step="", rates=[10], repeats=1), name="made").steps[0]
    assert isinstance(first, OltpStep)
    assert (first.test, first.threads) == ("oltp_read_only", (64,))
    with pytest.raises(UsageError, match="the suite has no oltp step 'x'") as raised:
        capacity_suite(SUITE, name="s", step="x", rates=[10], repeats=1)
    assert raised.value.evidence == "it has: reads, both"
