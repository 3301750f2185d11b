"""When a recorded quantile is beyond a rebuilt one, and when both are the same; figures are literals."""

from __future__ import annotations

import pytest

from volbench.results.explain.quantile import Quantile


@pytest.mark.parametrize(("recorded_ms", "beyond"), [(24.5, False), (25.5, True)])
def test_a_tail_is_more_than_two_slices_of_a_scheduler_beyond(recorded_ms: float, beyond: bool) -> None:
    """5 ms were rebuilt: 20 ms more."""
    assert Quantile(recorded_ms=recorded_ms, rebuilt_ms=5.0).is_beyond is beyond


@pytest.mark.parametrize(("recorded_ms", "beyond"), [(195.0, False), (205.0, True)])
def test_a_tail_is_more_than_twice_what_is_rebuilt(recorded_ms: float, beyond: bool) -> None:
    assert Quantile(recorded_ms=recorded_ms, rebuilt_ms=100.0).is_beyond is beyond


@pytest.mark.parametrize(("rebuilt_ms", "alike"), [(74.0, False), (76.0, True), (124.0, True), (126.0, False)])
def test_quantiles_are_the_same_within_a_quarter_of_the_recorded_one(rebuilt_ms: float, alike: bool) -> None:
    assert Quantile(recorded_ms=100.0, rebuilt_ms=rebuilt_ms).is_alike is alike
