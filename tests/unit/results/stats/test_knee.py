"""The knee of a queue: asymptotes of a closed loop, on the exact model of one server with a limit."""

from __future__ import annotations

import pytest

from volbench.results.stats.knee import curve, knee, level

DEPTHS = (1, 2, 4, 8, 16, 32, 64)


def closed_loop(alone_ms: float, limit: float) -> dict[int, list[tuple[float, float]]]:
    """Exactly the two asymptotes, three cells a depth with 1 % between them."""
    cells = {}
    for depth in DEPTHS:
        iops = min(limit, 1000 * depth / alone_ms)
        cells[depth] = [(iops * f, 1000 * depth / iops / f) for f in (0.99, 1.0, 1.0 / 0.99)]
    return cells


def test_the_knee_is_where_the_limit_meets_the_latency_of_a_request_alone() -> None:
    """0.8 ms and 3,000 IOPS: 2.4 requests under way."""
    result = knee(curve(closed_loop(0.8, 3000)))
    assert result is not None
    assert result.depth == pytest.approx(2.4, rel=0.01)
    assert result.iops == pytest.approx(3000)


def test_a_volume_that_still_grows_at_the_largest_depth_has_no_knee() -> None:
    assert knee(curve(closed_loop(0.5, 1e6))) is None


def test_a_sweep_without_depth_one_has_no_knee() -> None:
    cells = closed_loop(0.8, 3000)
    del cells[1]
    assert knee(curve(cells)) is None


def test_intervals_are_student_s_of_logs() -> None:
    result = level([100.0, 110.0, 121.0])
    assert result.value == pytest.approx(110)
    assert result.ci is not None
    half = 4.303 * 0.0953102 / 3**0.5
    assert result.ci[1] / result.value == pytest.approx(2.718281828**half, rel=1e-3)
    assert level([5.0]).ci is None


def test_depths_at_which_a_cell_finished_nothing_are_left_out() -> None:
    """A volume that hung for a whole point ended the report: nothing has no logarithm."""
    points = curve({1: [(900.0, 1.1)], 2: [(0.0, 0.0), (1800.0, 1.1)], 4: [(3000.0, 1.3)]})
    assert [point.depth for point in points] == [1, 4]


def test_depths_without_a_valid_cell_are_left_out() -> None:
    assert [point.depth for point in curve({1: [(10.0, 1.0)], 2: [], 4: [(20.0, 2.0)]})] == [1, 4]
