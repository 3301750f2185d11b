"""A cause found in one step, before the repeats are put together; and how sure of it the rule is."""

from __future__ import annotations

from dataclasses import dataclass

from volbench.core.base.text import part_of
from volbench.core.records.report import EvidenceRow, ShareBase
from volbench.results.explain.calibration import (
    CALIBRATION,
    CONFIDENCE_MAX,
    LEFT_COUNTS,
    LEFT_MAX,
    OUTCOMES,
    RECORDINGS,
    Calibration,
    CheckOutcome,
    Evidence,
    Kind,
    Left,
    evidence_kind,
)
from volbench.results.explain.objection import Objection
from volbench.results.explain.quantile import Quantile
from volbench.results.explain.wording import number, percent

VOLUME_CHANGES_LITTLE = "A faster volume changes little."


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One cause. `share` is the part of the latency that it explains, None where that cannot be said.

    A check of `checks` that could not be made is None. `one_of_two`: the evidence does not tell it from another
    cause; `is_second`: a likelier one of them is named before it. `recorded`: it is from what other tools wrote.
    `decided_by` is the evidence that names it. `of_clients`: the share is of the clients' time, which a client
    measures as latency, not of statement time (`clients_time`). `explains_fall`: it explains why the load does much
    less for a while, as causes do whose descriptor says so (`CauseInfo`). `confidence_max`: of findings never
    counted outside the lab. `rule`: the name of what found it. `leads`: of others' I/O, whether it comes before
    limits that are met with it. `objections`: what the check has against it, without refuting it; `rebuilt`: p95 of
    the transactions, as recorded and as rebuilt from what they did and waited for. `volume_advice`: that a faster
    volume changes little; only advice where that helps no other finding of the step, see `finding_rows`.
    """

    cause: str
    window_s: tuple[float, float]
    share: float | None
    checks: tuple[bool | None, ...]
    evidence: tuple[EvidenceRow, ...]
    advice: str
    volume_advice: str = ""
    one_of_two: bool = False
    recorded: bool = False
    decided_by: Evidence = "level"
    is_second: bool = False
    of_clients: bool = False
    explains_fall: bool = False
    confidence_max: float = 1.0
    rule: str = ""
    leads: bool = True
    objections: tuple[Objection, ...] = ()
    rebuilt: Quantile | None = None

    @property
    def share_of(self) -> ShareBase:
        """Whose part the share is, as a report says it."""
        return "latency" if self.of_clients else "statement time"

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
    def left(self) -> Left:
        """What the check leaves of it."""
        if self.objections:
            return "objected"
        if self.rebuilt is None:
            return "not known"
        return "rebuilt" if self.rebuilt.is_alike else "not rebuilt"

    @property
    def outcome(self) -> CheckOutcome:
        """What its confidence is counted by, of what the check leaves."""
        return OUTCOMES[self.left]

    @property
    def confidence(self) -> float:
        """What the check leaves of it, and no more than its rule's evidence was worth in the lab.

        Of recordings, which hardly ever have what p95 is rebuilt from, it is what was counted on recordings.
        """
        by_rule = self.calibration.confidence(
            self.kind, self.cause, self.decided_by, is_second=self.is_second, checks=self.checks
        )
        counted = (
            CONFIDENCE_MAX if self.recorded and self.left == "not known" else LEFT_COUNTS.confidence(self.outcome)
        )
        return min(by_rule, counted, self.confidence_max)

    @property
    def is_counted(self) -> bool:
        """Whether findings of this cause by such evidence were counted; else its confidence is a ceiling."""
        return self.confidence_max == 1 and self.calibration.is_counted(self.kind, self.cause, self.evidence_kind)

    @property
    def calibration(self) -> Calibration:
        """What its confidence is counted on: runs of the lab, or recordings of sar and iostat."""
        return RECORDINGS if self.recorded else CALIBRATION


def confidence_rows(cause: Cause) -> tuple[EvidenceRow, ...]:
    """What the confidence rests on, and what it does not say."""
    passed, unmade = sum(check is True for check in cause.checks), sum(check is None for check in cause.checks)
    text = part_of(passed, len(cause.checks), ("check", "checks"), ("holds", "hold")) + (
        f", {unmade} could not be made" if unmade else ""
    )
    text += ", and it is one of two causes that fit this evidence equally well" if cause.one_of_two else ""
    if cause.confidence_max < 1:
        text += f"; outside the lab such findings were never counted: at most {cause.confidence_max:g}"
    elif cause.recorded or cause.confidence < LEFT_COUNTS.confidence(cause.outcome):
        text += "; " + cause.calibration.describe_counts(
            cause.kind,
            cause.cause,
            cause.decided_by,
            is_second=cause.is_second,
            checks=cause.checks,
            confidence=cause.confidence,
        )
    return (
        EvidenceRow(metric="checks", value=cause.kind, text=text),
        EvidenceRow(metric="check", value=cause.left, text=_left_text(cause)),
        *(
            EvidenceRow(
                metric="objection", value=objection.law, text=f"against it, by {objection.law}: {objection.text}"
            )
            for objection in cause.objections
        ),
        EvidenceRow(
            metric="decided_by", value=cause.evidence_kind, text=f"decided by: {_DECIDED_BY[cause.decided_by]}"
        ),
    )


def _bound_text(cause: Cause) -> str:
    """Why the confidence is less than such findings came true, where it is."""
    most = LEFT_MAX.get(cause.outcome)
    if cause.recorded and cause.left == "not known":
        return ""  # of recordings nothing bounds it, see `Cause.confidence`
    if most is None or LEFT_COUNTS.confidence(cause.outcome) < most or cause.confidence < most:
        return ""
    bound_by = "something speaks against it" if cause.objections else "p95 was not computed and compared"
    return f"; the confidence is {percent(most)} at most where {bound_by}"


def _left_text(cause: Cause) -> str:
    """What the check found, with the counts of such findings."""
    counted = LEFT_COUNTS.describe(cause.outcome) + _bound_text(cause)
    if cause.objections:
        return f"something speaks against it; {counted}"
    if cause.rebuilt is None:
        return f"nothing refutes it, and p95 cannot be computed from its waits; {counted}"
    rebuilt_ms, recorded_ms = cause.rebuilt.rebuilt_ms, cause.rebuilt.recorded_ms
    figures = (
        f"computed from the waits of a transaction it is {number(rebuilt_ms)} ms, recorded {number(recorded_ms)} ms"
    )
    follows = (
        "nothing refutes it, and p95 follows"
        if cause.rebuilt.is_alike
        else "nothing refutes it, but p95 does not follow"
    )
    return f"{follows} from it: {figures}; {counted}"


_DECIDED_BY: dict[Evidence, str] = {
    "counted": "a counter or a configured limit that says so",
    "metered": "a rate that is as regular as a meter's",
    "before and after": "a change at one time, against the rest of the step",
    "level": "figures beyond a threshold",
}
