"""A quantile that is sorted by hand is NumPy's, to the last bit: no finding changes by it."""

from __future__ import annotations

import numpy as np
import pytest

from volbench.results.stats.grid import Floats, quantile, quantile_of_finite

LEVELS = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 10, 59, 600, 1999, 2000, 2001, 2500])
def test_it_is_numpys(size: int) -> None:
    random = np.random.default_rng(size)
    series: list[Floats] = [random.lognormal(3, 2, size), random.normal(0, 1, size).round(1), np.full(size, 1 / 3)]
    for values in series:
        levels = (*LEVELS, *random.random(20))
        expected = [float(np.quantile(values, level)) for level in levels]
        assert [quantile_of_finite(values, level) for level in levels] == expected


def test_gaps_are_left_out() -> None:
    assert quantile([3.0, float("nan"), 1.0], 0.5) == 2.0
    assert quantile([float("nan")], 0.5) is None
