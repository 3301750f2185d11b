"""A slope that rests on volumes alone has an interval that allows for what volumes may differ in."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from simulated_volumes import Differences, coverage

from volbench.results.response.estimate import estimate
from volbench.results.response.model import NoResponse
from volbench.results.response.samples import CellSamples

CLAIMED = 0.93
"""Of a hundred runs, where 95 are claimed: a fair count of 95 % falls below it in one of ten."""


def read_interval(cells: Sequence[CellSamples]) -> tuple[float, float] | None:
    response = estimate(cells)
    slope = None if isinstance(response, NoResponse) else response.slope("read")
    return None if slope is None or slope.is_held else (slope.low, slope.high)


SCENARIOS = {
    "equal": (Differences(), 2, 3),
    "cpu": (Differences(cpu_shortage=1.5), 2, 3),
    "cpu, nobody counted": (Differences(cpu_shortage=0.5, is_cpu_counted=False), 2, 3),
    "noise in await": (Differences(await_noise=0.1), 2, 4),
    "few cells": (Differences(), 2, 2),
    "few cells, cpu": (Differences(cpu_shortage=1.5), 2, 2),
    "unmeasured": (Differences(unmeasured=0.15), 2, 3),
    "four volumes": (Differences(unmeasured=0.3), 4, 2),
    "eight volumes": (Differences(unmeasured=0.5, cpu_shortage=1.5), 8, 3),
    "syncs move along": (Differences(log_waits=True), 2, 3),
    "all": (Differences(log_waits=True, cpu_shortage=1.5, await_noise=0.1, unmeasured=0.15), 2, 3),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_interval_holds_the_number_of_waits(name):
    differences, volumes, cells = SCENARIOS[name]
    holds, _ = coverage(read_interval, differences, seeds=range(200), volumes=volumes, cells=cells)
    assert holds >= CLAIMED


def test_volumes_that_lie_on_one_line_narrow_what_they_may_differ_in():
    """Of two volumes nothing tells how far their intercepts differ, of eight their distance from the line does."""
    widths = [
        coverage(read_interval, Differences(), seeds=range(30), volumes=volumes, cells=2)[1] for volumes in (2, 8)
    ]
    assert widths[0] < 0.5
    assert widths[1] < 0.1
