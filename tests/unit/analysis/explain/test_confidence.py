"""Confidence is how often findings of the same kind were true, and says what it was counted on."""

from __future__ import annotations

import dataclasses

import pytest

from volbench.analysis.explain.calibration import CALIBRATION, Calibration, Kind
from volbench.analysis.explain.found import Found, confidence_row

FOUND = Found(cause="storage.stall", window_s=(0.0, 1.0), share=None, checks=(True, True), evidence=(), advice="")


def found(*checks: bool | None, one_of_two: bool = False) -> Found:
    return dataclasses.replace(FOUND, checks=checks, one_of_two=one_of_two)


@pytest.mark.parametrize(
    ("one", "kind"),
    [
        (found(True, True), "all held"),
        (found(True, None), "some not made"),
        (found(True, None, False), "some failed"),
        (found(True, True, one_of_two=True), "one of two"),
    ],
)
def test_the_kind_is_what_the_checks_came_to(one: Found, kind: Kind) -> None:
    assert one.kind == kind
    assert one.confidence == CALIBRATION.confidence(kind)


def test_a_check_that_failed_or_could_not_be_made_is_never_a_gain() -> None:
    """And of two causes that cannot be told apart each has half."""
    assert found(True, False).confidence <= found(True, None).confidence <= found(True, True).confidence < 1
    assert found(True, one_of_two=True).confidence == pytest.approx(0.5, abs=0.05)


def test_the_evidence_says_what_was_counted_and_what_that_is_worth() -> None:
    one = confidence_row(found(True, None))
    assert one.value == "some not made"
    assert one.text.startswith("1 of 2 checks hold, 1 could not be made; ")
    assert f" of {CALIBRATION.derived.kinds['some not made'].findings} such findings were true" in one.text
    assert "other faults, machines and loads may differ" in one.text
    assert "one of two" in confidence_row(found(True, one_of_two=True)).text


def test_a_kind_that_was_never_seen_is_a_toss_up() -> None:
    empty = {"runs": 0, "seeds": (), "kinds": {}, "causes": {}}
    assert Calibration.model_validate({"source": "", "derived": empty}).confidence("all held") == 0.5
