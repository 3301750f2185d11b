"""The test of a look at a run that goes on until decided: two t-tests of the logs, the smaller p counts.

Welch's test takes the cells of both volumes as two groups. The paired one takes the difference of the two cells of
a block, which are neighbours in time: noise that both share, as on a laptop that does other work, is no part of it.
Which of the two sees more depends on the machine, so both are made, and the levels of the looks are those of the
smaller p (`results/stats/sequential.py`). Where the standard deviations of the logs differ by a factor above 1.5,
both p-values are doubled: skewed deviations of few cells make them too small.

The interval holds the shifts that neither test refuses, so that it excludes the ratio 1 exactly when p is below the
level. Deviations need not be normal for that: `tests/benchmarks/sequential_verdicts.py` counts the error for skewed
and bimodal ones, outliers, bursts, trends and unequal spreads.

Sources: Welch, Biometrika 34 (1947); Student, Biometrika 6 (1908).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from volbench.results.stats.statistics import SPREAD_RATIO_MAX, WELCH_FACTOR, Shift
from volbench.results.stats.student_t import t_quantile, t_tail

PAIRS_MIN = 3
LEAST_DEVIATION = 1e-6
"""Of a log: cells that agree better than this agree by rounding, which is no measure of their scatter."""


@dataclass(frozen=True, kw_only=True)
class _Test:
    """A t-test: the mean difference of the logs, its standard error, the degrees of freedom."""

    change: float
    error: float
    freedom: float

    def p_value(self, factor: float) -> float:
        """Two-sided, multiplied by `factor`."""
        return min(1.0, 2 * factor * t_tail(abs(self.change) / self.error, self.freedom))

    def interval(self, alpha: float, factor: float) -> tuple[float, float]:
        """The shifts that the test does not refuse at `alpha`."""
        reach = self.error * t_quantile(1 - alpha / factor / 2, self.freedom)
        return self.change - reach, self.change + reach


def look_shift(
    baseline: Sequence[float], candidate: Sequence[float], pairs: Sequence[tuple[int, int]], *, alpha: float
) -> Shift:
    """Return the ratio of the geometric means, candidate / baseline, its interval at 1 - alpha, and the p-value.

    Where cells lost their neighbour, the two tests have other cells: the ratio is that of the test that counts.

    Args:
        baseline: a positive finite value of each cell, shape (n,), n >= 2.
        candidate: likewise, shape (m,), m >= 2.
        pairs: positions in both of the cells of one block; fewer than PAIRS_MIN: Welch's test alone.
        alpha: level of the look.

    Raises ValueError for fewer values or such as have no log.
    """
    x, y = (np.asarray(side, dtype=np.float64) for side in (baseline, candidate))
    if min(x.size, y.size) < 2 or not all(np.isfinite(side).all() and (side > 0).all() for side in (x, y)):
        raise ValueError("a look needs two positive finite values of each side")
    log_x, log_y = np.log(x), np.log(y)
    tests = [_welch(log_x, log_y)]
    if len(pairs) >= PAIRS_MIN:
        tests.append(_paired(log_x, log_y, pairs))
    small, large = sorted(max(float(side.std(ddof=1)), LEAST_DEVIATION) for side in (log_x, log_y))
    factor = WELCH_FACTOR if large / small > SPREAD_RATIO_MAX else 1
    deciding = min(tests, key=lambda test: test.p_value(factor))
    p_value, change = deciding.p_value(factor), deciding.change
    ends = [test.interval(alpha, factor) for test in tests]
    low, high = max(low for low, _ in ends), min(high for _, high in ends)
    return Shift(
        ratio=math.exp(change),
        low=math.exp(min(low, change)),
        high=math.exp(max(high, change)),
        p_value=p_value,
        alpha=alpha,
        runs=(x.size, y.size),
        splits=0,
        exact=False,
        spread_ratio=large / small if factor > 1 else None,
    )


def _welch(x: np.ndarray, y: np.ndarray) -> _Test:
    of_x, of_y = (max(float(side.var(ddof=1)), LEAST_DEVIATION**2) / side.size for side in (x, y))
    freedom = (of_x + of_y) ** 2 / (of_x**2 / (x.size - 1) + of_y**2 / (y.size - 1))
    return _Test(change=float(y.mean() - x.mean()), error=math.sqrt(of_x + of_y), freedom=freedom)


def _paired(x: np.ndarray, y: np.ndarray, pairs: Sequence[tuple[int, int]]) -> _Test:
    differences = np.array([y[second] - x[first] for first, second in pairs])
    deviation = max(float(differences.std(ddof=1)), LEAST_DEVIATION)
    return _Test(
        change=float(differences.mean()), error=deviation / math.sqrt(len(pairs)), freedom=float(len(pairs) - 1)
    )
