"""Statistics of two small groups of runs: shift, exact p-value, confidence interval, verdict, runs needed.

The replicate is the cell: one value of each cell, never one of each second, for the seconds of a cell hang
together and share the cell's offset. All is done on log(metric), so a shift is a ratio and units cancel.

The test is Wilcoxon's rank-sum test with midranks under the permutation null: all splits of the pooled runs
into groups of these sizes are equally likely. Its two-sided p-value is twice the smaller tail (at most 1).
For every split, the rank sum of the candidate minus that of the split can only fall when the candidate is
moved down (its runs pass baseline runs, never the reverse), so each tail is monotone in the shift, ties
included. Hence the shifts that the test accepts are one interval, and p < alpha holds exactly when that interval
excludes the ratio 1. This would fail for a p-value made of deviations from the mean rank sum.

Logs are kept as whole multiples of 1e-12, so ties and interval ends are exact and not a matter of rounding;
values that agree to 1e-12 are ties.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Verdict = Literal["better", "worse", "equivalent", "inconclusive"]
Better = Literal["higher", "lower", "none"]

RUNS_MIN = 4
"""Fewer runs than this on either side never give a verdict."""
RUNS_NEEDED_MAX = 100
"""More runs a side than this are not proposed: nobody would make them."""
EXACT_RUNS_MAX = 100
"""Up to this many runs in both groups together all splits are counted; beyond, random ones are drawn."""
RUNS_MAX = 1000
"""Both groups together; what a comparison may cost in memory is bounded by it."""
RANDOM_SPLITS = 9_999
_SEED = 20_111
_LOG_STEP = 1e-12
_MARGIN_SLACK = 1e-9  # of a log ratio: an estimate that lies on the margin must not depend on the unit
_RANK_EFFICIENCY = 3 / math.pi  # of the rank-sum test against the t-test, for normal values

_NO_END = 1 << 53
"""Log steps of an end of bounds that is no end, far beyond any float's, and exact in sums of two."""
_LOG_MAX = 700 / _LOG_STEP
"""Log steps of a ratio beyond which it is infinite or zero: exp(710) is no float any more."""

_Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Shift:
    """How the candidate lies to the baseline. An end of the interval that the runs cannot bound is None."""

    ratio: float
    low: float | None
    high: float | None
    p_value: float
    alpha: float
    runs: tuple[int, int]
    splits: int
    exact: bool
    nearest_ratio: float | None = None
    """Of values known within bounds: the ratio nearest to 1 that they allow; None: the values are known."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A verdict and why it is that one."""

    verdict: Verdict
    reason: str


def shift_of(baseline: Sequence[float], candidate: Sequence[float], *, alpha: float = 0.05) -> Shift:
    """The Hodges-Lehmann ratio candidate / baseline, its exact interval at 1 - alpha, and the p-value.

    Args:
        baseline: one positive finite value of each run, shape (n,), any unit, any order.
        candidate: likewise, shape (m,), same unit.
        alpha: the test's level; the interval's confidence is 1 - alpha.

    Raises ValueError for an empty side, for values that have no log, for alpha outside 0..1, and beyond RUNS_MAX.
    Source: Hodges and Lehmann, Annals of Mathematical Statistics 34 (1963); Lehmann, Nonparametrics, ch. 2.
    """
    return _shift_of_logs(_log_steps(baseline), _log_steps(candidate), alpha)


def bounded_shift_of(
    baseline: Sequence[tuple[float, float, float]],
    candidate: Sequence[tuple[float, float, float]],
    *,
    alpha: float = 0.05,
) -> Shift:
    """As `shift_of`, of values that are known within bounds: what holds for every choice inside them.

    Each tail of the rank-sum test and the Hodges-Lehmann estimate are monotone in every single value: moving one
    run of the candidate down can only lower its rank sum against that of any split (where it passes a run of its
    own side, nothing changes, since a side is a set). So both are extreme where all of the baseline is at one end
    of its bounds and all of the candidate at the other; two ordinary tests give the answer over all choices.

    This holds for values without ties. Equal values change the null distribution itself: a choice with ties may
    have a larger p-value than stated here (0.4 instead of 0.23 in one case that a test found). Where all of one
    side lies beyond all of the other for every choice, ties change nothing.

    Args:
        baseline, candidate: (value, low, high) of each run; low may be 0 and high infinite.

    The ratio is that of the values. The interval's low end is that of the choice that lies lowest, its high end
    that of the highest; so it holds at least at 1 - alpha. The p-value is the largest. `nearest_ratio` says how
    near to 1 the estimate can come. Raises ValueError as `shift_of`.
    """
    x, y = (_log_steps([value for value, _, _ in side]) for side in (baseline, candidate))
    x_low, y_low = (_log_ends([low for _, low, _ in side]) for side in (baseline, candidate))
    x_high, y_high = (_log_ends([high for _, _, high in side]) for side in (baseline, candidate))
    observed = _shift_of_logs(x, y, alpha)
    lowest, highest = _shift_of_logs(x_high, y_low, alpha), _shift_of_logs(x_low, y_high, alpha)
    tail = min(_tails(x_high, y_low, 0)[0], _tails(x_low, y_high, 0)[1])
    nearest = max(lowest.ratio, min(1.0, highest.ratio))
    return replace(observed, low=lowest.low, high=highest.high, p_value=min(1.0, 2 * tail), nearest_ratio=nearest)


def _shift_of_logs(x: _Ints, y: _Ints, alpha: float) -> Shift:
    """The shift of y against x, in whole steps of the log; ends beyond what a value can be are no ends."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, not {alpha}")
    if len(x) + len(y) > RUNS_MAX:
        raise ValueError(f"{len(x)} + {len(y)} runs: at most {RUNS_MAX} are compared")
    differences = np.unique(np.subtract.outer(y, x))
    # Tails are constant between neighbouring differences, so the points on and beside them are all there is.
    points = np.unique(np.concatenate([differences - 1, differences, differences + 1])).tolist()
    first = bisect_left(points, True, key=lambda d: 2 * _tails(x, y, d)[0] >= alpha)
    beyond = bisect_left(points, True, key=lambda d: 2 * _tails(x, y, d)[1] < alpha)
    total = len(x) + len(y)
    exact = total <= EXACT_RUNS_MAX
    return Shift(
        ratio=_ratio_of(float(np.median(np.subtract.outer(y, x)))),
        low=_end(points[first]) if first > 0 else None,
        high=_end(points[beyond - 1]) if beyond < len(points) else None,
        p_value=min(1.0, 2 * min(_tails(x, y, 0))),
        alpha=alpha,
        runs=(len(x), len(y)),
        splits=math.comb(total, len(y)) if exact else RANDOM_SPLITS,
        exact=exact,
    )


def judge(shift: Shift, *, better: Better, margin: float, p_adjusted: float) -> Judgement:
    """The verdict on the candidate, by these rules, the first that fits.

    1. Below 4 against 4 runs: inconclusive, always.
    2. The whole interval lies within 1/(1+margin) .. 1+margin: equivalent, even when it excludes 1.
    3. Adjusted p < alpha (so the interval excludes 1) and the estimate lies beyond the margin: better or worse by
       the metric's direction; inconclusive for a metric without one, for then no change is good or bad.
    4. Else inconclusive; the reason says what is open.

    Rule 2 uses the same interval at 1 - alpha that the reader sees, not the shorter one at 1 - 2 alpha of the
    usual two one-sided tests: one interval explains the verdict, and equivalence, which ends an inquiry,
    is claimed wrongly in at most alpha/2 of the cases instead of alpha.

    Args:
        shift: as `shift_of` gives it.
        better: the metric's direction.
        margin: the smallest change that matters, as a fraction (0.05 is 5 %).
        p_adjusted: the p-value after Holm's correction over the family of metrics.
    """
    n, m = shift.runs
    limit = math.log1p(margin) + _MARGIN_SLACK
    change = _log_of(shift.ratio if shift.nearest_ratio is None else shift.nearest_ratio)
    if min(n, m) < RUNS_MIN:
        return _open(f"{n} against {m} valid runs; a verdict needs at least {RUNS_MIN} against {RUNS_MIN}")
    if shift.low and shift.high and -limit <= math.log(shift.low) and math.log(shift.high) <= limit:
        return Judgement(verdict="equivalent", reason=f"the whole interval lies within the margin of {margin:.1%}")
    if p_adjusted < shift.alpha and abs(change) > limit and better != "none":
        return Judgement(
            verdict="better" if (change > 0) == (better == "higher") else "worse",
            reason=f"the interval excludes 1 and the estimate is beyond the margin of {margin:.1%}",
        )
    return _open(_what_is_open(shift, p_adjusted=p_adjusted, margin=margin, beyond=abs(change) > limit))


def _what_is_open(shift: Shift, *, p_adjusted: float, margin: float, beyond: bool) -> str:
    if shift.p_value >= shift.alpha:
        return "the runs fit both no change and a change beyond the margin"
    if p_adjusted >= shift.alpha:
        return f"p {shift.p_value:.2g} alone, but {p_adjusted:.2g} after correction for the other metrics"
    if not beyond:
        return f"a change is there, but whether it is beyond the margin of {margin:.1%} is open"
    return f"it changes by {shift.ratio - 1:+.1%}, but neither direction is the better one"


def _log_of(ratio: float) -> float:
    return math.log(ratio) if ratio > 0 else -math.inf


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values, in the order given: the family-wise error stays below alpha.

    Source: Holm, Scandinavian Journal of Statistics 6 (1979).
    """
    adjusted = [1.0] * len(p_values)
    floor = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = floor
    return adjusted


def runs_for_level(*, alpha: float, family: int = 1) -> int:
    """The fewest runs a side whose smallest possible p, 2 / C(2n, n), can pass Holm's first step."""
    return next(
        n
        for n in range(RUNS_MIN, RUNS_NEEDED_MAX + 1)
        if n == RUNS_NEEDED_MAX or 2 * family < alpha * math.comb(2 * n, n)
    )


def runs_needed(
    baseline: Sequence[float],
    candidate: Sequence[float],
    *,
    alpha: float = 0.05,
    margin: float = 0.05,
    family: int = 1,
    power: float = 0.8,
) -> int | None:
    """Runs a side that would likely decide, if the shift and spread seen so far are the true ones.

    An estimate from few runs: it may be off by a factor of two either way. Beyond the margin it is the number
    that shows the difference and puts the estimate beyond the margin; within, the number that shows
    equivalence. None when more than RUNS_NEEDED_MAX would be needed (the shift lies on the margin). With
    too few runs to know the spread it is the number below which nothing can be decided.

    Args:
        baseline, candidate: as for `shift_of`, shapes (n,) and (m,).
        alpha, margin: as for `judge`.
        family: metrics that Holm's correction is over; the strictest step is assumed.
        power: chance of a verdict.

    Source: the normal formula with Guenther's term z^2/4 for few runs (American Statistician 35, 1981), a
    variance on the cautious side (Browne, Statistics in Medicine 14, 1995), and the rank-sum test's efficiency of
    3/pi against the t-test.
    """
    floor = runs_for_level(alpha=alpha, family=family)
    x, y = np.log(np.sort(baseline)), np.log(np.sort(candidate))  # sorted: the order of sums moves the last bit
    if min(len(x), len(y)) < 2:
        return floor
    change = abs(float(np.median(np.subtract.outer(y, x))))
    distance = abs(change - math.log1p(margin))
    if distance < _MARGIN_SLACK:
        return None
    z = NormalDist().inv_cdf
    if change > math.log1p(margin):
        level = alpha / family
        root_n = max((z(1 - level / 2) + z(power)) / change, z(power) / distance)
    else:  # both ends of the interval must come within: with no shift at all each has half of the misses
        level = alpha
        root_n = (z(1 - level / 2) + z((1 + power) / 2)) / distance
    runs = 2 * _cautious_variance(x, y) / _RANK_EFFICIENCY * root_n**2 + z(1 - level / 2) ** 2 / 4
    if runs > RUNS_NEEDED_MAX:
        return None
    return max(floor, math.ceil(runs))


def _cautious_variance(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """The pooled variance's upper 60 % confidence limit (Wilson and Hilferty's chi-squared quantile).

    Few runs show too little spread more often than too much, and a proposal should rather suffice.
    """
    freedom = len(x) + len(y) - 2
    squares = float(np.sum((x - x.mean()) ** 2) + np.sum((y - y.mean()) ** 2))
    spread = 2 / (9 * freedom)
    return squares / (freedom * (1 - spread + NormalDist().inv_cdf(0.4) * math.sqrt(spread)) ** 3)


def _open(reason: str) -> Judgement:
    return Judgement(verdict="inconclusive", reason=reason)


def _log_ends(values: Sequence[float]) -> _Ints:
    """As `_log_steps`, of ends of bounds: 0 and infinity lie beyond every value."""
    array = np.asarray(values, dtype=np.float64)
    inside = np.isfinite(array) & (array > 0)
    logs = np.where(array > 0, _NO_END, -_NO_END)
    logs[inside] = np.rint(np.log(array[inside]) / _LOG_STEP).astype(np.int64)
    return np.asarray(logs, dtype=np.int64)


def _ratio_of(log_steps: float) -> float:
    if abs(log_steps) > _LOG_MAX:
        return math.inf if log_steps > 0 else 0.0
    return math.exp(log_steps * _LOG_STEP)


def _end(log_steps: float) -> float | None:
    return None if abs(log_steps) > _LOG_MAX else math.exp(log_steps * _LOG_STEP)


def _log_steps(values: Sequence[float]) -> _Ints:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError("each side needs a flat list of at least one value")
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError("only positive finite values have a ratio")
    return np.rint(np.log(array) / _LOG_STEP).astype(np.int64)


def _tails(x: _Ints, y: _Ints, shift: int) -> tuple[float, float]:
    """Under the null that y is x moved by `shift`: P(rank sum of y at least the observed), P(at most)."""
    _, group, sizes = np.unique(np.concatenate([x, y - shift]), return_inverse=True, return_counts=True)
    midranks_doubled = (2 * np.cumsum(sizes) - sizes + 1)[group]
    observed = int(midranks_doubled[len(x) :].sum())
    if len(midranks_doubled) > EXACT_RUNS_MAX:
        sums = _random_splits(len(midranks_doubled), len(y)) @ midranks_doubled
        drawn = np.array([np.sum(sums >= observed), np.sum(sums <= observed)])
        upper, lower = (drawn + 1) / (RANDOM_SPLITS + 1)  # the observed split is one of the possible
        return float(upper), float(lower)
    at_least, at_most = _null_tails(tuple(sorted(midranks_doubled.tolist())), len(y))
    return float(at_least[observed]), float(at_most[observed])


@lru_cache(maxsize=256)
def _null_tails(midranks_doubled: tuple[int, ...], size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """P(sum >= s) and P(sum <= s) for s = 0.., over all subsets of `size` ranks, by counting subsets per sum."""
    top = sum(midranks_doubled[-size:])
    subsets = np.zeros((size + 1, top + 1))
    subsets[0, 0] = 1
    for rank in midranks_doubled:
        subsets[1:, rank:] += subsets[:-1, : top + 1 - rank]
    counts = subsets[size]
    return np.cumsum(counts[::-1])[::-1] / counts.sum(), np.cumsum(counts) / counts.sum()


@lru_cache(maxsize=4)
def _random_splits(total: int, size: int) -> NDArray[np.float64]:
    """Random choices of `size` out of `total`, always the same: shape (RANDOM_SPLITS, total) of 0 and 1."""
    order = np.random.default_rng(_SEED).random((RANDOM_SPLITS, total)).argsort(axis=1)
    return (order < size).astype(np.float64)
