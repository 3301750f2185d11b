"""The watch of the device at rest is as short as one interval of the samplers' grid allows."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from volbench.core.records.cell import AT_REST_SHARE
from volbench.measure.execute.cell.owned_cell import QUIET_S, QUIET_S_MAX, quiet_duration_s


@given(st.sampled_from([0.1, 0.25, 0.5, 1.0, 2.0]), st.floats(min_value=0.0, max_value=1000.0))
def test_it_has_nearly_a_whole_interval_and_the_reading_at_its_end(interval_s: float, now_s: float) -> None:
    """The samplers have just read, so the interval begins now."""
    end_s = now_s + quiet_duration_s(interval_s, now_s=now_s)
    last_tick_s = math.floor((end_s - 0.09 * interval_s) / interval_s) * interval_s
    assert last_tick_s - now_s >= AT_REST_SHARE * interval_s - 1e-6
    assert end_s - now_s <= max(QUIET_S, (1.1 + AT_REST_SHARE) * interval_s) + 1e-6


def test_a_cell_that_begins_with_its_zero_is_watched_for_one_interval() -> None:
    assert quiet_duration_s(1.0, now_s=0.05) < 1.06
    assert quiet_duration_s(1.0, now_s=0.2) < 1.01


def test_a_grid_without_a_whole_interval_in_time_is_not_waited_for() -> None:
    assert quiet_duration_s(QUIET_S_MAX, now_s=0.5) == QUIET_S
