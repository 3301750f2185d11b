"""Designs of sweeps: which combinations they run."""

from __future__ import annotations

import pytest

from volbench.core.plan.designs import combinations_of
from volbench.core.records.sweep import Factor, SweepSpec
from volbench.errors import UsageError


def test_one_factor_at_a_time_changes_one_factor_of_the_base_each_time() -> None:
    sweep = SweepSpec.model_validate(
        {"factors": {"volume.a": {"base": 1, "levels": [2, 3]}, "volume.b": {"base": "x", "levels": "y"}}}
    )
    assert combinations_of(sweep) == [
        {"volume.a": 1, "volume.b": "x"},
        {"volume.a": 2, "volume.b": "x"},
        {"volume.a": 3, "volume.b": "x"},
        {"volume.a": 1, "volume.b": "y"},
    ]


def test_a_full_design_has_every_combination_once_the_base_first() -> None:
    sweep = SweepSpec.model_validate(
        {
            "design": "full",
            "factors": {"volume.a": {"base": 1, "levels": [2, 3]}, "volume.b": {"base": 0, "levels": 1}},
        }
    )
    combinations = combinations_of(sweep)
    assert combinations[0] == {"volume.a": 1, "volume.b": 0}
    assert len({tuple(c.values()) for c in combinations}) == len(combinations) == 6


def test_a_design_that_is_too_large_is_refused() -> None:
    factors = {f"volume.{n}": Factor(base=0, levels=(1,)) for n in range(9)}
    with pytest.raises(UsageError, match="512 combinations"):
        combinations_of(SweepSpec(design="full", factors=factors))
