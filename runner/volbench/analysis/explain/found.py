"""A cause found in one step, before the repeats are put together; and how sure of it the rule is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from volbench.records.report import EvidenceRow

RIGHT, WRONG = 19.0, 1.0
"""What is taken for known before a finding's own checks, as so many checks that held and did not: 73 of 76 findings
were true on those of the lab's runs that rules were mended on."""
CALIBRATED = False
"""Whether confidences were compared with how often the rules were right on known faults."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """One cause. `share` is the part of the latency that it explains, None where that cannot be said."""

    cause: str
    window_s: tuple[float, float]
    share: float | None
    confidence: float
    evidence: tuple[EvidenceRow, ...]
    advice: str


def confidence_of(checks: Sequence[bool | None]) -> float:
    """(held + RIGHT) / (made + RIGHT + WRONG): how often rules that fired were right, moved by this one's checks.

    A check that could not be made says nothing, neither for the cause nor against it.
    """
    made = [check for check in checks if check is not None]
    return (sum(made) + RIGHT) / (len(made) + RIGHT + WRONG)


def confidence_row(checks: Sequence[bool | None]) -> EvidenceRow:
    """What the confidence rests on, so that nobody takes it for a frequency."""
    held, unmade = sum(check is True for check in checks), sum(check is None for check in checks)
    text = f"{held} of {len(checks)} checks hold" + (f", {unmade} could not be made" if unmade else "")
    if not CALIBRATED:
        text += "; the confidence counts checks and is uncalibrated"
    return EvidenceRow(metric="confidence", value=confidence_of(checks), unit="1", text=text)
