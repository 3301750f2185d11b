"""How many runs a side a verdict needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from volbench.results.stats.ranks.blocks import without_levels
from volbench.results.stats.sequential import CELLS_MIN
from volbench.results.stats.statistics import MARGIN_SLACK, Names

RUNS_NEEDED_MAX = 100
"""More runs a side than this are not proposed: nobody would make them."""
_RANK_EFFICIENCY = 3 / math.pi  # of the rank-sum test against the t-test, for normal values


def runs_for_level(*, level: float, blocks: int = 1) -> int:
    """Return the fewest runs a side that can have a p below `level`.

    In one block, t-tests have no smallest p: CELLS_MIN. Within several, ranks have one: 2 over the splits.

    Args:
        blocks: over which the runs of both sides are spread evenly.
    """
    if blocks < 2:
        return CELLS_MIN

    def splits(runs: int) -> int:
        least, more = divmod(runs, blocks)
        counts = [least + 1] * more + [least] * (blocks - more)
        return math.prod(math.comb(2 * count, count) for count in counts)

    return next(n for n in range(CELLS_MIN, RUNS_NEEDED_MAX + 1) if n == RUNS_NEEDED_MAX or level * splits(n) > 2)


def runs_needed(
    baseline: Sequence[float],
    candidate: Sequence[float],
    *,
    alpha: float = 0.05,
    margin: float = 0.05,
    weight: float = 1.0,
    power: float = 0.8,
    nodes: Names | None = None,
    pairs: Sequence[tuple[int, int]] = (),
) -> int | None:
    """Runs a side that would likely decide, if the shift and spread seen so far are the true ones.

    An estimate from few runs: it may be off by a factor of two either way. Beyond the margin it is the number
    that shows the difference and puts the estimate beyond the margin; within, the number that shows
    equivalence. None when more than RUNS_NEEDED_MAX would be needed (the shift lies on the margin). With
    too few runs to know the spread it is the number below which nothing can be decided.

    Args:
        baseline, candidate: as for `shift_of`, shapes (n,) and (m,).
        alpha, margin: as for `judge`.
        weight: the part of alpha that the correction over the family leaves this metric, at worst.
        power: chance of a verdict.
        nodes: as for `shift_of`; the spread is that within nodes.
        pairs: positions in both of the cells of one block; where their differences scatter less, that counts.

    Source: the normal formula with Guenther's term z^2/4 for few runs (American Statistician 35, 1981), a
    variance on the cautious side (Browne, Statistics in Medicine 14, 1995), and within nodes the rank-sum test's
    efficiency of 3/pi against the t-test.
    """
    floor = runs_for_level(level=alpha * weight, blocks=len(set(nodes[0])) if nodes is not None else 1)
    logs = without_levels(baseline, candidate, nodes)
    x, y = (np.sort(side) for side in logs)  # sums depend on the order
    if min(len(x), len(y)) < 2:
        return floor
    change = abs(float(np.median(np.subtract.outer(y, x))))
    distance = abs(change - math.log1p(margin))
    if distance < MARGIN_SLACK:
        return None
    z = NormalDist().inv_cdf
    if change > math.log1p(margin):
        level = alpha * weight
        root_n = max((z(1 - level / 2) + z(power)) / change, z(power) / distance)
    else:  # both ends of the interval must come within: with no shift at all each has half of the misses
        level = alpha
        root_n = (z(1 - level / 2) + z((1 + power) / 2)) / distance
    efficiency = _RANK_EFFICIENCY if nodes is not None else 1.0
    quantile = z(1 - level / 2)
    runs = 2 * _cautious_variance([x, y]) / efficiency * root_n**2 + quantile**2 / 4
    if len(pairs) > 1:  # of one group of differences the term for few runs is twice as large
        differences = np.sort([logs[1][second] - logs[0][first] for first, second in pairs])
        runs = min(runs, _cautious_variance([differences]) * root_n**2 + quantile**2 / 2)
    if runs > RUNS_NEEDED_MAX:
        return None
    return max(floor, math.ceil(runs))


def _cautious_variance(groups: Sequence[NDArray[np.float64]]) -> float:
    """Return the pooled variance's upper 60 % confidence limit (Wilson and Hilferty's chi-squared quantile).

    Few runs show too little spread more often than too much, and a proposal should rather suffice.
    """
    freedom = sum(len(group) - 1 for group in groups)
    squares = sum(float(np.sum((group - group.mean()) ** 2)) for group in groups)
    spread = 2 / (9 * freedom)
    return squares / (freedom * (1 - spread + NormalDist().inv_cdf(0.4) * math.sqrt(spread)) ** 3)
