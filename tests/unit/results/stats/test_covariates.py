"""Adjusted comparisons: what other work did is taken out, and equal volumes stay equal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from simulated_covariates import OtherWork, apart_with_work, decided_with_work, drawn_with_work

from volbench.results.stats.covariates import Adjusted, Bounds, Covaried, adjusted_shift
from volbench.results.stats.means import TWO_TESTS, mean_shift
from volbench.results.stats.sequential import CELLS_MAX
from volbench.results.stats.statistics import Better

RUNS = 20_000
CPU = "cpu_taken"
DISK, SHARES_USED = [741.0, 739, 681, 627, 421], [0.01, 0.01, 0.05, 0.07, 0.36]
"""The transactions a second of a real demo's disk, and the share of the CPUs that other work took."""


def covaried(values: Sequence[float], shares: Sequence[float | None], bounds: Sequence[Bounds] = ()) -> Covaried:
    shares_known = [{} if share is None else {CPU: share} for share in shares]
    return Covaried(values=values, shares=shares_known, bounds=bounds or [None] * len(values))


def adjusted(first: Covaried, second: Covaried, *, better: Better = "higher") -> Adjusted:
    pairs = [(n, n) for n in range(min(len(first.values), len(second.values)))]
    return adjusted_shift(first, second, pairs, better=better, alpha=0.05, factor=TWO_TESTS)


def test_a_demo_on_a_busy_machine_is_told_as_on_a_calm_one() -> None:
    gp3 = [88.0, 89.5, 88.6, 88.4, 87.1]
    result = adjusted(covaried(DISK, SHARES_USED), covaried(gp3, [0.02, 0.01, 0.06, 0.05, 0.30]))
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
    OtherWork(name="all CPUs in use", shares="wanted", slopes=(0.6, 0.6), error=0.1),
]


@pytest.mark.parametrize("work", EQUAL, ids=lambda work: work.name)
def test_equal_volumes_are_named_different_in_at_most_five_percent(work: OtherWork) -> None:
    """One look at 5 cells a side, and looks from 3 to 20; three standard errors."""
    logs, shares = drawn_with_work(work, runs=RUNS, seed=3)
    five = (logs[0][:, :5], logs[1][:, :5]), (shares[0][:, :5], shares[1][:, :5])
    limit = 0.05 + 3 * math.sqrt(0.05 * 0.95 / RUNS)
    at_mean = work.shares == "wanted"
    assert apart_with_work(*five, level=0.05 / TWO_TESTS, at_mean=at_mean).mean() <= limit
    assert (decided_with_work(logs, shares, at_mean=at_mean) > 0).mean() <= limit


def test_a_difference_of_a_fifth_is_named_beside_other_work() -> None:
    logs, shares = drawn_with_work(EQUAL[0], runs=RUNS, seed=3)
    cells = decided_with_work((logs[0], logs[1] + math.log(0.8)), shares, margin=0.05)
    assert (cells > 0).mean() >= 0.95
    assert 2 * np.where(cells > 0, cells, CELLS_MAX).mean() <= 12


@pytest.mark.parametrize("work", EQUAL[:4], ids=lambda work: work.name)
def test_the_many_runs_are_adjusted_as_the_report_adjusts_one(work: OtherWork) -> None:
    logs, shares = drawn_with_work(work, runs=40, seed=6)
    for cells in (4, 5, 6, 9):
        piece = [side[:, :cells] for side in (*logs, *shares)]
        many = apart_with_work((piece[0], piece[1] - 0.1), (piece[2], piece[3]), level=0.05 / TWO_TESTS)
        for run in range(40):
            sides = [
                covaried(np.exp(log[run]).tolist(), share[run].tolist())
                for log, share in ((piece[0], piece[2]), (piece[1] - 0.1, piece[3]))
            ]
            result = adjusted(*sides)
            if result.shift is not None:
                assert (result.shift.p_value < 0.05) == many[run]
                assert (result.shift.p_value < 0.05) == (
                    not (result.shift.low or 0) <= 1 <= (result.shift.high or 9)
                )


STEADY = [100.0, 101.0, 99.0, 100.5, 100.2]


UNKNOWN = covaried(STEADY, [0.01, None, None, 0.02, 0.01])
FEW = covaried(STEADY[:3], SHARES_USED[2:])
SLOW = covaried(DISK, SHARES_USED, [None, None, None, None, (421.0, 430.0)])


@pytest.mark.parametrize(
    ("first", "second", "why_not", "too_few"),
    [
        (covaried(STEADY, [0.01] * 5), covaried(STEADY, [0.02] * 5), "", False),
        (covaried(STEADY, [None] * 5), covaried(STEADY, [None] * 5), "", False),
        (covaried(STEADY, SHARES_USED), UNKNOWN, "the CPU use of other work is not known in 2 of 10 cells", False),
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


def busy(values: Sequence[float], shares: Sequence[Mapping[str, float]]) -> Covaried:
    return Covaried(values=values, shares=shares, bounds=[(value, value / 0.3) for value in values])


def test_where_what_others_took_is_unknown_in_a_cell_what_they_wanted_counts() -> None:
    shares = [{"cpu_taken": 0.5, "cpu_wanted": 0.6}, *({"cpu_wanted": share} for share in (0.7, 0.8, 0.75, 0.65))]
    values = [100 * (1 - each["cpu_wanted"]) ** 0.5 for each in shares]
    noise = [1.01, 0.99, 1.0, 1.02, 0.98]
    first = busy([value * piece for value, piece in zip(values, noise, strict=True)], shares)
    second = busy([0.7 * value / piece for value, piece in zip(values, noise, strict=True)], shares)
    result = adjusted(first, second)
    assert [adjustment.covariate for adjustment in result.adjustments] == ["cpu_wanted"]
    assert result.shift is not None
    assert result.shift.ratio == pytest.approx(0.7, rel=0.03)
    assert result.adjustments[0].slopes[0] == pytest.approx(0.5, abs=0.15)


def test_cells_that_other_work_disturbed_alike_are_compared_as_they_ran() -> None:
    shares = [{"cpu_wanted": share} for share in (0.8, 0.801, 0.802)]
    result = adjusted(busy([100.0, 103, 98], shares), busy([50.0, 52, 49], shares))
    assert result.shift == mean_shift([100.0, 103, 98], [50.0, 52, 49], [(n, n) for n in range(3)], alpha=0.05)
    (adjustment,) = result.adjustments
    assert (adjustment.covariate, adjustment.slopes) == ("cpu_wanted", (None, None))


def test_cells_of_which_no_share_of_the_cpus_is_known_are_not_compared_as_they_ran() -> None:
    result = adjusted(busy([100.0, 103, 98], [{}] * 3), busy([50.0, 52, 49], [{}] * 3))
    assert result == Adjusted()


def test_an_adjustment_that_no_work_can_make_is_not_used() -> None:
    """A disk against itself, measured: two cells with much I/O of others made the ratio 0.48."""
    cpus_wanted = (
        (0.965, 0.952, 0.948, 0.941, 0.943, 0.944, 0.953, 0.947),
        (0.951, 0.955, 0.946, 0.944, 0.948, 0.945, 0.948, 0.944),
    )
    io_shares = ((0.503, 0.363, 0.017, 0, 0.094, 0, 0.048, 0.014), (0.02, 0.029, 0, 0.041, 0, 0.233, 0, 0.073))
    tps = (
        (107.8, 160.7, 278.2, 235.9, 198.1, 181.1, 197.7, 234.9),
        (189.8, 198.7, 166.9, 196.2, 185.8, 179.5, 92.0, 173.1),
    )
    sides = [
        Covaried(
            values=values,
            shares=[{"cpu_wanted": cpu, "io_taken": io} for cpu, io in zip(cpus, ios, strict=True)],
            bounds=[(value, math.inf) for value in values],
        )
        for values, cpus, ios in zip(tps, cpus_wanted, io_shares, strict=True)
    ]
    pairs = [(n, n) for n in range(8)]
    result = adjusted_shift(sides[0], sides[1], pairs, better="higher", alpha=0.0045, factor=1.0)
    assert result.shift is None or result.shift.p_value > 0.0045
    assert result.shift is None or result.shift.ratio > 0.6


LITTLE, MUCH = [0.0, 0.01, 0.0, 0.02, 0.01, 0.0], [0.1, 0.3, 0.2, 0.4, 0.15, 0.35]
SCATTER = [1.01, 0.99, 1.0, 1.02, 0.98, 1.0]


@pytest.mark.parametrize(("better", "slope"), [("higher", 1.0), ("lower", -1.0)])
def test_work_next_to_one_volume_is_taken_out_of_speeds_and_of_latencies(better: Better, slope: float) -> None:
    """Equal volumes: other work slows the second one down, which makes its throughput lower, its latency higher."""
    first = covaried([100 * piece for piece in SCATTER], LITTLE)
    second = covaried(
        [100 * piece * (1 - share) ** slope for piece, share in zip(SCATTER, MUCH, strict=True)], MUCH
    )
    result = adjusted(first, second, better=better)
    assert result.why_not == ""
    assert result.shift is not None
    assert result.shift.ratio == pytest.approx(1, rel=0.03)
    assert result.shift.p_value > 0.05


@pytest.mark.parametrize(("better", "power"), [("higher", -0.5), ("lower", 0.5)])
def test_other_work_makes_nothing_faster(better: Better, power: float) -> None:
    """Cells with more other work were the better ones by chance: the figures are those of the cells as they ran."""
    values = [piece * (1 - share) ** power for piece, share in zip(SCATTER, MUCH, strict=True)]
    first = covaried([100 * value for value in values], MUCH)
    second = covaried([80 * value for value in reversed(values)], MUCH[::-1])
    result = adjusted_shift(first, second, [], better=better, alpha=0.05, factor=TWO_TESTS)
    assert [adjustment.slopes for adjustment in result.adjustments] == [(0.0, 0.0)]
    assert result.shift is not None
    assert result.shift.ratio == pytest.approx(0.8)
    plain = mean_shift(first.values, second.values, [], alpha=0.05)
    assert (result.shift.high or 0) - (result.shift.low or 0) > (plain.high or 0) - (plain.low or 0)
    paired = adjusted(first, second, better=better).shift
    assert paired is not None
    assert paired.ratio == pytest.approx(0.8)


def test_an_adjustment_beyond_what_the_shares_allow_says_so() -> None:
    """Little other work, and a value that falls with it by its hundredth power."""
    shares = [{CPU: share} for share in (0.0, 0.02, 0.04, 0.05, 0.06, 0.08)]
    steep = [100 * (1 - each[CPU]) ** 40 for each in shares]
    level = [{CPU: share} for share in (0.0, 0.01, 0.0, 0.01, 0.0, 0.01)]
    first = Covaried(values=steep, shares=shares, bounds=[None] * 6)
    second = Covaried(values=[100.0, 101, 99, 100, 101, 99], shares=level, bounds=[None] * 6)
    result = adjusted_shift(first, second, [], better="higher", alpha=0.05, factor=TWO_TESTS)
    assert (result.shift, result.why_not) == (
        None,
        "the estimated effect of other work is larger than such work can have",
    )
