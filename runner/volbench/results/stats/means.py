"""The test of a comparison: two t-tests of the logs, of which the smaller p counts.

Welch's test takes the cells of both volumes as two groups. The paired one takes the difference of the two cells of
a block, which are neighbours in time: noise that both share, as on a laptop that does other work, is no part of it.
Which of the two sees more depends on the machine, so both are made. The levels of the looks of a run until decided
are those of the smaller p (`results/stats/sequential.py`); at one look, with a fixed number of cells, the smaller p
is multiplied by `TWO_TESTS`. Where the standard deviations of the logs differ by a factor above 1.5, both p-values
are doubled: skewed deviations of few cells make them too small.

The interval holds the shifts that neither test refuses, so that it excludes the ratio 1 exactly when p is below the
level. Deviations need not be normal for that: `tests/benchmarks/looks.py` counts the error for skewed and bursting
ones, outliers, trends and unequal spreads, at one look and at all.

Sources: Welch, Biometrika 34 (1947); Student, Biometrika 6 (1908).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from volbench.results.stats.statistics import SPREAD_RATIO_MAX, WELCH_FACTOR, Shift
from volbench.results.stats.t_tests import TestedChange, TTest, smallest

PAIRS_MIN = 3
LEAST_DEVIATION = 1e-6
"""Of a log: cells that agree better than this agree by rounding, which is no measure of their scatter."""
QUANTILE_DEVIATION = math.log(1.0182) / math.sqrt(12)
"""Of the log of a quantile: where it lies within its bin (1.82 % wide, sysbench's) is not known."""
_QUANTILE = re.compile(r"(?:statement_)?latency_ms_p\d+")
TWO_TESTS = 1.5
"""At one look the smaller p is multiplied by this. Of equal volumes with normal deviations, 3.2 to 4.1 % are then
told apart at a level of 5 %, with 3 to 20 cells; of those with other deviations at most 4.5 %."""

Pairs = Sequence[tuple[int, int]]
"""Positions in both sides of the two cells of one block."""
Floats = NDArray[np.float64]


def mean_shift(
    baseline: Sequence[float],
    candidate: Sequence[float],
    pairs: Pairs,
    *,
    alpha: float,
    factor: float = TWO_TESTS,
    least: float = LEAST_DEVIATION,
) -> Shift:
    """Return the ratio of the geometric means, candidate / baseline, its interval at 1 - alpha, and the p-value.

    Where cells lost their neighbour, the two tests have other cells: the ratio is that of the test that counts.

    Args:
        baseline: a positive finite value of each cell, shape (n,), n >= 2.
        candidate: likewise, shape (m,), m >= 2.
        pairs: of the cells of one block; fewer than PAIRS_MIN: Welch's test alone.
        alpha: level of the comparison, or of the look.
        factor: of p; 1 where `alpha` is already the level of the smaller p.
        least: standard deviation of a log below which cells agree by the resolution of the values (`resolved_by`).

    Raises ValueError for fewer values or such as have no log.
    """
    x, y = (np.asarray(side, dtype=np.float64) for side in (baseline, candidate))
    if min(x.size, y.size) < 2 or not all(np.isfinite(side).all() and (side > 0).all() for side in (x, y)):
        raise ValueError("a comparison of means needs two positive finite values of each side")
    log_x, log_y = np.log(x), np.log(y)
    spread_ratio = _spread_ratio(log_x, log_y, least)
    change = _change(log_x, log_y, pairs, alpha, factor, least)
    return shift_of_logs(change, alpha=alpha, runs=(x.size, y.size), spread_ratio=spread_ratio)


def resolved_by(metric: str) -> float:
    """Return the least deviation of a metric's log: of a quantile, that within a bin of its histogram."""
    return QUANTILE_DEVIATION if _QUANTILE.fullmatch(metric) else LEAST_DEVIATION


def mean_difference(
    baseline: Sequence[float], candidate: Sequence[float], pairs: Pairs, *, alpha: float, factor: float = TWO_TESTS
) -> TestedChange:
    """Return the difference of the means, candidate - baseline, as `mean_shift` does the ratio; zeros are allowed.

    Raises ValueError for fewer than two values of a side.
    """
    x, y = (np.asarray(side, dtype=np.float64) for side in (baseline, candidate))
    if min(x.size, y.size) < 2:
        raise ValueError("a comparison of means needs two values of each side")
    least = LEAST_DEVIATION * max(float(np.abs(np.concatenate([x, y])).max()), LEAST_DEVIATION)
    return _change(x, y, pairs, alpha, factor, least)


def block_pairs(baseline: Sequence[int | None], candidate: Sequence[int | None]) -> list[tuple[int, int]]:
    """Return the positions of the two cells of each block; a block with another number of cells has no pair.

    Args:
        baseline, candidate: the block of each cell; None: not known.
    """
    positions: list[dict[int, list[int]]] = []
    for side in (baseline, candidate):
        by_block: dict[int, list[int]] = {}
        for position, block in enumerate(side):
            if block is not None:
                by_block.setdefault(block, []).append(position)
        positions.append(by_block)
    return [
        (first[0], positions[1][block][0])
        for block, first in positions[0].items()
        if len(first) == 1 and len(positions[1].get(block, [])) == 1
    ]


def shift_of_logs(
    change: TestedChange, *, alpha: float, runs: tuple[int, int], spread_ratio: float | None
) -> Shift:
    """Return a change of logs as the shift of a ratio."""
    return Shift(
        ratio=math.exp(change.change),
        low=math.exp(change.low),
        high=math.exp(change.high),
        p_value=change.p_value,
        alpha=alpha,
        runs=runs,
        splits=0,
        exact=False,
        spread_ratio=spread_ratio,
    )


def _change(x: Floats, y: Floats, pairs: Pairs, alpha: float, factor: float, least: float) -> TestedChange:
    tests = [_welch(x, y, least)]
    if len(pairs) >= PAIRS_MIN:
        tests.append(_paired(x, y, pairs, least))
    unequal = _spread_ratio(x, y, least) is not None
    return smallest(tests, alpha=alpha, factor=factor * (WELCH_FACTOR if unequal else 1))


def _spread_ratio(x: Floats, y: Floats, least: float) -> float | None:
    """Return the larger standard deviation over the smaller, where it is above SPREAD_RATIO_MAX."""
    small, large = sorted(max(float(side.std(ddof=1)), least) for side in (x, y))
    return large / small if large / small > SPREAD_RATIO_MAX else None


def _welch(x: Floats, y: Floats, least: float) -> TTest:
    of_x, of_y = (max(float(side.var(ddof=1)), least**2) / side.size for side in (x, y))
    freedom = (of_x + of_y) ** 2 / (of_x**2 / (x.size - 1) + of_y**2 / (y.size - 1))
    return TTest(change=float(y.mean() - x.mean()), error=math.sqrt(of_x + of_y), freedom=freedom)


def _paired(x: Floats, y: Floats, pairs: Pairs, least: float) -> TTest:
    differences = np.array([y[second] - x[first] for first, second in pairs])
    deviation = max(float(differences.std(ddof=1)), least)
    return TTest(
        change=float(differences.mean()), error=deviation / math.sqrt(len(pairs)), freedom=float(len(pairs) - 1)
    )
