"""What of many pairs holds among all of them: the false discovery rate, each pair relative to its own level."""

from __future__ import annotations

import pytest

from volbench.results.compare.comparison_summary import PairSummary, PairVerdict, certain_among
from volbench.results.stats.sequential import relative_p


def pair(candidate: str, p_value: float | None, verdict: PairVerdict = "candidate_better") -> PairSummary:
    return PairSummary(
        baseline="base",
        candidate=candidate,
        verdict=verdict,
        better=(),
        worse=(),
        equivalent=(),
        inconclusive=(),
        alone=(),
        families=1,
        p_value=p_value,
        low_power=False,
        runs_needed=None,
        relative_p=None if p_value is None else p_value / 0.05,
    )


def test_one_pair_has_its_own_error() -> None:
    assert certain_among([pair("a", 0.049)]) == {"a"}


def test_of_many_a_single_name_has_to_hold_for_all() -> None:
    undecided = [pair(f"v{n}", 0.5, "inconclusive") for n in range(9)]
    assert certain_among([pair("a", 0.0049), *undecided]) == {"a"}
    assert certain_among([pair("a", 0.0051), *undecided]) == frozenset()


def test_where_many_differ_each_needs_less() -> None:
    named = [pair(f"v{n}", 0.02) for n in range(5)]
    undecided = [pair(f"w{n}", 0.5, "inconclusive") for n in range(5)]
    assert certain_among([*named, *undecided]) == {f"v{n}" for n in range(5)}
    assert certain_among([*named[:3], *undecided, *undecided[:2]]) == frozenset()


def test_volumes_that_are_worse_do_not_make_another_one_better() -> None:
    worse = [pair(f"v{n}", 0.001, "candidate_worse") for n in range(9)]
    assert certain_among([pair("a", 0.03), *worse]) == {f"v{n}" for n in range(9)}


def test_a_pair_without_a_test_is_not_named() -> None:
    assert certain_among([pair("a", 0.01), *(pair(name, None, "inconclusive") for name in "bc")]) == {"a"}


def test_p_values_of_looks_are_in_the_order_of_looks() -> None:
    """3 cells: p of 5 %; 5 cells: the levels of 3 and 4 cells came before."""
    assert relative_p(0.001, 3, 0.0095) == pytest.approx(0.02)
    assert relative_p(0.001, 5, 0.0045) == pytest.approx((0.0095 + 0.0055 + 0.001) / 0.05)
    assert relative_p(0.001, 5, 0.05) == pytest.approx(0.02)
    assert relative_p(0.001, 5, 0.01) == pytest.approx(0.1)


def test_equivalent_pairs_are_not_named() -> None:
    assert certain_among([pair("a", 0.0001, "equivalent"), pair("b", 0.0001, "mixed")]) == {"b"}
