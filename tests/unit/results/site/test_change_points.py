"""Change points: found where the level changes, not where a value is odd, and rarely where nothing changes."""

from __future__ import annotations

import math
import tracemalloc
from itertools import permutations

import numpy as np
import pytest

from volbench.results.site.change_points import ALPHA, CLIP, PERMUTATIONS, _best_split, change_points


def history(*levels: tuple[int, float], seed: int = 1, noise: float = 0.02) -> list[float]:
    random = np.random.default_rng(seed)
    return [level * math.exp(random.normal(0, noise)) for runs, level in levels for _ in range(runs)]


@pytest.mark.parametrize("first", [3, 10, 20, 37])
def test_a_level_that_falls_is_found_at_its_run(first: int) -> None:
    (change,) = change_points(history((first, 100.0), (40 - first, 70.0)))
    assert change.index == first
    assert change.before == pytest.approx(100, rel=0.03)
    assert change.after == pytest.approx(70, rel=0.03)
    assert change.ratio == pytest.approx(0.7, rel=0.05)


def test_two_changes_are_found_with_the_level_between_them() -> None:
    changes = change_points(history((15, 100.0), (15, 70.0), (15, 100.0)))
    assert [change.index for change in changes] == [15, 30]
    assert changes[0].after == changes[1].before == pytest.approx(70, rel=0.03)


def test_one_odd_run_is_no_change() -> None:
    values = history((40, 100.0))
    values[20] = 1.0
    assert change_points(values) == ()


def test_a_short_or_constant_history_has_none() -> None:
    assert change_points([]) == ()
    assert change_points([1.0, 1.0, 1.0, 2.0, 2.0]) == ()
    assert change_points([5.0] * 50) == ()
    assert change_points(history((3, 100.0), (3, 1.0))) == ()


def test_all_runs_of_a_long_history_are_examined() -> None:
    """Also a change ten years ago."""
    values = history((300, 50.0), (3_000, 100.0), (100, 70.0))
    assert [change.index for change in change_points(values)] == [300, 3_300]


def test_a_stable_history_of_ten_times_the_runs_takes_little_memory() -> None:
    """The orders of 20,000 runs are 320 MB at once; in parts they are 8 MB, and few parts show that nothing is."""
    tracemalloc.start()
    try:
        assert change_points(history((20_000, 100.0))) == ()
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


def test_no_more_orders_are_tried_than_decide() -> None:
    """With a bound of the p-value the same splits are found, and what is not one stays above the bound."""
    for values in (history((500, 100.0)), history((250, 100.0), (250, 101.0)), history((250, 100.0), (250, 130.0))):
        index, p_value = _best_split(np.asarray(values)) or (0, 1.0)
        bounded_index, bounded_p = _best_split(np.asarray(values), p_max=ALPHA) or (0, 1.0)
        assert bounded_index == index
        assert (bounded_p <= ALPHA) == (p_value <= ALPHA)
        assert p_value > ALPHA or bounded_p == p_value


def test_the_p_value_is_that_of_all_orders() -> None:
    """Seven values have 5,040 orders: all of them counted by another formula, against the random ones."""
    values = [1.0, 1.3, 1.1, 1.2, 1.9, 2.1, 1.4]
    scores = np.log(values) - np.median(np.log(values))
    scores /= 1.4826 * np.median(np.abs(scores))
    assert np.abs(scores).max() < CLIP

    def largest(order: tuple[float, ...]) -> float:
        splits = ((order[:first], order[first:]) for first in (3, 4))
        return max(float(abs(np.mean(a) - np.mean(b)) * math.sqrt(len(a) * len(b) / 7)) for a, b in splits)

    observed = largest(tuple(scores))
    exact = sum(largest(order) >= observed - 1e-9 for order in permutations(scores)) / math.factorial(7)
    split = _best_split(np.asarray(values))
    assert split is not None
    assert split[1] == pytest.approx(exact, abs=4 * math.sqrt(exact / PERMUTATIONS))


def test_stable_histories_are_rarely_changed() -> None:
    """300 histories at 1 %: more than 9 would be a fault with probability 0.1 %."""
    random = np.random.default_rng(7)
    alarms = sum(bool(change_points(random.standard_t(3, size=20).tolist())) for _ in range(300))
    assert ALPHA == 0.01
    assert alarms <= 9
