"""The arithmetic of the check, against quantiles of gamma distributions from tables; thresholds as literals."""

from __future__ import annotations

import numpy as np
import pytest

from volbench.results.explain.check.rebuild import (
    Level,
    pooled_quantile,
    rebuilt_quantile,
    served_at_least,
    summed_ms,
    variation_of_waits,
)


@pytest.mark.parametrize(
    ("waits", "level", "times"),
    [
        (1.0, 0.95, 3.00),
        (8.0, 0.95, 1.94),
        (8.0, 0.99, 2.51),
        (50.0, 0.95, 1.35),
        (1000.0, 0.95, 1.35),
        (54.0, 0.99, 1.523),
    ],
)
def test_a_tail_comes_from_the_mean_and_the_number_of_waits(waits: float, level: float, times: float) -> None:
    """Gamma of shape 1, 4 and 25: chi-squared tables at 2, 8 and 50 degrees of freedom."""
    alone = [Level(transactions=100, mean_ms=20.0, variation=variation_of_waits(waits))]
    assert rebuilt_quantile(alone, level) == pytest.approx(20.0 * times, rel=0.015)


def test_two_parts_of_a_step_are_mixed_by_their_transactions() -> None:
    slow, fast = (Level(transactions=n, mean_ms=ms, variation=0.04) for n, ms in ((10, 500.0), (90, 5.0)))
    assert (rebuilt_quantile([slow, fast], 0.95) or 0) == pytest.approx(500.0, rel=0.05)
    assert (rebuilt_quantile([slow, fast], 0.5) or 0) < 6
    assert rebuilt_quantile([], 0.95) is None


def test_sums_count_every_operation_and_medians_of_seconds_do_not() -> None:
    rate, each_ms = np.array([1000.0, 1000.0, 10.0]), np.array([1.0, 1.0, 500.0])
    assert summed_ms(rate, each_ms) == pytest.approx(7000 / 2010)
    assert summed_ms(rate, None) is None
    assert summed_ms(0 * rate, each_ms) is None


def test_what_was_served_is_the_mean_of_intervals_in_a_row() -> None:
    values, inside = np.array([1.0, 9.0, 9.0, 9.0, 1.0]), np.array([True, True, True, True, False])
    assert served_at_least(values, inside, 3) == 9.0
    assert served_at_least(values, ~inside, 3) is None
    assert served_at_least(values[:2], inside[:2], 3) is None


def test_quantiles_of_intervals_are_pooled_by_their_transactions() -> None:
    known_values = {0.5: np.array([10.0, 1000.0]), 0.95: np.array([20.0, 2000.0]), 1.0: np.array([30.0, 3000.0])}
    assert (pooled_quantile(np.array([96.0, 4.0]), known_values, 0.95) or 0) < 31
    assert (pooled_quantile(np.array([80.0, 20.0]), known_values, 0.95) or 0) > 1000
    assert pooled_quantile(np.array([0.0, 0.0]), known_values, 0.95) is None
