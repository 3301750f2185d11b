"""The lab of decisions: draws do not change, a late decision is refused, and outcomes are counted as they were."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from decisions import __main__ as lab
from decisions.draw import IOPS_MAX, OBJECTIVES, TESTS, draw
from decisions.outcomes import DISTURBED, table
from volbench.core.suite.load import load_suite

AT = "2026-11-28T04:00:00.000Z"


def decision(objective_ms: float, *, answer: str = "cheapest", number: int = 1) -> dict[str, Any]:
    """A choice of 800 operations a second over 400."""
    return {
        "number": number,
        "settings": ["steps.load.test=oltp_read_only", "steps.load.threads=4"],
        "source": "ebs-io2?size=100GiB&iops=500",
        "source_p95_ms": 50.0,
        "objective_ms": objective_ms,
        "at": AT,
        "answer": answer,
        "chosen": {"volume": "ebs-io2?size=100GiB&iops=800", "keeps": 0.97},
        "cheaper": {"volume": "ebs-io2?size=100GiB&iops=400", "keeps": 0.1},
    }


def outcome(fast_ms: float, slow_ms: float, *, valid: bool = True, number: int = 1) -> dict[str, Any]:
    figures = {"ebs-io2?size=100GiB&iops=800": fast_ms, "ebs-io2?size=100GiB&iops=400": slow_ms}
    rows = {spec: {"p95_ms": p95_ms, "valid": valid} for spec, p95_ms in figures.items()}
    return {"number": number, "loadavg": 1.2, "measured": {**rows, "control": {"p95_ms": 55.0, "valid": True}}}


def test_a_number_draws_the_same_load_volumes_and_objectives_each_time() -> None:
    every = [draw(number) for number in range(1, 11)]
    assert every == [draw(number) for number in range(1, 11)]
    assert {drawn.settings[0].rpartition("=")[2] for drawn in every} == set(TESTS)
    assert {len(drawn.times) for drawn in every} == {OBJECTIVES}
    for drawn in every:
        months = [volume.cost.month for volume in drawn.offered]
        iops = [int(volume.options["iops"]) for volume in drawn.offered]
        assert months == sorted(months)
        assert iops == sorted(iops)
        assert max(iops) <= IOPS_MAX
    assert len({drawn.source for drawn in every}) > 3


def test_the_drawn_settings_are_of_the_suite() -> None:
    for number in range(1, 6):
        suite, *_ = load_suite(lab.SUITE, settings=draw(number).settings)
        assert suite.steps[0].name == lab.STEP


def test_each_volume_of_several_decisions_is_measured_once() -> None:
    rows = [decision(40.0), decision(60.0), {**decision(1.0), "answer": "refused", "chosen": None, "cheaper": None}]
    assert list(lab.volumes_of(rows)) == ["io2-400", "io2-800"]
    assert lab.volumes_of([{"answer": "refused"}]) == {}


def test_a_decision_that_was_written_after_the_run_began_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = SimpleNamespace(
        volume="io2-800", step="load", valid=True, metrics={lab.P95: SimpleNamespace(value=30.0)}
    )
    report = SimpleNamespace(started_at="2026-11-28T04:00:01.000Z", cells=[cell])
    monkeypatch.setattr("volbench.open", lambda _: SimpleNamespace(report=report))
    measured = tmp_path / "goal-1/run"
    measured.mkdir(parents=True)
    (measured.parent / "load.json").write_text('{"loadavg": 1.0}')
    line = lab.outcome(1, [decision(40.0)], measured)
    assert line["measured"]["ebs-io2?size=100GiB&iops=800"] == {"p95_ms": 30.0, "valid": True}
    assert line["measured"]["ebs-io2?size=100GiB&iops=400"] == {"p95_ms": None, "valid": False}
    report.started_at = AT
    with pytest.raises(ValueError, match="began before its decision"):
        lab.outcome(1, [decision(40.0)], measured)


def test_the_table_counts_what_was_kept_and_what_was_broken() -> None:
    rows = [decision(40.0), decision(40.0, answer="sufficient"), decision(40.0, number=2)]
    rows.append({**decision(1.0), "answer": "refused", "chosen": None, "cheaper": None})
    text = "\n".join(table(rows, [outcome(30.0, 70.0), outcome(45.0, 39.0, valid=False, number=2)]))
    assert "all: 4 decisions, 1 refused. The recommended volume kept the objective in 2 of 3 (67%)." in text
    assert "broke it in 1 of 2 (50%); of all cheaper ones it did in 2 of 3 (67%), and 2.7 were expected to." in text
    assert "valid cells alone: 4 decisions, 1 refused. The recommended volume kept the objective in 2 of 2" in text
    assert "p95 1.10 to 1.10 times that of its first run (median 1.10, 2 loads)" in text
    assert "| 2: oltp_read_only, 4 | io2, 500 | 50 | 40 | io2, 800 | 45 | **no**, not valid |" in text
    assert "| 1: oltp_read_only, 4 | io2, 500 | 50 | 1 | refused |" in text


def test_a_load_that_was_not_measured_or_whose_source_was_disturbed_is_in_no_count() -> None:
    disturbed = {**decision(40.0, number=3), "answer": DISTURBED, "chosen": None, "cheaper": None}
    outcomes = [outcome(30.0, 70.0), {"number": 3, "loadavg": None, "measured": {}}]
    text = "\n".join(table([decision(40.0), decision(40.0, number=2), disturbed], outcomes))
    assert "1 load had no valid cell" in text
    assert "all: 1 decisions" in text


def test_nothing_is_decided_by_a_disturbed_source(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = {lab.P95: SimpleNamespace(value=30.0)}
    cell = SimpleNamespace(volume=lab.CONTROL, step=lab.STEP, valid=False, metrics=metrics)
    monkeypatch.setattr("volbench.open", lambda _: SimpleNamespace(report=SimpleNamespace(cells=[cell])))
    (line,) = lab.decided(draw(1), Path("source"))
    assert line["answer"] == DISTURBED
    assert lab.volumes_of([line]) == {}
