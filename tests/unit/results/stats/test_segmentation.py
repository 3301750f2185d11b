"""Binary segmentation asks its caller for each segment's split, and knows the levels around each."""

from __future__ import annotations

import numpy as np

from volbench.results.stats.segmentation import levels_around, midranks, split_points

STEPS = (4, 9, 12)


def first_step(start: int, end: int) -> int | None:
    return next((step for step in STEPS if start < step < end), None)


def test_segments_are_split_until_none_has_a_split() -> None:
    assert split_points(20, first_step) == [4, 9, 12]
    assert split_points(20, lambda _start, _end: None) == []


def test_the_search_ends_with_the_last_point_that_is_allowed() -> None:
    assert split_points(20, first_step, most=2) == [4, 9]


def test_a_level_reaches_from_one_point_to_the_next() -> None:
    assert [*levels_around([4, 9], 20)] == [(0, 4, 9), (4, 9, 20)]
    assert [*levels_around([], 20)] == []


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    assert midranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [3.5, 1.0, 3.5, 2.0]
