"""The time of transactions by interval, from clients and throughput."""

from __future__ import annotations

import numpy as np
import pytest

from volbench.results.explain.check.claimed_times import little_by_interval_ms


def test_n_clients_with_x_a_second_take_n_over_x() -> None:
    assert little_by_interval_ms(10, np.array([100.0, 50.0]), 1.0) == pytest.approx([100.0, 200.0])
    assert little_by_interval_ms(10, np.array([100.0, 50.0]), 0.5) == pytest.approx([100.0, 200.0])


def test_what_ends_after_a_stand_has_waited_in_it() -> None:
    times_ms = little_by_interval_ms(10, np.array([100.0, 0.0, 0.0, 50.0, 0.0]), 1.0)
    assert times_ms[:4] == pytest.approx([100.0, 600.0, 600.0, 600.0])
    assert np.isnan(times_ms[4])


def test_intervals_with_fewer_than_the_clients_are_taken_together() -> None:
    """Four, three and five of ten clients: all have ended once after 3 s; a busy interval stays by itself."""
    assert little_by_interval_ms(10, np.array([4.0, 3.0, 5.0]), 1.0) == pytest.approx([2500.0] * 3)
    assert little_by_interval_ms(10, np.array([4.0, 100.0]), 1.0) == pytest.approx([2500.0, 100.0])
