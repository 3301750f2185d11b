"""The levels of the looks: together they err in less than 5 %, on shared noise and without."""

from __future__ import annotations

import math

import numpy as np
import pytest
from simulated_looks import Noise, bursts, decided_at, drawn, normal, outliers, skewed, told_apart

from volbench.results.stats.means import TWO_TESTS, mean_shift
from volbench.results.stats.sequential import (
    CELLS_MAX,
    CELLS_MIN,
    NODES_LATER_LEVEL,
    NODES_LOOK_LEVEL,
    look_level,
)

RUNS = 20_000


@pytest.mark.parametrize(
    ("noise", "spreads", "shared", "trend"),
    [
        (normal, (0.05, 0.05), 0.0, 0.0),
        (normal, (0.05, 0.05), 0.15, 0.0),
        (normal, (0.05, 0.05), 0.0, 0.05 / 3),
        (skewed, (0.05, 0.05), 0.0, 0.0),
        (outliers, (0.05, 0.05), 0.0, 0.0),
        (bursts, (0.05, 0.05), 0.0, 0.0),
        (normal, (0.05, 0.15), 0.0, 0.0),
        (skewed, (0.05, 0.15), 0.0, 0.0),
        (skewed, (0.01, 0.30), 0.0, 0.0),
    ],
)
def test_all_looks_together_err_in_less_than_five_percent(
    noise: Noise, spreads: tuple[float, float], shared: float, trend: float
) -> None:
    """Equal volumes: the standard error of the share is 0.15 %, and the limit is three of them above 5 %."""
    told_apart = decided_at(*drawn(noise, spreads, shared=shared, trend=trend, runs=RUNS, seed=5)) > 0
    assert told_apart.mean() <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / RUNS)


@pytest.mark.parametrize("cells", [3, 5, 10])
@pytest.mark.parametrize(
    ("noise", "spreads", "shared"),
    [
        (normal, (0.05, 0.05), 0.0),
        (normal, (0.05, 0.05), 0.15),
        (skewed, (0.05, 0.15), 0.0),
        (skewed, (0.01, 0.30), 0.0),
        (outliers, (0.05, 0.05), 0.0),
        (bursts, (0.05, 0.05), 0.0),
    ],
)
def test_one_comparison_errs_in_less_than_five_percent(
    noise: Noise, spreads: tuple[float, float], shared: float, cells: int
) -> None:
    """A run with a fixed number of cells."""
    x, y = (side[:, :cells] for side in drawn(noise, spreads, shared=shared, runs=RUNS, seed=5))
    assert told_apart(x, y, level=0.05 / TWO_TESTS).mean() <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / RUNS)


def test_noise_that_both_cells_of_a_block_share_hides_nothing() -> None:
    """A volume 20 % slower, 5 % noise of cells, 15 % of the machine: ranks alone name it in 41 %."""
    x, y = drawn(normal, (0.05, 0.05), shared=0.15, runs=RUNS, seed=5)
    cells = decided_at(x, y + math.log(0.8), margin=0.05)
    assert (cells > 0).mean() >= 0.95
    assert 2 * cells[cells > 0].mean() <= 11


def test_a_difference_of_five_percent_is_named_with_few_cells() -> None:
    """Where 2 % matter and cells scatter by 3 %."""
    x, y = drawn(normal, (0.03, 0.03), runs=RUNS, seed=5)
    cells = decided_at(x, y + math.log(0.95), margin=0.02)
    assert (cells > 0).mean() >= 0.95
    assert 2 * np.where(cells > 0, cells, CELLS_MAX).mean() <= 21


def test_the_many_runs_are_judged_as_the_report_judges_one() -> None:
    x, y = drawn(normal, (0.05, 0.05), shared=0.15, runs=25, seed=6)
    for run in range(25):
        shifts = [
            mean_shift(
                np.exp(x[run, :n]).tolist(),
                np.exp(y[run, :n]).tolist(),
                [(location, location) for location in range(n)],
                alpha=look_level(n),
                factor=1.0,
            )
            for n in range(CELLS_MIN, CELLS_MAX + 1)
        ]
        apart = [shift.p_value < shift.alpha for shift in shifts]
        assert any(apart) == (decided_at(x[run : run + 1], y[run : run + 1])[0] > 0)
        assert apart == [not (shift.low or 0) <= 1 <= (shift.high or math.inf) for shift in shifts]


def test_ratio_and_interval_are_of_the_test_that_counts() -> None:
    """A cell without a neighbour met the machine at its slowest: the pairs say faster, the two groups slower."""
    machine = [1.0, 0.5, 1.4, 0.8, 1.2]
    baseline = [100 * speed for speed in machine]
    candidate = [100 * speed * 1.1 * (1 + 0.001 * n) for n, speed in enumerate(machine)] + [5.0]
    shift = mean_shift(baseline, candidate, [(n, n) for n in range(5)], alpha=look_level(5), factor=1.0)
    assert shift.p_value < shift.alpha
    assert shift.low is not None
    assert shift.high is not None
    assert 1 < shift.low <= shift.ratio <= shift.high
    assert shift.ratio == pytest.approx(1.1, rel=0.01)


def test_nodes_err_in_less_than_five_percent_whenever_the_second_one_joins() -> None:
    """By Bonferroni: looks at one node before that, then looks within nodes."""
    for joined in range(CELLS_MIN, NODES_JOIN_MAX + 1):
        before = sum(look_level(n) for n in range(CELLS_MIN, joined))
        after = sum(look_level(n, nodes=2) for n in range(joined, CELLS_MAX + 1))
        assert before + after < 0.05, joined
    assert look_level(8, nodes=2) == NODES_LOOK_LEVEL
    assert look_level(9, nodes=2) == NODES_LATER_LEVEL


NODES_JOIN_MAX = 10
"""Blocks are shared out over the nodes in turn, so that a second one has cells long before."""


def test_other_numbers_of_cells_have_a_level_too() -> None:
    assert look_level(2) == look_level(CELLS_MIN)
    assert look_level(30) == look_level(CELLS_MAX)
