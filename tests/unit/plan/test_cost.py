"""The plan's estimates of time and space."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.plan.cost import estimate
from volbench.suite.load import load_suite


def test_more_repeats_cost_more_cells_and_time_and_no_more_space() -> None:
    suite, _ = load_suite(Path("suites/compare.yaml"))
    once = estimate(suite.model_copy(update={"repeats": 1}).resolved(), volumes=2)
    eight = estimate(suite.resolved(), volumes=2)
    assert eight.cells == 8 * once.cells == 16
    assert eight.wall_s == pytest.approx(8 * once.wall_s)
    assert eight.volume_bytes == once.volume_bytes
    assert 0 < eight.measured_s < eight.wall_s


def test_the_compare_suite_is_planned_within_twelve_minutes() -> None:
    suite, _ = load_suite(Path("suites/compare.yaml"))
    cost = estimate(suite.resolved(), volumes=2)
    assert cost.wall_s <= 12 * 60
    assert cost.measured_s / cost.wall_s >= 0.5


def test_a_dump_on_the_volume_needs_its_space() -> None:
    suite, _ = load_suite(Path("suites/backup-restore.yaml"))
    cost = estimate(suite.resolved(), volumes=1)
    assert cost.volume_bytes > 4 * (cost.template_bytes - 400 * 2**20)


def test_a_forecast_of_the_speed_is_in_the_estimate() -> None:
    """38,000 files at 37.3 a second take 17 minutes, with `async` at 380 a second 100 s."""
    suite, _ = load_suite(Path("suites/fsx-async-writes.yaml"))
    once = suite.model_copy(update={"repeats": 1}).resolved()
    assumed, slow, fast = (
        estimate(once, volumes=1, volume=volume).measured_s for volume in ("other", "fsx", "fsx.mode-async")
    )
    assert slow - fast == pytest.approx(38_000 / 37.3 - 100)
    assert slow - assumed > 800
