"""A round trip that waits for a CPU is no distance: literal cases on both sides, and a server under a quota."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.check.distance import distance_objections
from volbench.results.explain.findings import explain_case
from volbench.results.explain.wording import row
from volbench.results.stats.grid import Grid
from volbench.results.store.series import SeriesKey

SECONDS = 20
Figures = dict[tuple[str, str, str], float]
EVERYTHING = np.ones(SECONDS, dtype=np.bool_)
DELAY = ("tasks", "run_delay_s_per_s", "cell")
FAR: Figures = {
    ("client", "tps", ""): 50.0,
    ("performance_schema", "statements_per_s", ""): 1000.0,
    ("performance_schema", "statement_s_per_s", ""): 6.0,
    ("round_trip", "round_trip_ms_min", ""): 4.0,
    ("round_trip", "round_trip_ms", ""): 4.0,
    ("round_trip", "round_trip_ms_max", ""): 5.0,
    ("round_trip", "round_trips_per_s", ""): 10.0,
    ("cpu", "user_ratio", ""): 0.3,
    ("cpu", "system_ratio", ""): 0.1,
}
"""Ten clients, of which four are on the way: 1,000 round trips a second of 4 ms."""


def case_of(figures: Figures, **facts: Any) -> Case:
    columns = {
        SeriesKey(source=source, metric=metric, entity=entity): np.full(SECONDS, value)
        for (source, metric, entity), value in {**FAR, **figures}.items()
    }
    grid = Grid(t_s=np.arange(1.0, SECONDS + 1), width_s=1.0, columns=columns)
    return Case(name="load", grid=grid, cell_grid=grid, **{"threads": 10, "cpus": 2, **facts})


def far(trip_ms: float) -> Cause:
    evidence = (row("round_trip_ms", trip_ms, "ms", ""),)
    return Cause(
        cause="network.latency", window_s=(0.0, 20.0), share=0.4, checks=(True,), evidence=evidence, advice=""
    )


@pytest.mark.parametrize(
    ("figures", "trip_ms", "objects"),
    [
        ({DELAY: 1.9}, 4.0, False),
        ({DELAY: 2.1}, 4.0, True),
        ({DELAY: 2.1}, 4.3, False),
        ({DELAY: 9.0}, 4.0, True),
        ({}, 4.0, False),
        ({("cpu", "user_ratio", ""): 0.85}, 4.0, False),  # recorded: 19.3 ms on full CPUs, as even as a distance
        ({("cpu", "user_ratio", ""): 0.85, DELAY: 0.5}, 4.0, False),  # counted, and short
        ({("cgroup_cpu", "throttled_ratio", "server"): 0.54}, 4.0, True),
        ({("cgroup_cpu", "throttled_ratio", "server"): 0.46}, 4.0, False),
    ],
)
def test_half_of_the_shortest_round_trip_may_be_waiting_for_a_cpu(
    figures: Figures, trip_ms: float, objects: bool
) -> None:
    """1,000 statements a second wait for a CPU as many milliseconds each as tasks wait seconds in a second."""
    result = [*distance_objections(case_of(figures), far(trip_ms), EVERYTHING)]
    assert [item.law for item in result] == ["sufficiency"] * objects
    assert not any(item.refutes for item in result)


def test_without_a_round_trip_or_a_statement_nothing_is_said() -> None:
    assert [*distance_objections(case_of({DELAY: 9.0}), replace(far(4.0), evidence=()), EVERYTHING)] == []
    none: Figures = {DELAY: 9.0, ("performance_schema", "statements_per_s", ""): 0.0}
    assert [*distance_objections(case_of(none), far(4.0), EVERYTHING)] == []


@pytest.mark.parametrize(("delay", "sure"), [(0.5, True), (8.0, False)])
def test_a_server_that_a_quota_stops_is_not_surely_far_away(delay: float, sure: bool) -> None:
    """On loopback: all empty statements of a second wait until the next period, 4 ms at least."""
    (named,) = (item for item in explain_case(case_of({DELAY: delay})).findings if item.cause == "network.latency")
    assert (named.confidence > 0.7) is sure
    assert bool(named.objections) is not sure
