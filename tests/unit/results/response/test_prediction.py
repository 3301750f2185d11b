"""What other waiting times would give, from slopes alone: against loads whose answer is known."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from simulated_response import Load, cell

from volbench.core.records.report import ResponseRow
from volbench.errors import UsageError
from volbench.results.report.rows.response import response_tables
from volbench.results.response.prediction import predicted, predicted_by, prediction_text
from volbench.results.response.samples import CellSamples

LOAD = Load(waits={"read": 20.0, "log_sync": 2.0}, cpu_ms=3.0)


def modulated(seed: int, load: Load = LOAD) -> CellSamples:
    """Return a minute of slots of 4 s, of every four one in each state, as a modulation draws them."""
    rng = np.random.default_rng(seed)
    states = np.concatenate([rng.permutation(4) for _ in range(4)])[:15].repeat(40)
    slow_reads, slow_syncs = (states % 2).astype(float), (states // 2).astype(float)
    awaits = {"read": 0.5 + 1.5 * slow_reads, "log_sync": 1.0 + 2.0 * slow_syncs}
    return cell(load, awaits, rng=rng, signals={"read": slow_reads, "log_sync": slow_syncs})


def rows_of(samples: CellSamples) -> tuple[ResponseRow, ...]:
    view = SimpleNamespace(waits=samples, waits_by_query={}, valid=True)
    explained: Any = SimpleNamespace(views={("v", "load"): {"01-v": view}}, responses={})
    return response_tables(explained, ["v"]).rows


@pytest.mark.parametrize(("read_ms", "sync_ms"), [(0.25, 1.0), (1.0, 0.5), (4.0, 6.0)])
def test_waiting_times_that_were_never_measured_are_predicted(read_ms: float, sync_ms: float) -> None:
    truth_ms = 3.0 + 20.0 * read_ms + 2.0 * sync_ms
    retained = []
    for seed in range(20):
        rows = rows_of(modulated(seed))
        (item,) = predicted(rows, {"read": read_ms, "log_sync": sync_ms})
        assert item.latency_ms == pytest.approx(truth_ms, rel=0.15)
        assert item.tps_factor == pytest.approx(item.measured_ms / item.latency_ms)
        retained.append(item.interval_ms[0] <= truth_ms <= item.interval_ms[1])
    assert sum(retained) >= 17


def test_far_from_what_was_measured_the_wait_for_cpus_falls_no_further() -> None:
    """From reads of up to 1.2 ms a load was forecast at 29.3 ms with reads of 4 ms, and took 33.0."""
    samples = modulated(2, Load(waits={"read": 20.0, "log_sync": 2.0}, cpu_ms=10.0, cpu_wait_ms=16.0))
    rows = rows_of(samples)
    (item,) = predicted(rows, {"read": 12.0, "log_sync": 1.0})
    assert item.latency_ms == pytest.approx(10.0 + 20.0 * 12.0 + 2.0, rel=0.05)
    (near,) = predicted(rows, {"read": 1.2, "log_sync": 1.0})
    (blind,) = predicted(
        [row.model_copy(update={"less_cpu_wait": None}) for row in rows], {"read": 12.0, "log_sync": 1.0}
    )
    assert blind.latency_ms < 0.95 * item.latency_ms
    (same,) = predicted(
        [row.model_copy(update={"less_cpu_wait": None}) for row in rows], {"read": 1.2, "log_sync": 1.0}
    )
    assert near.latency_ms == pytest.approx(same.latency_ms)


def test_waits_that_are_not_named_stay_as_they_are() -> None:
    rows = rows_of(modulated(1))
    read = next(row for row in rows if row.term == "read")
    (same,) = predicted(rows, {"read": read.await_ms})
    assert same.latency_ms == pytest.approx(read.latency_ms)


def test_no_run_is_predicted_better_than_runs_repeat() -> None:
    """Of 60 runs on volumes that nobody had measured, intervals of the slopes alone held 17 rates."""
    rows = rows_of(modulated(1))
    read = next(row for row in rows if row.term == "read")
    (same,) = predicted(rows, {"read": read.await_ms})
    low, high = (end / same.latency_ms for end in same.interval_ms)
    assert 0.80 < low < 0.81
    assert 1.19 < high < 1.20
    assert same.tps_interval == (pytest.approx(1 / high), pytest.approx(1 / low))


def test_a_waiting_time_far_from_all_that_were_measured_is_marked() -> None:
    (far,) = predicted(rows_of(modulated(1)), {"read": 20.0})
    assert far.is_beyond
    text = prediction_text(far)
    assert re.search(
        r"far from any waiting time that was measured: read 0\.\d+ to \d\.\d+ ms; of forecasts written ", text
    )
    (near,) = predicted(rows_of(modulated(1)), {"read": 1.0})
    assert "far from" not in prediction_text(near)


@pytest.mark.parametrize("awaits", [{}, {"read": -1.0}, {"read": float("nan")}, {"read": float("inf")}])
def test_a_waiting_time_that_makes_no_sense_is_refused(awaits: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="0 ms or more"):
        predicted_by(rows_of(modulated(1)), awaits)


def test_a_term_without_a_slope_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(UsageError) as refused:
        predicted_by(rows_of(modulated(1)), {"fsync": 1.0})
    assert "log_sync, read" in refused.value.evidence
