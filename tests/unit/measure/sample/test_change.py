"""Differences of counters are absent rather than wrong."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from volbench.measure.sample.change import MIB, Change, ratio
from volbench.measure.sample.interface import Reading


def change(before: dict[str, float], after: dict[str, float], dt_s: float = 2.0) -> Change:
    return Change(
        source="x",
        before=Reading(t_s=10.0, values={(name, ""): value for name, value in before.items()}),
        after=Reading(t_s=10.0 + dt_s, values={(name, ""): value for name, value in after.items()}),
    )


def test_a_rate_is_growth_over_time() -> None:
    assert change({"n": 5}, {"n": 11}).per_s("n") == 3.0
    assert change({"n": 0}, {"n": 4 * MIB}).per_s("n", unit=MIB) == 2.0


def test_a_counter_that_went_backwards_has_no_growth() -> None:
    assert change({"n": 5}, {"n": 4}).grown("n") is None


def test_a_counter_that_one_reading_lacks_has_no_growth() -> None:
    assert change({}, {"n": 4}).per_s("n") is None
    assert change({"n": 4}, {}).per_s("n") is None


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**31))
def test_a_32_bit_counter_that_wrapped_grew_by_what_was_added(start: int, added: int) -> None:
    assert change({"ms": start}, {"ms": (start + added) % 2**32}).grown_32bit("ms") == added


@given(st.integers(1, 2**31 - 1))
def test_a_32_bit_counter_that_went_back_is_not_taken_for_a_wrap(back: int) -> None:
    assert change({"ms": 2**31}, {"ms": 2**31 - back}).grown_32bit("ms") is None


def test_no_time_passed_is_not_usable() -> None:
    assert not change({}, {}, dt_s=0.0).usable


def test_a_ratio_over_nothing_is_absent() -> None:
    assert ratio(5, 0) is None
    assert ratio(None, 3) is None
    assert ratio(0, 3) == 0.0


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    assert change({"a": 1, "b": 9}, {"a": 3, "b": 1}).grown_sum(("a", "b")) is None
    assert change({"a": 1, "b": 1}, {"a": 3, "b": 4}).grown_sum(("a", "b")) == 5
