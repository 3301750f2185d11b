from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volbench.results.explain.evidence.cliffs import change_points, cliffs


def test_names_the_second_of_a_fall() -> None:
    t_s = np.arange(1.0, 121.0)
    value = np.where(t_s <= 70, 3000.0, 150.0) * np.exp(np.random.default_rng(1).normal(0, 0.05, 120))
    (result,) = cliffs(t_s, value)
    assert result.at_s == 70.0
    assert result.before == pytest.approx(3000, rel=0.05)
    assert result.after == pytest.approx(150, rel=0.05)


def test_finds_a_fall_and_the_recovery() -> None:
    t_s = np.arange(1.0, 91.0)
    value = np.where((t_s > 30) & (t_s <= 60), 20.0, 200.0) + np.random.default_rng(2).normal(0, 4, 90)
    assert [cliff.at_s for cliff in cliffs(t_s, value)] == [30.0, 60.0]


def test_spikes_and_gaps_are_no_cliffs() -> None:
    t_s = np.arange(1.0, 61.0)
    value = np.full(60, 100.0) + np.random.default_rng(3).normal(0, 2, 60)
    value[[10, 30, 31]] = 2000.0
    value[40:45] = np.nan
    assert cliffs(t_s, value) == ()


def test_a_slow_ramp_is_no_cliff() -> None:
    t_s = np.arange(1.0, 101.0)
    assert cliffs(t_s, 10.0 * t_s) == ()


def test_a_gap_before_the_fall_does_not_move_it() -> None:
    t_s = np.arange(1.0, 61.0)
    value = np.where(t_s <= 40, 500.0, 50.0)
    value[20:25] = np.nan
    (result,) = cliffs(t_s, value)
    assert (result.at_s, result.index) == (40.0, 40)


@pytest.mark.parametrize("size", [0, 1, 7, 8])
def test_short_or_constant_series_have_none(size: int) -> None:
    assert change_points(np.ones(size)) == []


def test_steady_noise_gives_few_false_alarms() -> None:
    """Also with neighbours alike: 100 autocorrelated minutes of 10 % noise have no change by half or more."""
    random = np.random.default_rng(4)
    alarms = 0
    for _ in range(100):
        noise = np.zeros(60)
        for i in range(1, 60):
            noise[i] = 0.6 * noise[i - 1] + random.normal(0, 0.08)
        alarms += bool(cliffs(np.arange(60.0), 1000 * np.exp(noise)))
    assert alarms <= 1


def drop(at: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A minute that falls from 300 to 40 after `at` seconds, with 5 % noise."""
    t_s = np.arange(1.0, 61.0)
    return t_s, np.where(t_s <= at, 300.0, 40.0) * np.exp(np.random.default_rng(seed).normal(0, 0.05, 60))


@settings(max_examples=40)
@given(st.floats(1e-6, 1e9), st.floats(1e-3, 1e4), st.integers(8, 52), st.integers(0, 1000))
def test_units_of_value_and_time_do_not_matter(scale: float, width: float, at: int, seed: int) -> None:
    t_s, value = drop(at, seed)
    plain, scaled = cliffs(t_s, value), cliffs(width * t_s, scale * value)
    assert [item.index for item in plain] == [item.index for item in scaled]
    assert [item.at_s for item in scaled] == pytest.approx([width * item.at_s for item in plain])


@pytest.mark.parametrize("at", [8, 20, 40, 52])
def test_a_drop_is_found_at_its_second_wherever_it_is(at: int) -> None:
    """All but one in 250: a change that noise suggests first may hide a short level."""
    missed = [seed for seed in range(250) if [cliff.index for cliff in cliffs(*drop(at, seed))] != [at]]
    assert len(missed) <= 1
