"""Transactions that meet stops or wait in turn, with literals computed by hand."""

from __future__ import annotations

import math

import pytest

from volbench.results.explain.check.interruptions import (
    equal_parts,
    waiting_in_turn,
    with_common_stops,
    with_random_stops,
)
from volbench.results.explain.check.rebuild import Level, rebuilt_quantile

EVEN = Level(transactions=100.0, mean_ms=20.0, variation=0.0004)


def mean_ms(levels: list[Level]) -> float:
    return sum(level.transactions * level.mean_ms for level in levels) / sum(level.transactions for level in levels)


@pytest.mark.parametrize(("stops", "p95_ms"), [(0.2, 68.0), (0.06, 76.4), (0.04, 18.5), (1.0, 20.0)])
def test_a_stop_that_holds_all_clients_is_met_or_not(stops: float, p95_ms: float) -> None:
    """A fifth of them met 60 ms in a mean of 20: 8 ms without, 68 with. With fewer than one in 20, p95 met none."""
    levels = with_common_stops(EVEN, stops=stops, length_ms=60.0)
    assert mean_ms(levels) == pytest.approx(20.0)
    assert rebuilt_quantile(levels, 0.95) == pytest.approx(p95_ms, rel=0.05)


def test_stops_at_even_distances_are_met_a_whole_number_of_times() -> None:
    levels = with_common_stops(Level(transactions=100.0, mean_ms=114.0, variation=0.0), stops=1.14, length_ms=88.0)
    assert [(round(level.transactions), round(level.mean_ms)) for level in levels] == [(86, 102), (14, 190)]


def test_a_mean_has_no_room_for_longer_stops() -> None:
    (fewer, more) = with_common_stops(EVEN, stops=0.5, length_ms=100.0)
    assert (fewer.mean_ms, more.mean_ms) == pytest.approx((0.4, 39.6))
    assert with_common_stops(EVEN, stops=0.0, length_ms=100.0) == [EVEN]
    assert with_random_stops(EVEN, stops=1.0, length_ms=0.0) == [EVEN]


def test_timeouts_at_random_are_met_by_few_and_by_some_of_these_twice() -> None:
    """In a mean of 4 ms 1.5 % of the transactions wait 200 ms: 1 ms without."""
    levels = with_random_stops(Level(transactions=1.0, mean_ms=4.0, variation=0.01), stops=0.015, length_ms=200.0)
    assert mean_ms(levels) == pytest.approx(4.0, rel=1e-3)
    assert levels[0].transactions == pytest.approx(math.exp(-0.015))
    assert levels[2].mean_ms == pytest.approx(401.0)
    assert rebuilt_quantile(levels, 0.95) == pytest.approx(1.16, rel=0.03)
    assert (rebuilt_quantile(levels, 0.99) or 0) > 190


def test_many_stops_at_random_add_up() -> None:
    """Twenty stops of 10 ms in 400 ms: a standard deviation of 45."""
    level = Level(transactions=1.0, mean_ms=400.0, variation=0.0)
    (sum_of_stops,) = with_random_stops(level, stops=20.0, length_ms=10.0)
    assert math.sqrt(sum_of_stops.variation) * 400 == pytest.approx(44.7, rel=0.01)


@pytest.mark.parametrize(
    ("clients", "mean", "waited_ms", "share", "p95_ms"),
    [(8, 162.5, 124.9, 0.87, 287.0), (11, 299.0, 271.0, 1.0, 302.0), (21, 46.1, 31.8, 0.62, 143.0)],
    ids=["most wait, half of the queue", "all wait, the whole queue", "some wait, a short queue"],
)
def test_who_waits_in_turn_waits_once_for_each_other_client_at_most(
    clients: int, mean: float, waited_ms: float, share: float, p95_ms: float
) -> None:
    """An even wait between 0 and 7 x 37.6 ms; nearly 10 x 28 ms; exponential: 14.3 + 51.3 x ln(0.62 / 0.05)."""
    level = Level(transactions=1000.0, mean_ms=mean, variation=1.0)
    levels = waiting_in_turn(level, clients=clients, waited_ms=waited_ms, waiting_share=share)
    assert mean_ms(levels) == pytest.approx(mean, rel=0.02)
    assert rebuilt_quantile(levels, 0.95) == pytest.approx(p95_ms, rel=0.04)


def test_nobody_waits_in_turn_alone() -> None:
    assert waiting_in_turn(EVEN, clients=1, waited_ms=10.0, waiting_share=1.0) == [EVEN]
    assert waiting_in_turn(EVEN, clients=5, waited_ms=0.0, waiting_share=1.0) == [EVEN]


@pytest.mark.parametrize(
    ("mean", "lowest", "highest"), [(0.5, 0.0125, 0.9875), (0.1, 0.00126, 0.4376), (0.9, 0.5624, 0.99874)]
)
def test_the_distribution_that_knows_a_mean_only(mean: float, lowest: float, highest: float) -> None:
    """Uniform for a mean in the middle; else exponential from the nearer end, -0.1 ln 0.0125 from it."""
    values = equal_parts(mean)
    assert (values[0], values[-1]) == pytest.approx((lowest, highest), rel=0.01)
    assert float(values.mean()) == pytest.approx(mean, rel=0.02)
