"""The levels of the looks: together they err in less than 5 %, whatever the distribution."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from volbench.results.stats.sequential import CELLS_MAX, CELLS_MIN, LOOK_LEVELS, look_level

RUNS = 200_000


def exact_p_values(cells: int) -> NDArray[np.float64]:
    """Two-sided p of each rank sum of `cells` against `cells`, by listing all splits."""
    sums = np.array([sum(split) for split in combinations(range(1, 2 * cells + 1), cells)])
    counts = np.bincount(sums)
    lower, upper = np.cumsum(counts) / len(sums), np.cumsum(counts[::-1])[::-1] / len(sums)
    return np.minimum(1.0, 2 * np.minimum(lower, upper))


def test_all_looks_together_err_in_less_than_five_percent() -> None:
    """Equal volumes: the values of the cells are in random order. The standard error is 0.05 %."""
    values = np.random.default_rng(3).random((RUNS, 2, CELLS_MAX))
    named = np.zeros(RUNS, dtype=bool)
    for cells in range(CELLS_MIN, CELLS_MAX + 1):
        ranks = values[:, :, :cells].reshape(RUNS, -1).argsort(axis=1).argsort(axis=1) + 1
        named |= exact_p_values(cells)[ranks[:, cells:].sum(axis=1)] < look_level(cells)
    assert 0.045 <= named.mean() <= 0.0495


@pytest.mark.parametrize("cells", LOOK_LEVELS)
def test_each_level_lies_just_above_an_attainable_p_value(cells: int) -> None:
    attainable = np.unique(exact_p_values(cells).round(9))
    below = attainable[(attainable > 0) & (attainable < look_level(cells))]
    assert below.size
    assert look_level(cells) - below[-1] < 0.006


def test_other_numbers_of_cells_have_the_level_of_the_nearest_look() -> None:
    assert look_level(2) == LOOK_LEVELS[CELLS_MIN]
    assert look_level(9) == LOOK_LEVELS[CELLS_MAX]
