"""A cause found in one step, before the repeats are put together; and how sure of it the rule is."""

from __future__ import annotations

from dataclasses import dataclass

from volbench.core.records.report import EvidenceRow
from volbench.results.explain.calibration import (
    CALIBRATION,
    RECORDINGS,
    Calibration,
    Evidence,
    Kind,
    evidence_kind,
)


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One cause. `share` is the part of the latency that it explains, None where that cannot be said.

    A check of `checks` that could not be made is None. `one_of_two`: the evidence does not tell it from another
    cause; `is_second`: a likelier one of them is named before it. `recorded`: it is from what other tools wrote.
    `decided_by` is the evidence that names it. `of_clients`: the share is of the clients' time already, not of
    statement time. `explains_fall`: it explains why the load does much less for a while, as causes do whose
    descriptor says so (`CauseInfo`).
    """

    cause: str
    window_s: tuple[float, float]
    share: float | None
    checks: tuple[bool | None, ...]
    evidence: tuple[EvidenceRow, ...]
    advice: str
    one_of_two: bool = False
    recorded: bool = False
    decided_by: Evidence = "level"
    is_second: bool = False
    of_clients: bool = False
    explains_fall: bool = False

    @property
    def kind(self) -> Kind:
        """What its checks came to: findings of one kind are equally sure."""
        if self.one_of_two:
            return "one of two"
        if any(check is False for check in self.checks):
            return "some failed"
        return "some not made" if any(check is None for check in self.checks) else "all held"

    @property
    def evidence_kind(self) -> str:
        """What its confidence is counted by, besides its cause."""
        return evidence_kind(self.kind, self.decided_by, is_second=self.is_second)

    @property
    def confidence(self) -> float:
        """How often findings of this cause by such evidence were true, where causes were made on purpose."""
        return self.calibration.confidence(
            self.kind, self.cause, self.decided_by, is_second=self.is_second, checks=self.checks
        )

    @property
    def calibration(self) -> Calibration:
        """What its confidence is counted on: runs of the lab, or recordings of sar and iostat."""
        return RECORDINGS if self.recorded else CALIBRATION


def confidence_rows(cause: Cause) -> tuple[EvidenceRow, EvidenceRow]:
    """What the confidence rests on, and what it does not say."""
    passed, unmade = sum(check is True for check in cause.checks), sum(check is None for check in cause.checks)
    text = f"{passed} of {len(cause.checks)} checks hold" + (f", {unmade} could not be made" if unmade else "")
    text += ", and it is one of two causes that cannot be told apart" if cause.one_of_two else ""
    counted = cause.calibration.describe_counts(
        cause.kind, cause.cause, cause.decided_by, is_second=cause.is_second, checks=cause.checks
    )
    return (
        EvidenceRow(metric="checks", value=cause.kind, text=f"{text}; {counted}"),
        EvidenceRow(
            metric="decided_by", value=cause.evidence_kind, text=f"decided by: {_DECIDED_BY[cause.decided_by]}"
        ),
    )


_DECIDED_BY: dict[Evidence, str] = {
    "counted": "a counter or a configured limit that says so",
    "metered": "a rate that is as regular as a meter's",
    "before and after": "a change at one time, against the rest of the step",
    "level": "figures beyond a threshold",
}
