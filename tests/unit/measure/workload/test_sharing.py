"""Shares, fairness and slowdown of servers that share a volume: figures that can be computed by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volbench.measure.workload.instances.sharing import Loaded, jain_index, sharing_metrics

SHARES = st.lists(st.floats(min_value=0.001, max_value=10), min_size=1, max_size=16)


def loaded(tps: float, mean_ms: float | None = 1.0, p95_ms: float | None = 2.0) -> Loaded:
    return Loaded(tps=tps, latency_ms_mean=mean_ms, latency_ms_p95=p95_ms)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [((1.0,), 1.0), ((0.5, 0.5), 1.0), ((1.0, 0.0), 0.5), ((1.0, 0.0, 0.0, 0.0), 0.25), ((2.0, 1.0), 0.9)],
)
def test_jain_index_of_known_shares(shares: tuple[float, ...], expected: float) -> None:
    assert jain_index(shares) == pytest.approx(expected)


@pytest.mark.parametrize("shares", [(), (0.0, 0.0)])
def test_no_share_at_all_has_no_fairness(shares: tuple[float, ...]) -> None:
    assert jain_index(shares) is None


@given(SHARES, st.floats(min_value=0.01, max_value=100))
def test_jain_index_is_bounded_and_has_no_scale(shares: list[float], factor: float) -> None:
    index = jain_index(shares)
    assert index is not None
    assert 1 / len(shares) - 1e-9 <= index <= 1 + 1e-9
    assert jain_index([factor * share for share in shares]) == pytest.approx(index)
    assert jain_index(shares[::-1]) == pytest.approx(index)


def test_two_servers_that_have_half_each_follow_the_reciprocal_rule() -> None:
    values = sharing_metrics([loaded(100.0, 10.0, 20.0)], [loaded(50.0, 20.0, 41.0), loaded(50.0, 20.0, 40.0)])
    assert values == pytest.approx(
        {
            "tps_of_all": 100.0,
            "retained_share_min": 0.5,
            "retained_share_sum": 1.0,
            "fairness_index": 1.0,
            "slowdown_max": 2.0,
            "latency_ms_p95_slowest": 41.0,
        }
    )


def test_a_noisy_neighbour_is_compared_with_its_own_load_alone() -> None:
    """The quiet one kept a fifth of 100, its neighbours 0.9 of 1,000 together: their rates say nothing of it."""
    alone = [loaded(100.0), loaded(1000.0)]
    values = sharing_metrics(alone, [loaded(20.0), loaded(450.0), loaded(450.0)])
    assert values["retained_share_min"] == pytest.approx(0.2)
    assert values["retained_share_sum"] == pytest.approx(0.2 + 0.45 + 0.45)
    assert values["fairness_index"] == pytest.approx(1.1**2 / (3 * (0.04 + 2 * 0.2025)))


def test_a_server_without_a_known_p95_leaves_the_slowest_unknown() -> None:
    values = sharing_metrics([loaded(100.0)], [loaded(100.0), loaded(90.0, p95_ms=None)])
    assert "latency_ms_p95_slowest" not in values


def test_a_server_that_finished_nothing_kept_nothing() -> None:
    """Its latency is not known: no slowdown is claimed, neither of it nor of the others."""
    values = sharing_metrics([loaded(100.0)], [loaded(100.0), loaded(0.0, None, None)])
    assert values["retained_share_min"] == 0
    assert values["fairness_index"] == pytest.approx(0.5)
    assert "slowdown_max" not in values


def test_nothing_is_compared_with_a_server_that_did_nothing_alone() -> None:
    assert sharing_metrics([loaded(0.0, None, None)], [loaded(5.0), loaded(5.0)]) == {
        "tps_of_all": 10.0,
        "latency_ms_p95_slowest": 2.0,
    }


@given(st.integers(2, 16), st.floats(min_value=1, max_value=1e6))
def test_the_reciprocal_rule_sums_to_one_for_any_number(instances: int, tps: float) -> None:
    values = sharing_metrics([loaded(tps)], [loaded(tps / instances)] * instances)
    assert math.isclose(values["retained_share_sum"], 1.0, rel_tol=1e-9)
    assert math.isclose(values["retained_share_min"], 1 / instances, rel_tol=1e-9)
