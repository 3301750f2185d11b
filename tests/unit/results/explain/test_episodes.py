from __future__ import annotations

import numpy as np
import pytest

from volbench.results.explain.evidence.episodes import FigureChange, find_change, find_episode, levels
from volbench.results.stats.grid import Floats, Grid


def grid(samples: int) -> Grid:
    return Grid(t_s=np.arange(1, samples + 1.0), width_s=1.0, columns={})


def waits(samples: int, seed: int = 0) -> Floats:
    return np.exp(0.3 * np.random.default_rng(seed).normal(size=samples))


@pytest.mark.parametrize(("first", "last"), [(40, 60), (0, 20), (80, 100)])
def test_a_stretch_of_slow_operations_is_found_where_it_is(first: int, last: int) -> None:
    values = waits(100)
    values[first:last] *= 3
    episode = find_episode(grid(100), values)
    assert episode is not None
    assert episode.t0_s == pytest.approx(first, abs=1)
    assert episode.t1_s == pytest.approx(last, abs=1)
    assert episode.p_value <= 0.01


def test_a_longer_recording_is_searched_in_coarser_steps() -> None:
    values = waits(3000)
    values[1500:1800] *= 3
    episode = find_episode(grid(3000), values)
    assert episode is not None
    assert (episode.t0_s, episode.t1_s) == pytest.approx((1500, 1800), abs=40)


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
    results = [*levels(grid(8), None, during, {"p95": (values, "ms"), "tps": (None, "1/s")})]
    assert results == [FigureChange(name="p95", unit="ms", before=1.0, during=3.0)]
    assert results[0].text == "p95 1 before, 3 ms during (x3.00)"


def autocorrelated(samples: int, seed: int, r: float) -> Floats:
    """AR(1) noise on a logarithmic scale, as the waiting times of a steady volume."""
    generator = np.random.default_rng(seed)
    noise = generator.normal(size=samples)
    values = np.zeros(samples)
    for at in range(samples):
        values[at] = (r * values[at - 1] if at else 0.0) + np.sqrt(1 - r * r) * noise[at]
    return np.exp(0.3 * values)


@pytest.mark.parametrize("r", [0.0, 0.3, 0.6, 0.8])
def test_autocorrelated_noise_seldom_makes_an_episode(r: float) -> None:
    """Our own noise: at most 1 of 40 series of a minute at each correlation of neighbours."""
    alarms = sum(find_change(grid(60), autocorrelated(60, seed, r)) is not None for seed in range(40))
    assert alarms <= 1


def rising(shape: str) -> Floats:
    t_s, values = np.arange(1, 61.0), waits(60) ** 0.3
    rise = {
        "step": 1 + 2.0 * (t_s > 30),
        "ramp": 1 + 3.0 * np.clip((t_s - 20) / 18, 0, 1),
        "episode": 1 + 2.0 * ((t_s > 20) & (t_s <= 32)),
        "periodic": 1 + 2.0 * (t_s % 15 >= 9),
    }
    return values * rise[shape]


def test_a_step_without_any_noise_is_a_step() -> None:
    """A step leaves nothing of such values, by which a ramp could be judged; found by the fuzzer."""
    values = np.where(np.arange(60) < 30, 1.0, 4.0)
    change = find_change(grid(60), values)
    assert change is not None
    assert (change.shape, change.t0_s) == ("step", pytest.approx(30, abs=1))


@pytest.mark.parametrize("shape", ["step", "ramp", "episode", "periodic"])
def test_a_change_has_a_shape(shape: str) -> None:
    values = rising(shape)
    change = find_change(grid(60), values)
    assert change is not None
    assert change.shape == shape
    if shape == "ramp":
        assert (change.t0_s, change.t1_s) == pytest.approx((20, 38), abs=4)
    if shape == "step":
        assert change.t0_s == pytest.approx(30, abs=1)
    if shape == "periodic":
        assert change.period_s == pytest.approx(15, abs=1)
