"""Designs of sweeps, against the tables of NIST's e-Handbook (5.3.3.4.7) and by their own algebra."""

from __future__ import annotations

from itertools import combinations

import pytest

from volbench.errors import UsageError
from volbench.plan.describe import alias_groups, sweep_lines
from volbench.plan.designs import combinations_of, fraction
from volbench.records.sweep import Factor, SweepSpec

LETTERS = "ABCDEFGH"


def two_levels(count: int, **more: object) -> SweepSpec:
    factors = {f"volume.{name}": Factor(base=0, levels=(1,)) for name in LETTERS[:count]}
    return SweepSpec.model_validate({"factors": factors, **more})


@pytest.mark.parametrize(
    ("factors", "resolution", "runs"),
    [(3, 3, 4), (4, 4, 8), (5, 3, 8), (5, 5, 16), (6, 3, 8), (6, 4, 16), (6, 6, 32), (7, 3, 8), (7, 4, 16),
     (7, 7, 64), (8, 4, 16), (8, 5, 64)],
)  # fmt: skip
def test_fractions_have_the_published_runs_and_resolution(factors: int, resolution: int, runs: int) -> None:
    found = fraction(LETTERS[:factors], resolution=resolution)
    assert (found.resolution, len(found.runs)) == (resolution, runs)


@pytest.mark.parametrize("factors", range(3, 9))
@pytest.mark.parametrize("resolution", [3, 4, 5])
def test_columns_of_a_fraction_are_orthogonal_and_projections_of_its_strength_full(
    factors: int, resolution: int
) -> None:
    if (factors, resolution) in {(3, 4), (3, 5), (4, 5), (7, 5)} and factors < 5:
        with pytest.raises(UsageError, match="no fraction"):
            fraction(LETTERS[:factors], resolution=resolution)
        return
    found = fraction(LETTERS[:factors], resolution=resolution)
    strength = found.resolution - 1
    for chosen in combinations(range(factors), strength):
        seen = [tuple(run[i] for i in chosen) for run in found.runs]
        assert {seen.count(row) for row in seen} == {len(found.runs) // 2**strength}
    assert len(set(found.runs)) == len(found.runs)


def test_the_aliases_of_the_half_fraction_of_four_factors_are_the_published_ones() -> None:
    """I = ABCD: AB = CD, AC = BD, AD = BC; main effects only with three-factor interactions."""
    groups = alias_groups(two_levels(4, design="fractional"))
    short = [{"".join(name[-1] for name in term) for term in group} for group in groups]
    assert short == [{"AB", "CD"}, {"AC", "BD"}, {"AD", "BC"}]


def test_aliases_are_exactly_the_terms_whose_columns_agree() -> None:
    found = fraction(LETTERS[:6], resolution=3)
    terms = [(a,) for a in LETTERS[:6]] + list(combinations(LETTERS[:6], 2))

    def column(term: tuple[str, ...]) -> tuple[int, ...]:
        signs = []
        for run in found.runs:
            sign = 1
            for name in term:
                sign *= 2 * run[LETTERS.index(name)] - 1
            signs.append(sign)
        return tuple(signs)

    for term in terms:
        agreeing = {other for other in terms if other != term and column(other) == column(term)}
        assert set(found.aliases(term)) == agreeing


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
    found = combinations_of(sweep)
    assert found[0] == {"volume.a": 1, "volume.b": 0}
    assert len({tuple(c.values()) for c in found}) == len(found) == 6


def test_a_fraction_of_three_values_and_a_design_that_is_too_large_are_refused() -> None:
    three = SweepSpec.model_validate(
        {"design": "fractional", "factors": {f"volume.{n}": {"base": 0, "levels": [1, 2]} for n in "abc"}}
    )
    with pytest.raises(UsageError, match="two values a factor"):
        combinations_of(three)
    with pytest.raises(UsageError, match="512 combinations"):
        combinations_of(
            SweepSpec(design="full", factors={f"volume.{n}": Factor(base=0, levels=(1,)) for n in range(9)})
        )


def test_the_plan_says_what_a_fraction_cannot_tell_apart() -> None:
    text = "\n".join(sweep_lines(two_levels(4, design="fractional")))
    assert "8 combinations" in text
    assert "resolution 4" in text
    assert "volume.A × volume.B = volume.C × volume.D" in text
    assert "cannot" not in "\n".join(sweep_lines(two_levels(3, design="full")))
