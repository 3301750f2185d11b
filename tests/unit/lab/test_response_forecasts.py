"""The lab of forecasts: goals are drawn once, awaits lie on the line of both states, a late forecast is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from response import forecasts
from response.forecasts import (
    CONTROL,
    Goal,
    Latencies,
    awaits_ms,
    goal_latencies,
    goals,
    pairs,
    pairs_again,
    source_latencies,
)
from response.pairs_table import score, table
from volbench.core.records.report import ResponseRow
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


def response_row(term: str, *, slope: float, await_ms: float, latency_ms: float) -> ResponseRow:
    return ResponseRow(
        step="read-only",
        term=term,
        title=term,
        slope=slope,
        ci=(slope - 0.5, slope + 0.5),
        await_ms=await_ms,
        moved_ms=(0.5, 2.0),
        latency_ms=latency_ms,
        intercept_ms=latency_ms - slope * await_ms,
        method="signal",
        intervals=60,
        cells=1,
        variance_share=0.9,
    )


def test_sixty_pairs_are_fifteen_goals_of_five_sources() -> None:
    every = list(goals(1, 60))
    controls = [goal for goal in every if goal.number == CONTROL]
    assert [goal_latencies(goal) for goal in controls] == [source_latencies(number) for number in range(1, 6)]
    drawn = [goal for goal in every if goal not in controls]
    assert len(drawn) == len(set(drawn)) == 15
    assert {goal.source for goal in drawn} == {1, 2, 3, 4, 5}
    assert len({goal_latencies(goal) for goal in drawn}) == 15
    assert goal_latencies(drawn[0]) == goal_latencies(Goal(source=1, number=1))


def samples(read_ms: float, sync_ms: float) -> CellSamples:
    """Return waits of a source whose volume is slow in every other interval."""
    signal = np.asarray([0.0, 1.0, 0.0, 1.0, 0.5])
    return CellSamples(
        cell="1",
        volume="v",
        threads=4,
        interval_s=1.0,
        latency_ms=np.ones(5),
        finished=np.ones(5),
        awaits_ms={
            "read": np.asarray([read_ms, 9.0, read_ms, 9.0, np.nan]),
            "log_sync": np.asarray([sync_ms, 9.0, sync_ms, 9.0, 9.0]),
        },
        counted={},
        seen_signals={"read": signal, "log_sync": signal},
    )


def test_awaits_elsewhere_are_those_of_what_if_and_from_what_the_source_is_set_to() -> None:
    """The kernel adds 0.1 ms to a read; a sync takes 2.5 times a write and a flush, here as there."""
    here, there = Latencies(read_us=400, write_us=300), Latencies(read_us=800, write_us=1500)
    mean = 1.0453  # of a lognormal time whose 99th percentile is twice its median
    waits = samples(0.4 * mean + 0.1, 2.5 * 0.6 * mean)
    awaits = awaits_ms(waits, ["read", "log_sync"], here, there)
    assert awaits["read"] == pytest.approx(0.8 * mean + 0.1, rel=0.01)
    assert awaits["log_sync"] == pytest.approx(2.5 * 3.0 * mean, rel=0.01)


def test_pairs_are_forecast_again_with_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = dataclasses.replace(samples(0.5, 1.5), awaits_ms={"read": samples(0.5, 1.5).awaits_ms["read"]})
    row = response_row("read", slope=10.0, await_ms=0.5, latency_ms=8.0)
    monkeypatch.setattr(forecasts, "complete_run", lambda out: out)
    view = SimpleNamespace(waits=waits)
    monkeypatch.setattr(forecasts, "explained", lambda _: (SimpleNamespace(responses=[row]), {"read-only": view}))
    line = pair()
    line["measured"]["awaits_ms"] = {"read": 2.5}
    (again,) = [item for item in pairs_again(tmp_path, [line]) if "tps" in item["forecast"]]
    assert again["forecast"]["awaits_ms"]["read"] == pytest.approx(0.8 * 1.0453 + 0.5 - 0.4 * 1.0453, rel=0.01)
    (again,) = [item for item in pairs_again(tmp_path, [line], with_measured=True) if "tps" in item["forecast"]]
    assert again["forecast"]["tps"] == pytest.approx(4000 / 28)
    assert again["measured"] == line["measured"]


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


def test_halves_of_the_sources_are_scored_apart_and_known_goals_are_told() -> None:
    others = [{**pair(measured=80.0), "goal": f"{number}-1"} for number in (2, 3)]
    text = "\n".join(table([pair(), *others], is_known=True))
    assert "sources 1 to 1, transactions/s: 1 of 1" in text
    assert "sources 2 to 3, transactions/s: 0 of 2" in text
    assert "made after their goals were measured" in text
    assert "made after" not in "\n".join(table([pair()]))


def test_a_pair_is_held_by_its_interval() -> None:
    near = score(pair(measured=104.0), "tps")
    assert near is not None
    assert near.holds
    assert score({**pair(), "measured": None}, "tps") is None
