"""The highest rate that keeps an objective: bracketed by each cell, and never claimed beyond what was measured."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest

from volbench.core.records.cell import COUNTED_AS_SLOWEST
from volbench.core.records.goals.capacity import CapacityRow, Objective
from volbench.core.records.metrics import metric
from volbench.core.records.report import CellRow, FindingRow, Report, Summary, Timing, VolumeRow
from volbench.results.compare.capacity import capacities, keeps, ladder

NOON = "2026-03-02T12:00:00Z"
OBJECTIVE = Objective.model_validate({"limit": "20ms"})


def cell(
    repeat: int, rate: float, p95_ms: float, *, valid: bool = True, achieved: float = 1.0, errors: float = 0.0
) -> CellRow:
    values = {
        "latency_ms_p95": p95_ms,
        "rate_achieved_ratio": achieved,
        "tps": rate,
        "qps": rate * 20,
        "errors_per_s": errors,
    }
    return CellRow(
        cell_id=f"{repeat:03d}",
        volume="gp3",
        step=f"rate-{rate:g}",
        kind="oltp",
        block=0,
        repeat=repeat,
        valid=valid,
        parameters={"test": "oltp_read_write", "threads": 64, "rate": rate},
        metrics={name: metric(name, value) for name, value in values.items()},
    )


def report(cells: Sequence[CellRow], findings: Sequence[FindingRow] = (), *, run_id: str = "r") -> Report:
    return Report(
        run_id=run_id,
        suite="s",
        started_at=NOON,
        finished_at=NOON,
        complete=True,
        volbench_version="0",
        summary=Summary(verdict="mixed", sentence=""),
        server=None,
        host={},
        timing=Timing(wall_s=1, measured_s=1),
        comparisons=(),
        cells=tuple(cells),
        volumes=(VolumeRow(name="gp3", kind="path", spec="path:/x"),),
        findings=tuple(findings),
    )


def result(cells: Sequence[CellRow]) -> CapacityRow:
    [row] = capacities([report(cells)], OBJECTIVE)
    return row


def cell_of(repeat: int, p95_ms: Mapping[float, float]) -> list[CellRow]:
    return [cell(repeat, rate, value) for rate, value in p95_ms.items()]


def test_each_cell_brackets_and_the_interval_spans_them() -> None:
    cells = [
        *cell_of(1, {100: 5, 200: 9, 300: 40}),
        *cell_of(2, {100: 5, 200: 30, 300: 50}),
        *cell_of(3, {100: 5, 200: 12, 300: 21}),
        *cell_of(4, {100: 6, 200: 12, 300: 21}),
        *cell_of(5, {100: 6, 200: 12, 300: 21}),
        *cell_of(6, {100: 6, 200: 12, 300: 21}),
    ]
    row = result(cells)
    assert (row.low_per_s, row.sustained_per_s, row.high_per_s, row.cells) == (100, 200, 300, 6)
    assert row.confidence == pytest.approx(1 - 2**-5)
    assert row.queries_per_transaction == 20


def test_a_rate_that_held_above_one_that_broke_counts_for_nothing() -> None:
    row = result(cell_of(1, {100: 5, 200: 30, 300: 5}))
    assert (row.low_per_s, row.high_per_s, row.confidence) == (100, 200, None)


def test_what_never_broke_has_no_upper_end_and_what_never_held_no_lower() -> None:
    assert (result(cell_of(1, {100: 5, 200: 6})).high_per_s, result(cell_of(1, {100: 5})).confidence) == (
        None,
        None,
    )
    row = result(cell_of(1, {100: 50}))
    assert (row.sustained_per_s, row.low_per_s, row.high_per_s) == (None, 0.0, 100)


def test_an_invalid_row_neither_holds_nor_breaks() -> None:
    rows = [cell(1, 100, 5), cell(1, 200, 90, valid=False), cell(1, 300, 6), cell(1, 400, 90)]
    assert (result(rows).low_per_s, result(rows).high_per_s) == (300, 400)


def test_errors_and_a_rate_that_was_not_achieved_break_it() -> None:
    assert keeps(cell(1, 100, 5), OBJECTIVE) is True
    assert keeps(cell(1, 100, 5, errors=1), OBJECTIVE) is False
    assert keeps(cell(1, 100, 5, achieved=0.9), OBJECTIVE) is False
    assert keeps(cell(1, 100, 5, valid=False), OBJECTIVE) is None
    row = cell(1, 100, 5)
    unknown = row.model_copy(update={"metrics": {n: m for n, m in row.metrics.items() if n != "latency_ms_p95"}})
    assert keeps(unknown, OBJECTIVE) is None
    assert keeps(unknown.model_copy(update={"notes": (f"x: {COUNTED_AS_SLOWEST}",)}), OBJECTIVE) is False


def test_of_two_runs_the_narrower_bracket_counts() -> None:
    coarse, fine = cell_of(1, {100: 5, 400: 90}), [*cell_of(1, {200: 5, 240: 90}), *cell_of(2, {200: 5, 240: 90})]
    [row] = capacities([report(coarse, run_id="coarse"), report(fine, run_id="fine")], OBJECTIVE)
    assert (row.run_id, row.low_per_s, row.high_per_s) == ("fine", 200, 240)


def test_what_limits_it_is_what_was_named_where_it_broke() -> None:
    rows = cell_of(1, {100: 5, 200: 30})
    named = [
        FindingRow(cause="storage.iops_limit", volume="gp3", step="rate-200", cell_ids=("001",), confidence=0.9),
        FindingRow(cause="cpu.server_saturated", volume="gp3", step="rate-100", cell_ids=("001",), confidence=1.0),
    ]
    [row] = capacities([report(rows, named)], OBJECTIVE)
    assert row.limited_by == ("storage.iops_limit, confidence 90 %",)


def test_the_interval_holds_the_true_capacity_as_often_as_it_says() -> None:
    """Cells whose true capacity varies by 10 %, a ladder of 5 % steps: the median is inside at 97 %."""
    draw = random.Random(5)
    retained = 0
    for _ in range(300):
        cells = []
        for repeat in range(6):
            true = 1000 * draw.lognormvariate(0, 0.1)
            rates = [500 * 1.05**step for step in range(30)]
            cells += cell_of(repeat, {rate: 10 if rate <= true else 30 for rate in rates})
        row = result(cells)
        retained += row.low_per_s <= 1000 and row.high_per_s is not None and row.high_per_s >= 1000
    assert retained / 300 >= 0.95


def test_a_ladder_has_equal_ratios_and_whole_rates() -> None:
    assert ladder(50, 1600, 6) == (50, 100, 200, 400, 800, 1600)
    assert ladder(1, 2, 6) == (1, 2)
