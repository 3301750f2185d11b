"""Statistics of two small groups of runs: shift, exact p-value, confidence interval, verdict.

The replicate is the cell: one value of each cell, never one of each second, for the seconds of a cell hang
together and share the cell's offset. All is done on log(metric), so a shift is a ratio and units cancel.

The test is Wilcoxon's rank-sum test with midranks under the permutation null: all splits of the pooled runs
into groups of these sizes are equally likely. Its two-sided p-value is twice the smaller tail (at most 1).
For every split, the rank sum of the candidate minus that of the split can only fall when the candidate is
moved down (its runs pass baseline runs, never the reverse), so each tail is monotone in the shift, ties
included; so is a weighted sum of such differences, which is the test within blocks (`results/stats/ranks`).
Hence the shifts that the test accepts are one interval, and p < alpha holds exactly when that interval
excludes the ratio 1. This would fail for a p-value made of deviations from the mean rank sum.

The permutation null takes both sides for equally scattered. Where they are not, five noisy cells lie all above or
all below five steady ones in 2 of 32 cases by chance, and the rank-sum test calls that p 0.0079. So where the
standard deviations of the logs differ by a factor above 1.5, Welch's t-test of the logs (Biometrika 34, 1947) must
agree: p is the larger one of the two tests, and the interval covers both. Welch's p is doubled, since skewed
deviations of few cells make it too small. `tests/benchmarks/sequential_verdicts.py` counts what errs.

Logs are kept as whole multiples of 1e-12, so ties and interval ends are exact and not a matter of rounding;
values that agree to 1e-12 are ties.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from volbench.core.base.text import percent
from volbench.results.stats.ranks.blocks import mean_difference, median_difference, pooled_within, split_by
from volbench.results.stats.ranks.null import Blocks, Ints, is_exact, split_count, tails
from volbench.results.stats.student_t import t_quantile, t_tail

Verdict = Literal["better", "worse", "equivalent", "inconclusive"]
Better = Literal["higher", "lower", "none"]

RUNS_MIN = 4
"""Fewer runs than this on either side never give a verdict."""
SPREAD_RATIO_MAX = 1.5
"""Where standard deviations of the logs differ by a larger factor, Welch's t-test must agree with the ranks."""
WELCH_FACTOR = 2
"""Welch's p-value is multiplied by this: of exponential noise with 1 and 30 % it is else too small by half."""
RUNS_MAX = 1000
"""Both groups together; what a comparison may cost in memory is bounded by it."""
_LOG_STEP = 1e-12
MARGIN_SLACK = 1e-9  # of a log ratio: an estimate that lies on the margin must not depend on the unit

_NO_END = 1 << 52
"""Log steps of an end of bounds that is no end, far beyond any float's, and exact in sums of two."""
_LOG_MAX = 700 / _LOG_STEP
"""Log steps of a ratio beyond which it is infinite or zero: exp(710) is no float any more."""

Names = tuple[Sequence[str], Sequence[str]]
"""The block of each value of baseline and candidate."""


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
    spread_ratio: float | None = None
    """The larger standard deviation of the logs over the smaller, where Welch's t-test had to agree."""
    blocks: int = 1
    """Within how many blocks (nodes) the runs are compared."""

    @property
    def smallest_p(self) -> float:
        """The smallest p-value that so many runs in these blocks can have."""
        return 2 / self.splits if self.exact else 2 / (self.splits + 1)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A verdict and why it is that one."""

    verdict: Verdict
    reason: str


def shift_of(
    baseline: Sequence[float], candidate: Sequence[float], *, alpha: float = 0.05, nodes: Names | None = None
) -> Shift:
    """Return the Hodges-Lehmann ratio candidate / baseline, its exact interval at 1 - alpha, and the p-value.

    Args:
        baseline: one positive finite value of each run, shape (n,), any unit, any order.
        candidate: likewise, shape (m,), same unit.
        alpha: the test's level; the interval's confidence is 1 - alpha.
        nodes: names of the blocks within which runs are compared, each with runs of both; None: one block.

    Raises ValueError for an empty side, for values that have no log, for alpha outside 0..1, beyond RUNS_MAX, and
    for a block without runs of one side.
    Source: Hodges and Lehmann, Annals of Mathematical Statistics 34 (1963); Lehmann, Nonparametrics, ch. 2.
    """
    blocks = _in_blocks(_log_steps(baseline), _log_steps(candidate), nodes)
    return _agreed(_shift_of_logs(blocks, alpha), blocks)


def bounded_shift_of(
    baseline: Sequence[tuple[float, float, float]],
    candidate: Sequence[tuple[float, float, float]],
    *,
    alpha: float = 0.05,
    nodes: Names | None = None,
) -> Shift:
    """Return what `shift_of` does, of values known within bounds: what holds for every choice inside them.

    Each tail of the rank-sum test and the Hodges-Lehmann estimate are monotone in every single value: moving one
    run of the candidate down can only lower its rank sum against that of any split (where it passes a run of its
    own side, nothing changes, since a side is a set). So both are extreme where all of the baseline is at one end
    of its bounds and all of the candidate at the other; two ordinary tests give the answer over all choices.

    Welch's t-test, where the spreads of the values differ, is made of the values themselves.
    This holds for values without ties. Equal ends, such as several without an upper end, are taken apart first:
    they would change the null distribution, and with it that of choices that are not equal. A choice with ties
    may have a larger p-value than stated here (0.4 instead of 0.23 in one case that a test found). Where all of
    one side lies beyond all of the other for every choice, ties change nothing.

    Args:
        baseline, candidate: (value, low, high) of each run; low may be 0 and high infinite.

    The ratio is that of the values. The interval's low end is that of the choice that lies lowest, its high end
    that of the highest; so it holds at least at 1 - alpha. The p-value is the largest. `nearest_ratio` says how
    near to 1 the estimate can come. Raises ValueError as `shift_of`.
    """
    x, y = (_log_steps([value for value, _, _ in side]) for side in (baseline, candidate))
    values = _in_blocks(x, y, nodes)
    lows = [_log_ends([low for _, low, _ in side]) for side in (baseline, candidate)]
    highs = [_log_ends([high for _, _, high in side]) for side in (baseline, candidate)]
    lying_lowest = _apart(_in_blocks(highs[0], lows[1], nodes), 1)
    lying_highest = _apart(_in_blocks(lows[0], highs[1], nodes), -1)
    observed = _agreed(_shift_of_logs(values, alpha), values)
    lowest, highest = _shift_of_logs(lying_lowest, alpha), _shift_of_logs(lying_highest, alpha)
    tail = min(tails(lying_lowest, 0)[0], tails(lying_highest, 0)[1])
    nearest = max(lowest.ratio, min(1.0, highest.ratio))
    return replace(
        observed,
        low=_lower_end(lowest.low, observed.low),
        high=_upper_end(highest.high, observed.high),
        p_value=max(min(1.0, 2 * tail), observed.p_value),
        nearest_ratio=nearest,
    )


def _in_blocks(x: Ints, y: Ints, nodes: Names | None) -> Blocks:
    """Return the values by block, each sorted: sums depend on the order."""
    names = list(dict.fromkeys(nodes[0])) if nodes is not None else []
    if nodes is not None and set(names) != set(nodes[1]):
        raise ValueError("each block needs runs of both sides")
    sides = [split_by(side, nodes and nodes[number], names) for number, side in enumerate((x, y))]
    return list(zip(*sides, strict=True))


def _apart(blocks: Blocks, direction: Literal[1, -1]) -> Blocks:
    """Return the values without ties: the baseline moves by a few log steps, the candidate the other way."""
    return [(_steps(x, direction), _steps(y, -direction)) for x, y in blocks]


def _steps(ascending: Ints, direction: int) -> Ints:
    count = np.arange(1, len(ascending) + 1, dtype=np.int64)
    return ascending + count if direction > 0 else ascending - count[::-1]


def _shift_of_logs(blocks: Blocks, alpha: float) -> Shift:
    """Return the shift of y against x, in whole steps of the log; ends beyond what a value can be are no ends."""
    runs = sum(len(x) for x, _ in blocks), sum(len(y) for _, y in blocks)
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, not {alpha}")
    if sum(runs) > RUNS_MAX:
        raise ValueError(f"{runs[0]} + {runs[1]} runs: at most {RUNS_MAX} are compared")
    differences = np.unique(np.concatenate([np.subtract.outer(y, x).ravel() for x, y in blocks]))
    # Tails are constant between neighbouring differences, so the points on and beside them are all there is.
    points = np.unique(np.concatenate([differences - 1, differences, differences + 1])).tolist()
    first = bisect_left(points, True, key=lambda d: 2 * tails(blocks, d)[0] >= alpha)
    beyond = bisect_left(points, True, key=lambda d: 2 * tails(blocks, d)[1] < alpha)
    return Shift(
        ratio=_ratio_of(median_difference(blocks)),
        low=_end(points[first]) if first > 0 else None,
        high=_end(points[beyond - 1]) if beyond < len(points) else None,
        p_value=min(1.0, 2 * min(tails(blocks, 0))),
        alpha=alpha,
        runs=runs,
        splits=split_count(blocks),
        exact=is_exact(blocks),
        blocks=len(blocks),
    )


def _agreed(shift: Shift, blocks: Blocks) -> Shift:
    """Return the shift of the rank-sum test.

    Where the spreads differ, what Welch's t-test of the logs says as well.

    Within blocks, Welch's test is that of the mean difference within blocks, with each side's pooled variance.
    """
    (var_x, freedom_x), (var_y, freedom_y) = (pooled_within(side) for side in zip(*blocks, strict=True))
    if min(freedom_x, freedom_y) < RUNS_MIN - 1:
        return shift
    spread_ratio = _unequal_spread(var_x, var_y)
    if spread_ratio is None:
        return shift
    change, per_x, per_y = mean_difference(blocks)
    of_x, of_y = var_x * per_x, var_y * per_y
    freedom = (of_x + of_y) ** 2 / (of_x**2 / freedom_x + of_y**2 / freedom_y)
    error = math.sqrt(of_x + of_y)
    reach = error * t_quantile(1 - shift.alpha / WELCH_FACTOR / 2, freedom)
    upper = t_tail(change / error, freedom)
    welch = WELCH_FACTOR * upper, WELCH_FACTOR * (1 - upper)
    both = [max(*pair) for pair in zip(tails(blocks, 0), welch, strict=True)]
    return replace(
        shift,
        low=_lower_end(shift.low, _end(change - reach)),
        high=_upper_end(shift.high, _end(change + reach)),
        p_value=min(1.0, 2 * min(both)),
        spread_ratio=spread_ratio,
    )


def _lower_end(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else min(first, second)


def _upper_end(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else max(first, second)


def judge(
    shift: Shift, *, better: Better, margin: float, p_adjusted: float, cells_min: int = RUNS_MIN
) -> Judgement:
    """Return the verdict on the candidate, by these rules, the first that fits.

    1. Below `cells_min` against as many runs: inconclusive, always.
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
        p_adjusted: the p-value after the correction over the family of metrics.
        cells_min: 4, or 3 at a look of a run that goes on until it is decided.
    """
    n, m = shift.runs
    limit = math.log1p(margin) + MARGIN_SLACK
    change = _log_of(shift.ratio if shift.nearest_ratio is None else shift.nearest_ratio)
    if min(n, m) < cells_min:
        return _open(f"{n} against {m} valid cells; a verdict needs at least {cells_min} against {cells_min}")
    if shift.low and shift.high and -limit <= math.log(shift.low) and math.log(shift.high) <= limit:
        return Judgement(
            verdict="equivalent", reason=f"the whole interval lies within the margin of {percent(margin)}"
        )
    if p_adjusted < shift.alpha and abs(change) > limit and better != "none":
        return Judgement(
            verdict="better" if (change > 0) == (better == "higher") else "worse",
            reason=f"the interval excludes 1 and the estimate is beyond the margin of {percent(margin)}",
        )
    return _open(_what_is_open(shift, p_adjusted=p_adjusted, margin=margin, beyond=abs(change) > limit))


def _what_is_open(shift: Shift, *, p_adjusted: float, margin: float, beyond: bool) -> str:
    if shift.blocks > 1 and shift.smallest_p >= shift.alpha:
        n, m = shift.runs
        return (
            f"{n} against {m} runs over {shift.blocks} nodes have no p below {shift.smallest_p:.2g}: "
            "more on each node are needed"
        )
    if shift.p_value >= shift.alpha and shift.spread_ratio is not None:
        return "one volume scatters far more than the other, and its cells fit both no change and a change"
    if shift.p_value >= shift.alpha:
        return "the runs fit both no change and a change beyond the margin"
    if p_adjusted >= shift.alpha:
        return f"p {shift.p_value:.2g} alone, but {p_adjusted:.2g} after correction for the other metrics"
    if not beyond:
        return f"a change is there, but whether it is beyond the margin of {percent(margin)} is open"
    return f"it changes by {shift.ratio - 1:+.1%}, but neither direction is the better one"


def _log_of(ratio: float) -> float:
    return math.log(ratio) if ratio > 0 else -math.inf


def _open(reason: str) -> Judgement:
    return Judgement(verdict="inconclusive", reason=reason)


def _unequal_spread(var_x: float, var_y: float) -> float | None:
    """Return the larger standard deviation over the smaller, where it is beyond SPREAD_RATIO_MAX.

    Infinite over none.
    """
    small, large = sorted((math.sqrt(var_x), math.sqrt(var_y)))
    ratio = large / small if small else (math.inf if large else 1.0)
    return ratio if ratio > SPREAD_RATIO_MAX else None


def _log_ends(values: Sequence[float]) -> Ints:
    """Return what `_log_steps` does, of ends of bounds: 0 and infinity lie beyond every value."""
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


def _log_steps(values: Sequence[float]) -> Ints:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError("each side needs a flat list of at least one value")
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError("only positive finite values have a ratio")
    return np.rint(np.log(array) / _LOG_STEP).astype(np.int64)
