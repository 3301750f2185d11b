from __future__ import annotations

import numpy as np
import pytest

from volbench.analysis.explain.align import Floats, Grid
from volbench.analysis.recorded.episodes import Level, find_episode, levels


def grid(samples: int) -> Grid:
    return Grid(t_s=np.arange(1, samples + 1.0), width_s=1.0, columns={})


def waits(samples: int, seed: int = 0) -> Floats:
    return np.exp(0.3 * np.random.default_rng(seed).normal(size=samples))


@pytest.mark.parametrize(("first", "last"), [(40, 60), (0, 20), (80, 100)])
def test_a_stretch_of_slow_operations_is_found_where_it_is(first: int, last: int) -> None:
    values = waits(100)
    values[first:last] *= 3
    found = find_episode(grid(100), values)
    assert found is not None
    assert found.t0_s == pytest.approx(first, abs=1)
    assert found.t1_s == pytest.approx(last, abs=1)
    assert found.p_value <= 0.01


def test_a_longer_recording_is_searched_in_coarser_steps() -> None:
    values = waits(3000)
    values[1500:1800] *= 3
    found = find_episode(grid(3000), values)
    assert found is not None
    assert (found.t0_s, found.t1_s) == pytest.approx((1500, 1800), abs=40)


def test_chance_seldom_makes_an_episode() -> None:
    """1 of 100 at most by chance in each; our own noise, that of recordings is scored in tests/lab/recordings."""
    assert sum(find_episode(grid(60), waits(60, seed)) is not None for seed in range(40)) <= 2


def test_a_slow_drift_of_neighbours_that_resemble_each_other_is_no_episode() -> None:
    noise = np.random.default_rng(3).normal(size=200)
    drift = np.exp(0.3 * np.convolve(noise, np.ones(20) / np.sqrt(20), mode="valid"))
    assert find_episode(grid(len(drift)), drift) is None


@pytest.mark.parametrize("values", [None, np.ones(8), np.full(50, np.nan), np.ones(50)])
def test_what_shows_no_episode(values: Floats | None) -> None:
    assert find_episode(grid(0 if values is None else len(values)), values) is None


def test_levels_before_and_during() -> None:
    values = np.array([1.0, 1.0, 1.0, 1.0, 3.0, 3.0, 3.0, 9.0])
    during = np.arange(8) // 3 == 1
    found = [*levels(grid(8), None, during, {"p95": (values, "ms"), "tps": (None, "1/s")})]
    assert found == [Level(name="p95", unit="ms", before=1.0, during=3.0)]
    assert found[0].text == "p95 1 before, 3 ms during (x3.00)"
