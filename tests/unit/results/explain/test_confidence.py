"""Confidence is how often findings of a cause by such evidence were true, and says what it was counted on."""

from __future__ import annotations

import dataclasses

import pytest

from volbench.results.explain.calibration import (
    CALIBRATION,
    LEFT_COUNTS,
    ONE_OF_TWO_MAX,
    PRIOR_MAX,
    SECOND,
    SECOND_MAX,
    Calibration,
    CheckOutcome,
    Counted,
    Kind,
    Left,
    LeftCounts,
    checks_key,
    fit,
    without_rounding_error,
)
from volbench.results.explain.cause import Cause, confidence_rows
from volbench.results.explain.quantile import Quantile

STALL = Cause(cause="storage.stall", window_s=(0.0, 1.0), share=None, checks=(True, True), evidence=(), advice="")


def stall(*checks: bool | None, one_of_two: bool = False) -> Cause:
    return dataclasses.replace(STALL, checks=checks, one_of_two=one_of_two)


def calibration(outcomes: list[tuple[str, str, bool]]) -> Calibration:
    kinds = {"all held": {"true": 98, "findings": 100}}
    derived = {"runs": 1, "seeds": (), "kinds": kinds, "causes": {}, "by_evidence": fit(outcomes)}
    return Calibration.model_validate({"source": "", "derived": derived})


@pytest.mark.parametrize(
    ("finding", "kind"),
    [
        (stall(True, True), "all held"),
        (stall(True, None), "some not made"),
        (stall(True, None, False), "some failed"),
        (stall(True, True, one_of_two=True), "one of two"),
    ],
)
def test_the_kind_is_what_the_checks_came_to(finding: Cause, kind: Kind) -> None:
    assert finding.kind == kind
    assert finding.confidence == min(
        CALIBRATION.confidence(kind, finding.cause), LEFT_COUNTS.confidence("not known")
    )


def test_a_check_that_failed_or_could_not_be_made_is_never_a_gain() -> None:
    """And of causes that cannot be told apart the likelier one is not sure, and any other has at most half."""
    assert stall(True, False).confidence <= stall(True, None).confidence <= stall(True, True).confidence < 1
    assert stall(True, one_of_two=True).confidence <= ONE_OF_TWO_MAX
    assert dataclasses.replace(stall(True, one_of_two=True), is_second=True).confidence <= SECOND_MAX


@pytest.mark.parametrize(
    ("kind", "cause", "evidence", "is_counted"),
    [
        ("all held", "memory.buffer_pool_small", "level", True),
        ("some not made", "storage.iops_limit", "counted", False),
        ("all held", "storage.metadata_latency", "counted", False),
        ("some failed", "storage.iops_limit", "some failed", True),  # as findings of any cause with such checks
        ("one of two", "storage.replication", "one of two", True),
    ],
)
def test_what_the_lab_never_had_is_not_counted(kind: Kind, cause: str, evidence: str, is_counted: bool) -> None:
    """Its confidence is a ceiling, and `85 %` read as a count."""
    assert CALIBRATION.is_counted(kind, cause, evidence) == is_counted
    if not is_counted:
        assert CALIBRATION.confidence(kind, cause, "counted") == PRIOR_MAX


def test_a_finding_with_a_ceiling_of_its_own_is_not_counted() -> None:
    counted = dataclasses.replace(stall(True, True), cause="memory.buffer_pool_small")
    assert counted.is_counted
    assert not dataclasses.replace(counted, confidence_max=PRIOR_MAX).is_counted


def test_the_evidence_says_what_was_counted_and_what_that_is_worth() -> None:
    checks, check, decided_by = confidence_rows(stall(True, None))
    assert checks.value == "some not made"
    assert checks.text == "1 of 2 checks holds, 1 could not be made"
    assert check.value == "not known"
    counted = LEFT_COUNTS.left["not known"]
    assert f"{counted.true} of {counted.findings} such findings were true" in check.text
    assert "one of two" in confidence_rows(stall(True, one_of_two=True))[0].text
    assert (decided_by.metric, decided_by.value) == ("decided_by", "level")


def test_a_confidence_below_what_was_counted_says_why() -> None:
    """All such findings may have been true: where nothing was rebuilt and compared, none is called very likely."""
    surest = dataclasses.replace(stall(True), cause="memory.buffer_pool_small")
    assert surest.confidence == 0.85
    assert "the confidence is 85 % at most where p95 was not computed" in confidence_rows(surest)[1].text
    second = dataclasses.replace(stall(True, one_of_two=True), is_second=True)
    assert "at most where" not in confidence_rows(second)[1].text
    assert "such findings" in confidence_rows(second)[0].text


@pytest.mark.parametrize(
    ("true", "findings", "confidence"), [(0, 0, 0.85), (3, 3, 0.94), (2, 3, 0.74), (400, 400, 0.99)]
)
def test_what_nothing_speaks_against_is_as_sure_as_it_was_counted(
    true: int, findings: int, confidence: float
) -> None:
    counted = LeftCounts(source="", left={"compared": Counted(true=true, findings=findings)})
    assert counted.confidence("compared") == pytest.approx(confidence, abs=0.001)


@pytest.mark.parametrize(("outcome", "most"), [("objected", 0.7), ("not known", 0.85), ("compared", 0.99)])
def test_what_speaks_against_a_finding_or_nothing_could_rebuild_is_never_very_likely(
    outcome: CheckOutcome, most: float
) -> None:
    counted = LeftCounts(source="", left={outcome: Counted(true=4000, findings=4000)})
    assert counted.confidence(outcome) == most


def test_p95_that_follows_makes_a_finding_no_surer() -> None:
    """Findings were as often true where it does not: one count, one confidence, one sentence for it."""
    sure = dataclasses.replace(stall(True), cause="host.io_limit", decided_by="counted")
    follows, differs = (
        dataclasses.replace(sure, rebuilt=Quantile(recorded_ms=100.0, rebuilt_ms=rebuilt_ms))
        for rebuilt_ms in (100.0, 20.0)
    )
    assert (follows.left, differs.left) == ("rebuilt", "not rebuilt")
    assert follows.confidence == differs.confidence == LEFT_COUNTS.confidence("compared")
    texts = [confidence_rows(finding)[1].text for finding in (follows, differs)]
    counts = {text.rpartition("; ")[2] for text in texts}
    assert len(counts) == 1
    assert "findings that nothing speaks against, whether p95 follows or not, were true" in counts.pop()


def test_what_was_never_counted_is_said_to_be() -> None:
    """It said `0 of 0 findings with this outcome were true`."""
    counted = LeftCounts(source="", left={})
    assert counted.describe("objected") == "such findings were never counted in volbench's lab"


@pytest.mark.parametrize(
    ("recorded_ms", "rebuilt_ms", "left"),
    [
        (100.0, 76.0, "rebuilt"),
        (100.0, 74.0, "not rebuilt"),
        (100.0, 124.0, "rebuilt"),
        (100.0, 126.0, "not rebuilt"),
    ],
)
def test_a_quantile_within_a_quarter_is_rebuilt(recorded_ms: float, rebuilt_ms: float, left: Left) -> None:
    quantile = Quantile(recorded_ms=recorded_ms, rebuilt_ms=rebuilt_ms)
    assert dataclasses.replace(stall(True), rebuilt=quantile).left == left


@pytest.mark.parametrize(
    ("recorded_ms", "rebuilt_ms", "beyond"),
    [(198.0, 100.0, False), (202.0, 100.0, True), (29.0, 10.0, False), (31.0, 10.0, True)],
)
def test_a_tail_of_twice_what_is_rebuilt_and_two_slices_is_beyond_it(
    recorded_ms: float, rebuilt_ms: float, beyond: bool
) -> None:
    assert Quantile(recorded_ms=recorded_ms, rebuilt_ms=rebuilt_ms).is_beyond == beyond


def test_a_kind_that_was_never_seen_is_a_toss_up() -> None:
    empty = {"runs": 0, "seeds": (), "kinds": {}, "causes": {}}
    assert Calibration.model_validate({"source": "", "derived": empty}).confidence("all held") == 0.5


def test_a_cause_and_its_evidence_are_counted_by_themselves() -> None:
    """A meter that was right each time lends nothing to a threshold that was wrong each second time."""
    cause = "storage.iops_limit"
    counted = calibration([(cause, "metered", True)] * 40 + [(cause, "level", True), (cause, "level", False)] * 10)
    assert counted.confidence("all held", cause, "metered") > 0.95
    assert counted.confidence("all held", cause, "level") == pytest.approx((10 + 2 * PRIOR_MAX) / 22)


def test_what_was_never_counted_is_never_very_likely() -> None:
    """Whatever other causes reach, and few findings are drawn towards the same prior."""
    counted = calibration([("host.io_limit", "metered", True)])
    assert counted.confidence("all held", "interference.io", "level") == PRIOR_MAX < 0.9
    assert PRIOR_MAX <= counted.confidence("all held", "host.io_limit", "metered") < 0.91


def test_a_confidence_is_what_is_printed_where_sums_round() -> None:
    """It is printed as 0.90, and `very likely` begins there."""
    assert without_rounding_error(0.8999999999999999) == 0.9
    assert without_rounding_error(0.8999) == 0.8999
    for true in range(200):
        counted = calibration([("a", "level", True)] * true + [("b", "level", False)] * 3)
        confidence = counted.confidence("all held", "a", "level")
        assert confidence == round(confidence, 2) or abs(confidence - round(confidence, 2)) > 1e-9


def test_fit_counts_each_cause_by_its_evidence() -> None:
    outcomes = [("a", "metered", True), ("a", "metered", False), ("a", "level", True), ("b", "level", False)]
    assert fit(outcomes) == {
        "a": {"level": Counted(true=1, findings=1), "metered": Counted(true=1, findings=2)},
        "b": {"level": Counted(true=0, findings=1)},
    }


def test_the_number_of_checks_counts_where_it_was_counted() -> None:
    """Three findings with half of their checks unmade were all wrong, twelve with most of them made all true."""
    counted = calibration([("storage.degraded", "before and after", True)] * 20)
    few, many = (True, None, None, True), (True, True, True, None)
    keys = [checks_key("some not made", checks) for checks in (few, many)]
    assert keys[0] == "some not made: 2 of 4 hold, 2 not made"
    tables = {keys[0]: Counted(true=0, findings=3), keys[1]: Counted(true=12, findings=12)}
    numbered = counted.model_copy(update={"derived": counted.derived.model_copy(update={"checks": tables})})

    def stated(*checks: bool | None, kind: Kind = "some not made") -> float:
        return numbered.confidence(kind, "storage.degraded", "before and after", checks=checks)

    pooled = 12.5 / 16
    of_kind = (12 + 2 * pooled) / 17
    assert stated(*few) == pytest.approx(2 * of_kind / 5)
    assert stated(*many) == pytest.approx((12 + 2 * of_kind) / 14)
    assert stated(True, None) == pytest.approx(of_kind)  # as many checks were never counted
    assert stated(True, False, kind="some failed") == pytest.approx(pooled)


def test_a_second_cause_is_counted_apart_from_the_likelier_one() -> None:
    checks = (True, None)
    assert checks_key("one of two", checks, is_second=True).startswith(f"{SECOND}: ")
    assert checks_key("some failed", checks, is_second=True).startswith("some failed: ")


def test_the_likelier_of_two_and_the_other_are_counted_by_themselves() -> None:
    outcomes = [("storage.iops_limit", "one of two", True)] * 20 + [("storage.iops_limit", SECOND, False)] * 20
    counted = calibration(outcomes)
    assert counted.confidence("one of two", "storage.iops_limit") == ONE_OF_TWO_MAX
    assert counted.confidence("one of two", "storage.iops_limit", is_second=True) < 0.1
