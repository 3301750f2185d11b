"""Stretches of a mask: first and last + 1 index of each run of true values."""

from __future__ import annotations

import numpy as np
import pytest

from volbench.results.stats.grid import true_runs


@pytest.mark.parametrize(
    ("mask", "runs"),
    [
        ("", []),
        ("000", []),
        ("111", [(0, 3)]),
        ("0110", [(1, 3)]),
        ("101", [(0, 1), (2, 3)]),
        ("1001101", [(0, 1), (3, 5), (6, 7)]),
    ],
)
def test_each_run_has_its_first_index_and_the_one_after_its_last(mask: str, runs: list[tuple[int, int]]) -> None:
    assert true_runs(np.array([digit == "1" for digit in mask], dtype=np.bool_)) == runs
