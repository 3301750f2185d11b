"""Whether a volume holds production's peak: by the sure end of the interval, and never by a single cell."""

from __future__ import annotations

from pathlib import Path

import pytest
from slow_log_writer import Shop, slow_log

from volbench.core.records.goals.capacity import CapacityPlan, CapacityRow
from volbench.core.records.goals.gate import Decision
from volbench.core.suite.validation import check_validation_plan
from volbench.validation.forecast.capacity import BusiestSecond, busiest_second, capacity_check

PLAN = CapacityPlan.model_validate({"limit": "20ms", "headroom": 1.5})


def row(low: float = 100, high: float | None = 200, cells: int = 6, each: float | None = 20) -> CapacityRow:
    return CapacityRow(
        volume="gp3",
        load="test=oltp_read_write",
        run_id="r",
        cells=cells,
        sustained_per_s=low,
        low_per_s=low,
        high_per_s=high,
        confidence=0.97,
        queries_per_transaction=each,
        limited_by=("storage.iops_limit, confidence 90%",),
    )


@pytest.mark.parametrize(
    ("peak", "value", "decision"),
    [
        (1300, row(), "go"),
        (1500, row(), "undecided"),
        (2700, row(), "no-go"),
        (2700, row(high=None), "undecided"),
        (100, row(cells=4), "undecided"),
        (100, row(each=None), "undecided"),
        (None, row(), "undecided"),
    ],
)
def test_the_peak_with_its_headroom_is_decided_by_the_ends(
    peak: int | None, value: CapacityRow, decision: Decision
) -> None:
    assert capacity_check([value], PLAN, BusiestSecond(statements=peak), confidence=0.95).decision == decision


def test_headroom_and_what_limits_it_are_told() -> None:
    details = capacity_check([row()], PLAN, BusiestSecond(statements=1000), confidence=0.95).details
    assert "gp3: at least 1.33 times the required rate" in details
    assert "gp3: limited by storage.iops_limit, confidence 90%" in details


def test_the_worst_load_decides_and_none_is_undecided() -> None:
    assert (
        capacity_check([row(), row(low=1, high=2)], PLAN, BusiestSecond(statements=1000), confidence=0.95).decision
        == "no-go"
    )
    assert capacity_check([], PLAN, BusiestSecond(statements=1000), confidence=0.95).decision == "undecided"


def test_the_peak_is_the_busiest_second_of_the_schemas(tmp_path: Path) -> None:
    log = tmp_path / "slow.log"
    log.write_text("".join(slow_log(Shop(statements=2000, per_s=100, flavor="mariadb"))))
    plan = check_validation_plan(
        f"schema: 2\nsource: {{host: a}}\ncandidate: {{host: b}}\nqueries: {{slow_log: {log}}}\n", name="p"
    ).plan
    result = busiest_second(plan, ["shop"])
    assert 200 <= (result.statements or 0) <= 320  # every tenth second has three times the others' 83
    assert result.notes == (f"the log: {log}, 2000 entries, 2000 of them statements",)
    none = busiest_second(plan, ["other"])
    assert none.statements is None
    assert "2,000 statements of other schemas not counted" in none.notes
    assert (
        "2,000 statements of other schemas not counted"
        in capacity_check([row()], PLAN, none, confidence=0.95).details
    )
