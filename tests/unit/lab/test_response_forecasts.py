"""The lab of forecasts: goals are drawn once, awaits lie on the line of both states, a late forecast is refused."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from response import forecasts
from response.forecasts import CONTROL, Goal, Latencies, await_ms, goal_latencies, goals, pairs, source_latencies
from response.pairs_table import score, table
from volbench.results.response.samples import CellSamples

AT = "2026-11-27T10:00:00.000Z"


def pair(tps: float = 100.0, measured: float = 110.0, **more: object) -> dict[str, Any]:
    forecast = {
        "source_us": {"read_us": 400, "write_us": 300},
        "goal_us": {"read_us": 800, "write_us": 900},
        "tps": tps,
        "tps_interval": [0.95 * tps, 1.05 * tps],
        "p50_ms": 9.0,
        "p50_interval": [8.0, 10.0],
        "is_beyond": False,
    }
    return {
        "goal": "1-1",
        "load": "read-only",
        "forecast": {**forecast, **more},
        "measured": {"tps": measured, "p50_ms": 9.5, "loadavg": 1.5, "valid": True},
    }


def test_sixty_pairs_are_fifteen_goals_of_five_sources() -> None:
    every = list(goals(1, 60))
    controls = [goal for goal in every if goal.number == CONTROL]
    assert [goal_latencies(goal) for goal in controls] == [source_latencies(number) for number in range(1, 6)]
    drawn = [goal for goal in every if goal not in controls]
    assert len(drawn) == len(set(drawn)) == 15
    assert {goal.source for goal in drawn} == {1, 2, 3, 4, 5}
    assert len({goal_latencies(goal) for goal in drawn}) == 15
    assert goal_latencies(drawn[0]) == goal_latencies(Goal(source=1, number=1))


@pytest.mark.parametrize(("term", "expected_ms"), [("read", 0.1 + 0.8), ("log_sync", 0.2 + 1.5)])
def test_an_await_elsewhere_is_on_the_line_of_both_states(term: str, expected_ms: float) -> None:
    """Kernel and emulator add 0.1 ms to a read and 0.2 ms to a sync, whatever the volume is set to."""
    signal = np.asarray([0.0, 1.0, 0.0, 1.0, 0.5])
    waits = CellSamples(
        cell="1",
        volume="v",
        threads=4,
        interval_s=1.0,
        latency_ms=np.ones(5),
        finished=np.ones(5),
        awaits_ms={
            "read": np.asarray([0.5, 1.7, 0.5, 1.7, np.nan]),
            "log_sync": np.asarray([0.5, 1.4, 0.5, 1.4, 9.0]),
        },
        counted={},
        seen_signals={"read": signal, "log_sync": signal},
    )
    here, there = Latencies(read_us=400, write_us=300), Latencies(read_us=800, write_us=1500)
    assert await_ms(waits, term, here, there) == pytest.approx(expected_ms)


def test_a_forecast_that_was_written_after_the_run_began_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = SimpleNamespace(started_at=AT, cells=[])
    monkeypatch.setattr("volbench.open", lambda _: SimpleNamespace(report=report))
    monkeypatch.setattr(forecasts, "views_of", lambda _: {})
    goal, measured = Goal(source=1, number=1), tmp_path / "goal-1-1/run"
    measured.mkdir(parents=True)
    (measured.parent / "load.json").write_text('{"loadavg": 1.0}')
    lines = [{"goal": "1-1", "load": "read-only", "at": "2026-11-27T09:59:59.000Z"}]
    (tmp_path / "forecasts.jsonl").write_text(json.dumps(lines[0]) + "\n")
    assert [line["measured"] for line in pairs(tmp_path, goal, measured)] == [None]
    (tmp_path / "forecasts.jsonl").write_text(json.dumps(lines[0] | {"at": "2026-11-27T10:00:00.000Z"}) + "\n")
    with pytest.raises(ValueError, match="began before its forecast"):
        list(pairs(tmp_path, goal, measured))


def test_the_table_counts_what_is_near_and_what_has_no_forecast() -> None:
    far = pair(measured=80.0)
    none = {**pair(), "forecast": {**pair()["forecast"], "reason": "no slope of read", "tps": None, "p50_ms": None}}
    control = pair(measured=50.0, goal_us={"read_us": 400, "write_us": 300})
    text = "\n".join(table([pair(), far, none, control]))
    assert "+25 %" in text
    assert (
        "all pairs, transactions/s: 1 of 2 within 15% (median 17%, largest 25%); the interval held 0; 1 without"
        in text
    )
    assert "controls, set as their source was, transactions/s: 0 of 1 within" in text
    assert "none: no slope of read" in text


def test_a_pair_is_held_by_its_interval() -> None:
    near = score(pair(measured=104.0), "tps")
    assert near is not None
    assert near.holds
    assert score({**pair(), "measured": None}, "tps") is None
