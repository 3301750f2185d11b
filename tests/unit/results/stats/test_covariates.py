"""Adjusted comparisons: what other work did is taken out, and equal volumes stay equal."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from simulated_covariates import OtherWork, apart_with_work, decided_with_work, drawn_with_work

from volbench.results.stats.covariates import Adjusted, Bounds, Covaried, adjusted_shift
from volbench.results.stats.means import TWO_TESTS, mean_shift
from volbench.results.stats.sequential import CELLS_MAX

RUNS = 20_000
CPU = "cpu_taken"
DISK, USED = [741.0, 739, 681, 627, 421], [0.01, 0.01, 0.05, 0.07, 0.36]
"""The transactions a second of a real demo's disk, and the share of the CPUs that other work took."""


def covaried(values: Sequence[float], shares: Sequence[float | None], bounds: Sequence[Bounds] = ()) -> Covaried:
    known_names = [{} if share is None else {CPU: share} for share in shares]
    return Covaried(values=values, shares=known_names, bounds=bounds or [None] * len(values))


def adjusted(first: Covaried, second: Covaried) -> Adjusted:
    pairs = [(n, n) for n in range(min(len(first.values), len(second.values)))]
    return adjusted_shift(first, second, pairs, alpha=0.05, factor=TWO_TESTS)


def test_a_demo_on_a_busy_machine_is_told_as_on_a_calm_one() -> None:
    gp3 = [88.0, 89.5, 88.6, 88.4, 87.1]
    result = adjusted(covaried(DISK, USED), covaried(gp3, [0.02, 0.01, 0.06, 0.05, 0.30]))
    assert result.shift is not None
    assert result.shift.ratio == pytest.approx(89 / 740, rel=0.03)
    assert result.shift.high is not None
    assert result.shift.high < 0.14
    (adjustment,) = result.adjustments
    assert (adjustment.low, adjustment.high, adjustment.differ) == (0.01, 0.36, True)
    assert adjustment.slopes[0] == pytest.approx(1.27, abs=0.1)
    plain = mean_shift(DISK, gp3, [], alpha=0.05)
    assert (plain.high or 1) / (plain.low or 1) > 1.5 * result.shift.high / (result.shift.low or 1)


EQUAL = [
    OtherWork(name="in half of the cells", shares="cells"),
    OtherWork(name="in both cells of half of the blocks", shares="blocks"),
    OtherWork(name="beside the second volume", shares="volume"),
    OtherWork(name="beside the second volume, without effect", shares="volume", slopes=(0.0, 0.0)),
    OtherWork(name="all the time", shares="busy"),
    OtherWork(name="in half of the cells, more on one volume", shares="cells", slopes=(1.5, 0.0)),
    OtherWork(name="measured with error", shares="volume", error=0.03),
]


@pytest.mark.parametrize("work", EQUAL, ids=lambda work: work.name)
def test_equal_volumes_are_named_different_in_at_most_five_percent(work: OtherWork) -> None:
    """One look at 5 cells a side, and looks from 3 to 20; three standard errors."""
    logs, shares = drawn_with_work(work, runs=RUNS, seed=3)
    five = (logs[0][:, :5], logs[1][:, :5]), (shares[0][:, :5], shares[1][:, :5])
    limit = 0.05 + 3 * math.sqrt(0.05 * 0.95 / RUNS)
    assert apart_with_work(*five, level=0.05 / TWO_TESTS).mean() <= limit
    assert (decided_with_work(logs, shares) > 0).mean() <= limit


def test_a_difference_of_a_fifth_is_named_beside_other_work() -> None:
    logs, shares = drawn_with_work(EQUAL[0], runs=RUNS, seed=3)
    cells = decided_with_work((logs[0], logs[1] + math.log(0.8)), shares, margin=0.05)
    assert (cells > 0).mean() >= 0.95
    assert 2 * np.where(cells > 0, cells, CELLS_MAX).mean() <= 12


@pytest.mark.parametrize("work", EQUAL[:4], ids=lambda work: work.name)
def test_the_many_runs_are_adjusted_as_the_report_adjusts_one(work: OtherWork) -> None:
    logs, shares = drawn_with_work(work, runs=40, seed=6)
    for cells in (4, 5, 6, 9):
        section = [side[:, :cells] for side in (*logs, *shares)]
        many = apart_with_work((section[0], section[1] - 0.1), (section[2], section[3]), level=0.05 / TWO_TESTS)
        for run in range(40):
            sides = [
                covaried(np.exp(log[run]).tolist(), share[run].tolist())
                for log, share in ((section[0], section[2]), (section[1] - 0.1, section[3]))
            ]
            result = adjusted(*sides)
            if result.shift is not None:
                assert (result.shift.p_value < 0.05) == many[run]
                assert (result.shift.p_value < 0.05) == (
                    not (result.shift.low or 0) <= 1 <= (result.shift.high or 9)
                )


STEADY = [100.0, 101.0, 99.0, 100.5, 100.2]


UNKNOWN = covaried(STEADY, [0.01, None, None, 0.02, 0.01])
FEW = covaried(STEADY[:3], USED[2:])
SLOW = covaried(DISK, USED, [None, None, None, None, (421.0, 430.0)])


@pytest.mark.parametrize(
    ("first", "second", "why_not", "too_few"),
    [
        (covaried(STEADY, [0.01] * 5), covaried(STEADY, [0.02] * 5), "", False),
        (covaried(STEADY, [None] * 5), covaried(STEADY, [None] * 5), "", False),
        (covaried(STEADY, USED), UNKNOWN, "the CPU use of other work is not known in 2 of 10 cells", False),
        (FEW, FEW, "3 cells a volume are too few to tell what other work did", True),
        (covaried(STEADY, [0.0] * 5), covaried(STEADY, [0.3] * 5), "other work differs between the volumes", False),
        (SLOW, covaried(STEADY, [0.01] * 5), "the estimated effect of other work is larger than its bounds", False),
    ],
)
def test_where_nothing_can_be_adjusted_it_says_why(
    first: Covaried, second: Covaried, why_not: str, *, too_few: bool
) -> None:
    result = adjusted(first, second)
    assert (result.shift, result.too_few) == (None, too_few)
    assert result.why_not.startswith(why_not)
    assert bool(result.why_not) == bool(why_not)
