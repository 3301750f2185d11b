"""The exact rank-sum test, its interval, the verdict rules, Holm's correction and the runs needed."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volbench.results.stats.corrections import fallback, holm, hommel
from volbench.results.stats.sample_size import RUNS_NEEDED_MAX, runs_for_level, runs_needed
from volbench.results.stats.statistics import Shift, judge, shift_of
from volbench.results.stats.student_t import t_quantile, t_tail

FIXTURES = Path(__file__).parents[3] / "fixtures"
FEW = st.lists(st.integers(1, 6).map(float), min_size=4, max_size=5)  # a coarse grid: ties within and across
SPREAD = st.lists(st.floats(0.5, 2.0), min_size=4, max_size=6)


def midranks(values: list[float]) -> list[Fraction]:
    return [Fraction(1 + 2 * sum(w < v for w in values) + sum(w == v for w in values), 2) for v in values]


def p_by_enumeration(baseline: list[float], candidate: list[float]) -> float:
    """Twice the smaller tail of the candidate's rank sum over every split, counted one by one in fractions."""
    ranks = midranks(baseline + candidate)
    observed = sum(ranks[len(baseline) :])
    sums = [sum(split) for split in combinations(ranks, len(candidate))]
    tail = min(sum(s >= observed for s in sums), sum(s <= observed for s in sums))
    return min(1.0, 2 * tail / len(sums))


@pytest.mark.parametrize(
    ("baseline", "candidate", "p_value"),
    [
        ([1, 2, 4, 8], [16, 32, 64, 128], 2 / 70),  # complete separation: the smallest p there is
        ([1, 2, 3, 4, 5], [6, 12, 18, 24, 30], 2 / 252),
        ([1, 3], [2, 4], 2 * 2 / 6),  # rank sum 6 of 3 4 5 5 6 7
        ([1, 2, 2], [2, 3], 2 * 3 / 10),  # midranks 1 3 3 3 5: rank sum 8, as in 3 of 10 splits
        ([7, 7, 7, 7], [7, 7, 7, 7], 1.0),
    ],
)
def test_p_value_of_hand_counted_cases(baseline, candidate, p_value):
    """The p-value is the share of splits as extreme as the observed one, both tails."""
    assert shift_of(baseline, candidate).p_value == pytest.approx(p_value, rel=1e-12)


@given(FEW, FEW)
@settings(deadline=None)
def test_p_value_equals_enumeration_of_all_splits(baseline, candidate):
    """Counting subsets by rank sum gives what listing every split gives, ties included."""
    shift, counted = shift_of(baseline, candidate), p_by_enumeration(baseline, candidate)
    if shift.spread_ratio is None:
        assert shift.p_value == pytest.approx(counted)
    else:
        assert shift.p_value >= counted * (1 - 1e-9)


@given(FEW, FEW, st.sampled_from([0.01, 0.05, 0.1, 0.3]))
@settings(max_examples=300, deadline=None)
def test_interval_excludes_one_exactly_when_p_is_below_alpha(baseline, candidate, alpha):
    """Test and interval never contradict each other, however many ties there are."""
    shift = shift_of(baseline, candidate, alpha=alpha)
    excludes_one = (shift.low is not None and shift.low > 1) or (shift.high is not None and shift.high < 1)
    assert excludes_one == (shift.p_value < alpha)


@given(FEW, FEW, st.integers(-7, 7).map(lambda k: 2.0 ** (k / 2)))
@settings(max_examples=200, deadline=None)
def test_interval_holds_exactly_the_ratios_that_the_test_accepts(baseline, candidate, ratio):
    """A ratio lies within the interval when the candidate divided by it does not differ at this level."""
    shift = shift_of(baseline, candidate)
    accepted = shift_of(baseline, [value / ratio for value in candidate]).p_value >= shift.alpha
    within = (shift.low or 0) <= ratio * (1 + 1e-9) and ratio * (1 - 1e-9) <= (shift.high or math.inf)
    strictly = (shift.low or 0) < ratio * (1 - 1e-9) and ratio * (1 + 1e-9) < (shift.high or math.inf)
    assert within if accepted else not strictly


def test_interval_of_four_against_four_spans_all_pairwise_ratios():
    """At 4 against 4 only complete separation is significant, so the extreme ratios bound the interval."""
    shift = shift_of([1, 2, 3, 4], [10, 20, 30, 40])
    assert shift.low == pytest.approx(10 / 4)
    assert shift.high == pytest.approx(40 / 1)


def test_interval_of_five_against_five_starts_at_the_third_smallest_ratio():
    """The critical value of the rank-sum test at 5 against 5 and 5 % is U = 2 in every table."""
    baseline, candidate = [1.0, 1.1, 1.3, 1.7, 2.5], [2.0, 2.1, 3.7, 4.3, 4.9]
    ratios = sorted(c / b for c in candidate for b in baseline)
    shift = shift_of(baseline, candidate)
    assert (shift.low, shift.high) == (pytest.approx(ratios[2]), pytest.approx(ratios[22]))


def test_three_against_three_bounds_nothing():
    """The smallest p of 3 against 3 is 0.1: no ratio can be excluded."""
    shift = shift_of([1, 1, 1], [9, 9, 9])
    assert (shift.low, shift.high, shift.p_value) == (None, None, pytest.approx(0.1))


def test_ratio_is_the_median_of_pairwise_ratios_on_the_log_scale():
    """4, 16, 2, 8: the middle of 4 and 8 in logs."""
    assert shift_of([1, 2], [4, 16]).ratio == pytest.approx(math.sqrt(32))


def test_equal_runs_give_the_ratio_one_and_an_interval_of_no_width():
    """Without any spread the ratio is known exactly."""
    shift = shift_of([100.0] * 4, [100.0] * 4)
    assert (shift.low, shift.ratio, shift.high) == (1.0, 1.0, 1.0)


@given(SPREAD, SPREAD)
@settings(deadline=None)
def test_swapping_the_sides_inverts_the_ratio_and_its_interval(baseline, candidate):
    """Nothing depends on which volume is called the baseline."""
    existing, back = shift_of(baseline, candidate), shift_of(candidate, baseline)
    assert existing.p_value == pytest.approx(back.p_value)
    assert existing.ratio == pytest.approx(1 / back.ratio)
    assert existing.low is not None
    assert existing.high is not None
    assert back.low is not None
    assert back.high is not None
    assert existing.low == pytest.approx(1 / back.high)
    assert existing.high == pytest.approx(1 / back.low)


@given(SPREAD, SPREAD, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_order_of_runs_is_irrelevant(baseline, candidate, random):
    """Runs are a set."""
    expected = shift_of(baseline, candidate)
    random.shuffle(baseline)
    random.shuffle(candidate)
    assert shift_of(baseline, candidate) == expected


@given(SPREAD, SPREAD)
@settings(deadline=None)
def test_the_estimate_lies_within_its_interval(baseline, candidate):
    """An estimate that its own interval excludes would be no estimate."""
    shift = shift_of(baseline, candidate)
    assert shift.low is not None
    assert shift.high is not None
    assert shift.low * (1 - 1e-9) <= shift.ratio <= shift.high * (1 + 1e-9)


def test_many_runs_use_counted_random_splits_close_to_the_normal_approximation():
    """Beyond the exact limit the p-value comes from recorded random splits."""
    generator = np.random.default_rng(5)
    baseline, candidate = generator.lognormal(0, 0.1, 60), generator.lognormal(0.02, 0.1, 60)
    shift = shift_of(baseline.tolist(), candidate.tolist())
    u = np.sum(candidate[:, None] > baseline[None, :])
    z = (abs(u - 1800) - 0.5) / math.sqrt(60 * 60 * 121 / 12)
    assert (shift.exact, shift.splits) == (False, 9_999)
    assert shift.p_value == pytest.approx(math.erfc(z / math.sqrt(2)), abs=0.015)


@pytest.mark.parametrize("bad", [[], [1.0, 0.0], [1.0, -2.0], [math.nan], [math.inf]])
def test_values_without_a_log_are_refused(bad):
    """There is no log of zero, of a negative or of a missing value, and no silent substitute."""
    with pytest.raises(ValueError, match=r"ratio|at least one"):
        shift_of([1.0, 2.0], bad)


def test_an_impossible_level_is_refused():
    """A percentage given as 5 instead of 0.05 is noticed."""
    with pytest.raises(ValueError, match="alpha"):
        shift_of([1.0], [2.0], alpha=5)


def shift(ratio, low, high, p_value, runs=(5, 5)):
    return Shift(ratio=ratio, low=low, high=high, p_value=p_value, alpha=0.05, runs=runs, splits=252, exact=True)


@pytest.mark.parametrize(
    ("measured", "better", "p_adjusted", "verdict"),
    [
        (shift(1.20, 1.10, 1.30, 0.008), "higher", 0.024, "better"),
        (shift(1.20, 1.10, 1.30, 0.008), "lower", 0.024, "worse"),
        (shift(0.80, 0.70, 0.90, 0.008), "lower", 0.024, "better"),
        (shift(0.80, 0.70, 0.90, 0.008), "higher", 0.024, "worse"),
        (shift(1.00, 0.97, 1.03, 0.9), "higher", 0.9, "equivalent"),
        (shift(1.03, 1.01, 1.04, 0.008), "higher", 0.008, "equivalent"),  # significant, yet too small to matter
        (shift(1.00, 1 / 1.05, 1.05, 0.9), "none", 0.9, "equivalent"),  # the margin itself is within
        (shift(1.04, 1.01, 1.20, 0.03), "higher", 0.03, "inconclusive"),  # a change, of unknown importance
        (shift(1.20, 1.10, 1.30, 0.03), "higher", 0.06, "inconclusive"),  # lost to the correction
        (shift(1.20, 0.90, 1.40, 0.2), "higher", 0.2, "inconclusive"),
        (shift(1.20, 1.10, 1.30, 0.008), "none", 0.024, "inconclusive"),  # no direction is the better one
        (shift(9.00, 8.00, 10.0, 0.03, runs=(3, 8)), "higher", 0.03, "inconclusive"),
        (shift(1.00, 0.99, 1.01, 1.0, runs=(8, 3)), "higher", 1.0, "inconclusive"),
        (shift(1.00, None, None, 1.0), "higher", 1.0, "inconclusive"),
    ],
)
def test_verdict_rules(measured, better, p_adjusted, verdict):
    """Each rule of `judge`, and each reason for having no verdict."""
    judgement = judge(measured, better=better, margin=0.05, p_adjusted=p_adjusted)
    assert judgement.verdict == verdict
    assert judgement.reason


@given(SPREAD, SPREAD, st.sampled_from([1e-9, 1e-3, 0.7, 1024.0, 1e6]), st.sampled_from(["higher", "lower"]))
@settings(deadline=None)
def test_the_unit_never_changes_the_verdict(baseline, candidate, factor, better):
    """Milliseconds or seconds, the verdict is the same."""

    def verdict(scale):
        measured = shift_of([v * scale for v in baseline], [v * scale for v in candidate])
        return judge(measured, better=better, margin=0.05, p_adjusted=measured.p_value).verdict

    assert verdict(factor) == verdict(1.0)


@given(SPREAD, SPREAD, st.sampled_from(["higher", "lower"]))
@settings(deadline=None)
def test_swapping_the_sides_mirrors_the_verdict(baseline, candidate, better):
    """If B is better than A, A is worse than B."""
    existing, back = (shift_of(*sides) for sides in ((baseline, candidate), (candidate, baseline)))
    mirror = {"better": "worse", "worse": "better"}
    verdict = judge(existing, better=better, margin=0.05, p_adjusted=existing.p_value).verdict
    mirrored = judge(back, better=better, margin=0.05, p_adjusted=back.p_value).verdict
    assert mirrored == mirror.get(verdict, verdict)


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.04, 0.01], [0.04, 0.02]),
        ([0.5, 0.9], [1.0, 1.0]),
        ([0.02], [0.02]),
        ([], []),
    ],
)
def test_holm_of_hand_computed_cases(p_values, adjusted):
    """Step-down: the smallest times k, the next times k - 1, never falling."""
    assert holm(p_values) == pytest.approx(adjusted)


@pytest.mark.parametrize(
    ("level", "blocks", "runs"),
    [(0.05, 1, 3), (0.002, 1, 3), (0.05, 2, 5), (0.01, 2, 6), (0.0286, 3, 5), (0.05 / 7, 3, 7)],
)
def test_fewest_runs_that_can_pass_a_level(level, blocks, runs):
    """T-tests have no smallest p; within nodes it is 2 over the product of the nodes' splits."""
    assert runs_for_level(level=level, blocks=blocks) == runs


def test_hommel_agrees_with_statsmodels():
    """Values of statsmodels 0.14 (`multipletests(p, method="hommel")`) for p-values drawn at random."""
    for case in json.loads((FIXTURES / "hommel-statsmodels.json").read_text()):
        assert hommel(case["p"]) == pytest.approx(case["hommel"], abs=1e-10)


@pytest.mark.parametrize(
    ("p_values", "weights", "adjusted"),
    [
        ([0.0286, 0.03, 0.04], [0.6, 0.2, 0.2], [0.0286 / 0.6] * 3),
        ([0.2, 0.0079, 0.04], [0.6, 0.2, 0.2], [0.2 / 0.6, 0.0079 / 0.2, 0.04 / 0.4]),
        ([0.03, 0.04, 0.9], [1, 0, 0], [0.03, 0.04, 0.9]),  # a fixed sequence: no correction
        ([0.5, 0.001], [1, 0], [0.5, 0.5]),  # which ends where a test does not reject
    ],
)
def test_fallback_of_hand_computed_cases(p_values, weights, adjusted):
    """A test that rejects hands its part of alpha on."""
    assert fallback(p_values, weights) == pytest.approx(adjusted)


@given(
    st.lists(st.floats(1e-4, 1), min_size=1, max_size=5),
    st.lists(st.floats(0.01, 1), min_size=5, max_size=5),
    st.floats(0.001, 0.999),
)
def test_fallback_adjusts_to_what_the_procedure_rejects(p_values, raw_weights, alpha):
    """Adjusted p at most alpha exactly where going through the tests in order rejects."""
    weights = [weight / sum(raw_weights[: len(p_values)]) for weight in raw_weights[: len(p_values)]]
    piece = 0.0
    for p, weight, adjusted in zip(p_values, weights, fallback(p_values, weights), strict=True):
        piece += weight
        rejected = p <= piece * alpha
        assert rejected == (adjusted <= alpha) or adjusted == pytest.approx(alpha)
        piece = piece if rejected else 0.0


@pytest.mark.parametrize(
    ("t", "freedom", "tail"),
    [(12.706, 1, 0.025000401179066593), (3.182446, 3, 0.025000005859639705), (39, 4.3, 5.988286027807969e-07)],
)
def test_tail_of_students_t_agrees_with_scipy(t, freedom, tail):
    """Values of scipy 1.17 (`stats.t.sf`)."""
    assert t_tail(t, freedom) == pytest.approx(tail, rel=1e-9)
    assert t_quantile(1 - tail, freedom) == pytest.approx(t, rel=1e-6)


def test_a_noisy_side_needs_welchs_test_as_well():
    """scipy's `ttest_ind(log a, log b, equal_var=False)` has p 0.09077, doubled here; the ranks have 2/252."""
    shift = shift_of([100, 101, 99, 100, 100.5], [120, 300, 110, 150, 600])
    assert shift.p_value == pytest.approx(2 * 0.09077087201341594)
    assert shift.low is not None
    assert shift.high is not None
    assert shift.low < 1 < shift.high
    assert shift.spread_ratio == pytest.approx(96.98, abs=0.01)
    reason = judge(shift, better="higher", margin=0.05, p_adjusted=shift.p_value).reason
    assert "scatters far more" in reason


@pytest.mark.parametrize("runs", [4, 5, 8])
def test_unequal_spreads_raise_no_more_false_alarms(runs):
    """Standard deviations of 1 % and 30 %, no difference of the medians: 600 pairs, three standard errors."""
    draw = np.random.default_rng(runs)
    alarms = sum(
        shift_of(np.exp(draw.normal(0, 0.01, runs)), np.exp(draw.normal(0, 0.3, runs))).p_value < 0.05
        for _ in range(600)
    )
    assert alarms / 600 <= 0.05 + 3 * (0.05 * 0.95 / 600) ** 0.5


def test_a_clear_difference_needs_only_the_fewest_runs():
    """A shift of 50 % over 2 % of spread is decided as soon as the test can."""
    assert runs_needed([100, 102, 98], [150, 153, 147], weight=0.2) == 3


def test_more_spread_needs_more_runs():
    """Ten times the spread needs many more runs, here about 2 (2.8 s / d)^2."""
    quiet = runs_needed([99, 100, 101, 100], [119, 120, 121, 120])
    noisy = runs_needed([80, 100, 120, 100], [96, 120, 144, 120])
    assert quiet == 3
    assert noisy is not None
    assert 10 <= noisy <= 20


def test_a_shift_on_the_margin_needs_more_runs_than_anybody_makes():
    """Neither better nor equivalent would ever be shown, so no number is given."""
    assert runs_needed([100, 101, 99, 100], [105.0, 106.05, 103.95, 105.0]) is None


def test_unknown_spread_gives_the_fewest_runs_that_can_decide():
    """One run a side says nothing about spread, and below 3 a side nothing is decided."""
    assert runs_needed([100.0], [120.0], weight=0.2) == 3


def test_noise_that_the_cells_of_a_block_share_needs_no_more_runs():
    """20 % slower with 40 % of the machine's noise: of pairs a few suffice, of two groups many do not."""
    machine = [1.0, 0.6, 1.4, 0.8]
    baseline = [100 * speed * own for speed, own in zip(machine, [1.0, 1.01, 0.99, 1.0], strict=True)]
    candidate = [80 * speed * own for speed, own in zip(machine, [1.01, 1.0, 1.0, 0.99], strict=True)]
    apart = runs_needed(baseline, candidate)
    assert apart is None or apart > 50
    paired = runs_needed(baseline, candidate, pairs=[(n, n) for n in range(4)])
    assert paired is not None
    assert paired <= 4


@given(SPREAD, SPREAD)
def test_runs_needed_is_bounded(baseline, candidate):
    """A proposal is a number of runs that somebody could make, or none."""
    needed = runs_needed(baseline, candidate)
    assert needed is None or 3 <= needed <= RUNS_NEEDED_MAX
