"""Many runs until decided at once: the two tests of a look, written a second time over arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from volbench.results.stats.sequential import CELLS_MAX, CELLS_MIN, look_level
from volbench.results.stats.statistics import SPREAD_RATIO_MAX, WELCH_FACTOR
from volbench.results.stats.student_t import t_quantile

FREEDOM = np.concatenate([np.linspace(1, 20, 39), [25.0, 30.0, 38.0]])
Shape = tuple[int, int]
Noise = Callable[[np.random.Generator, Shape], NDArray[np.float64]]
"""Log deviations of cells, shape (runs, cells), with standard deviation about 1."""


def normal(draw: np.random.Generator, shape: Shape) -> NDArray[np.float64]:
    """Normal."""
    return draw.normal(0, 1, shape)


def outliers(draw: np.random.Generator, shape: Shape) -> NDArray[np.float64]:
    """Normal; one cell in ten scatters five times as far."""
    return draw.normal(0, 1, shape) * np.where(draw.random(shape) < 0.1, 5, 1)


def skewed(draw: np.random.Generator, shape: Shape) -> NDArray[np.float64]:
    """Exponential, with median 0: some cells are much slower, none much faster."""
    return math.log(2) - draw.exponential(1, shape)


def bursts(draw: np.random.Generator, shape: Shape) -> NDArray[np.float64]:
    """Normal; one cell in seven is slower by an exponential time of five deviations."""
    return draw.normal(0, 1, shape) - 5 * (draw.random(shape) < 0.15) * draw.exponential(1, shape)


def drawn(
    noise: Noise, spreads: tuple[float, float], *, shared: float = 0.0, trend: float = 0.0, runs: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Logs of both volumes, shape (runs, CELLS_MAX) each.

    Args:
        spreads: standard deviations of the cells' own noise.
        shared: standard deviation of what both cells of a block have in common.
        trend: by how much the machine slows down from block to block.
    """
    draw, shape = np.random.default_rng(seed), (runs, CELLS_MAX)
    common = shared * draw.normal(0, 1, shape) - trend * np.arange(CELLS_MAX)
    within = np.where(draw.random(shape) < 0.5, 1, -1) * trend / 4
    return spreads[0] * noise(draw, shape) + common + within, spreads[1] * noise(draw, shape) + common - within


@cache
def critical_values(level: float) -> list[float]:
    return [t_quantile(1 - level / 2, freedom) for freedom in FREEDOM]


def decided_at(
    x: NDArray[np.float64], y: NDArray[np.float64], *, margin: float = 0.0, looks: int = CELLS_MAX
) -> NDArray[np.int64]:
    """Cells of each volume at the look that tells the volumes apart, shape (runs,); 0 where none does."""
    result = np.zeros(len(x), dtype=np.int64)
    for n in range(CELLS_MIN, looks + 1):
        result[told_apart(x[:, :n], y[:, :n], level=look_level(n), margin=margin) & (result == 0)] = n
    return result


def first_verdict(
    x: NDArray[np.float64], y: NDArray[np.float64], *, margin: float, looks: int = CELLS_MAX
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the cells of each volume at the first look with a verdict, 0 for none, and whether it is a difference.

    Shape (runs,) each. Equivalence comes first, as in a report.
    """
    result, named = np.zeros(len(x), dtype=np.int64), np.zeros(len(x), dtype=np.bool_)
    for n in range(CELLS_MIN, looks + 1):
        change, shortest = two_tests(x[:, :n], y[:, :n], level=look_level(n))
        equivalent = np.abs(change) + shortest <= math.log1p(margin)
        differs = (np.abs(change) > shortest) & (np.abs(change) > math.log1p(margin))
        named |= differs & ~equivalent & (result == 0)
        result[(equivalent | differs) & (result == 0)] = n
    return result, named


def told_apart(
    a: NDArray[np.float64], b: NDArray[np.float64], *, level: float, margin: float = 0.0
) -> NDArray[np.bool_]:
    """Whether one comparison of all cells, shape (runs, n) each, has its smaller p below `level`, shape (runs,)."""
    change, reach = two_tests(a, b, level=level)
    decided: NDArray[np.bool_] = (np.abs(change) > reach) & (np.abs(change) > math.log1p(margin))
    return decided


def two_tests(
    a: NDArray[np.float64], b: NDArray[np.float64], *, level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the change and half the interval that neither test refuses, shape (runs,) each."""
    n = a.shape[1]
    change, (var_a, var_b) = (b - a).mean(axis=1), (side.var(axis=1, ddof=1) for side in (a, b))
    unequal = np.sqrt(np.maximum(var_a, var_b) / np.minimum(var_a, var_b)) > SPREAD_RATIO_MAX
    freedom = (var_a + var_b) ** 2 / ((var_a**2 + var_b**2) / (n - 1))
    welch, paired = np.sqrt((var_a + var_b) / n), (b - a).std(axis=1, ddof=1) / math.sqrt(n)
    reach = np.zeros(len(a))
    for factor, rows in ((1, ~unequal), (WELCH_FACTOR, unequal)):
        critical = np.interp(freedom, FREEDOM, critical_values(level / factor))
        shorter = np.minimum(welch * critical, paired * t_quantile(1 - level / factor / 2, n - 1))
        reach[rows] = shorter[rows]
    return change, reach
