"""The time of a move: in proportion to what was measured, with an interval, and never decided too far out."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from synthetic_run import build_run, two_volumes

from volbench.core.records.cell import StepResult
from volbench.core.records.goals.gate import Decision
from volbench.core.records.metrics import metric
from volbench.core.records.validation.plan import MovePlan
from volbench.validation.forecast.move import RunCells, _prediction, estimates, move_check, pairs_of

GIB = 1 << 30
LOGS = {"log_bin": "ON", "binlog_expire_logs_seconds": "2592000"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunCells:
    """Dumps and restores of five cells on each of two volumes, of 1 GiB of data."""
    directory = build_run(tmp_path_factory.mktemp("run"), two_volumes())
    results = [
        result.model_copy(update={"steps": tuple(map(with_bytes, result.steps))}) for result in directory.results()
    ]
    volume_of = {cell.cell_id: cell.volume for cell in directory.run.cells}
    return RunCells(run_id="r", results=tuple(results), volume_of=volume_of)


def with_bytes(step: StepResult) -> StepResult:
    if step.kind != "dump":
        return step
    metrics = {**step.metrics, "dump_bytes": metric("dump_bytes", 0.8 * GIB)}
    return step.model_copy(update={"details": {"data_bytes": GIB}, "metrics": metrics})


def volumes(run: RunCells) -> list[str]:
    return list(dict.fromkeys(run.volume_of.values()))


def plan(**keys: object) -> MovePlan:
    return MovePlan.model_validate(keys)


def test_a_dump_and_its_restore_are_taken_from_one_cell(run: RunCells) -> None:
    result = pairs_of(run)
    assert {tools for _, tools in result} == {"mysqldump and mysql"}
    assert {len(pairs) for pairs in result.values()} == {5}


def test_twice_the_data_takes_twice_as_long_and_the_parts_add_up(run: RunCells) -> None:
    expected = volumes(run)[1:]
    [item] = estimates([run], expected, GIB, 10.0, plan(copy="100MiB"))
    [two] = estimates([run], expected, 2 * GIB, 10.0, plan(copy="100MiB"))
    assert two.total_s - 10 == pytest.approx(2 * (item.total_s - 10))
    assert item.copy_s is not None
    assert item.total_s == pytest.approx(item.dump_s + item.copy_s + item.restore_s + 10)
    assert item.total_s_low is not None
    assert item.total_s_high is not None
    assert item.total_s_low < item.total_s < item.total_s_high
    assert (
        item.dominated_by
        == max(
            (("the dump", item.dump_s), ("the copy", item.copy_s), ("the restore", item.restore_s)),
            key=lambda x: x[1],
        )[0]
    )


def test_the_interval_is_wider_the_further_the_data_is_from_what_was_measured(run: RunCells) -> None:
    """Repeats of one size cannot tell how time grows; six times the data once took 1.9 times what was predicted."""
    expected = volumes(run)[1:]
    ends = []
    for size in (1, 6):
        [item] = estimates([run], expected, size * GIB, None, plan())
        ends.append([(end or 0.0) / item.total_s for end in (item.total_s_low, item.total_s_high)])
    (low, high), (low_of_six, high_of_six) = ends
    assert 0 < low < 1 < high
    assert (low_of_six, high_of_six) == pytest.approx((low / 6**0.4, high * 6**0.4))


@pytest.mark.parametrize(
    ("keys", "factor", "decision"),
    [
        ({}, 1, "go"),
        ({"window": "100h", "copy": "100MiB"}, 1, "go"),
        ({"window": "100h"}, 1, "undecided"),
        ({"window": "1s", "copy": "100MiB"}, 1, "no-go"),
        ({"window": "1000h", "copy": "100MiB"}, 50, "undecided"),
    ],
)
def test_the_window_is_decided_by_the_interval_and_never_far_beyond_what_was_measured(
    run: RunCells, keys: dict[str, object], factor: int, decision: Decision
) -> None:
    checked = plan(**keys)
    result = estimates([run], volumes(run), factor * GIB, 1.0, checked)
    assert move_check(result, checked, LOGS).decision == decision


def test_what_a_replica_needs_is_told(run: RunCells) -> None:
    result = estimates([run], volumes(run), GIB, None, plan())
    assert not any("binary log" in text for text in move_check(result, plan(), LOGS).details)
    assert any("no binary log" in text for text in move_check(result, plan(), {"log_bin": "OFF"}).details)
    short = {"log_bin": "ON", "binlog_expire_logs_seconds": "1"}
    assert any("too short for a replica" in text for text in move_check(result, plan(), short).details)


def test_without_a_dump_nothing_is_predicted(tmp_path: Path) -> None:
    assert move_check(estimates([], ["a"], GIB, 1.0, plan()), plan(), LOGS).decision == "undecided"
    assert _prediction([1.0]) == (None, None)


def test_the_interval_holds_the_next_as_often_as_it_says() -> None:
    draw = random.Random(2)
    retained = 0
    for _ in range(600):
        low, high = _prediction([draw.lognormvariate(0, 0.2) for _ in range(5)])
        assert low is not None
        assert high is not None
        retained += low <= draw.lognormvariate(0, 0.2) <= high
    assert retained / 600 == pytest.approx(0.95, abs=0.03)
