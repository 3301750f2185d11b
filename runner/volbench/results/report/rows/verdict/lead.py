"""A finding in words: its heading, how sure it is, and the sentence that a report of one volume begins with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from volbench.core.base.text import lower_first, percent, upper_first
from volbench.core.records.report import FindingRow
from volbench.results.explain.calibration import CALIBRATION, Kind
from volbench.results.explain.causes import CAUSES

CONFIDENCE_MAX = 0.99
"""Confidences are counted on a few hundred runs: whole percents, and none of 100 %."""
_LIKELIHOODS = ((0.9, "very likely"), (0.7, "likely"), (0.4, "possible"), (0.0, "a hint only"))
NONE = "none"
INVALID_ONLY = "the step or a part of it is invalid in every cell of this volume"
"""Causes are of a step with all of its parts: one invalid part spoils them, while the figure of the whole may be
valid."""
CHECKS, DECIDED_BY, DECIDE = "checks", "decided_by", "decide"
"""Metrics of the evidence rows that a confidence rests on, and of the one with a measurement that would decide."""


def lead(findings: Sequence[FindingRow]) -> str:
    """Return what a report of one volume begins with: the first cause in words, with its figures and its advice.

    One of a step with a valid cell comes first. Of causes that cannot be told apart both are named, and what would
    decide. Empty without a finding.
    """
    named = sorted(
        (finding for finding in findings if finding.cause != NONE), key=lambda finding: not finding.valid
    )
    if not named:
        return f"{cause_title(NONE)}." if findings else ""
    first = named[0]
    further = [finding for finding in named[1:] if finding.step == first.step and finding.cause != first.cause]
    alike = next((finding for finding in further if is_undecided(first) and is_undecided(finding)), None)
    title = cause_title(first.cause)
    if alike is not None:
        title = f"One of two causes: {lower_first(title)}, or {lower_first(cause_title(alike.cause))}"
    where = f" in step {first.step}"
    if first.window_s is not None:
        where += f", from second {first.window_s[0]:.0f} to {first.window_s[1]:.0f} of the run"
    sentences = [f"{title}{where}.", *([f"{upper_first(certainty(first))}."] if certainty(first) else [])]
    sentences += [f"{upper_first(row.text)}." for row in first.evidence[:1]]
    decides = next((row.text for row in first.evidence if row.metric == DECIDE), "")
    sentences.append(f"{upper_first(decides)}." if decides and alike is not None else first.advice)
    return " ".join(sentences)


def is_undecided(finding: FindingRow) -> bool:
    """Return whether it is one of two causes that the evidence does not tell apart."""
    return any(row.metric == CHECKS and row.value == "one of two" for row in finding.evidence)


def certainty(finding: FindingRow) -> str:
    """Return `very likely, confidence 97 %; explains 63 % of the latency; seen in invalid cells only`, as known."""
    clauses = []
    if finding.confidence is not None:
        clauses.append(f"{likelihood(finding)}, {confidence_text(finding)}")
    if finding.share is not None:
        clauses.append(f"explains {percent(finding.share)} of the {finding.share_of}")
    if not finding.valid:
        clauses.append(INVALID_ONLY)
    return "; ".join(clauses)


def confidence_text(finding: FindingRow) -> str:
    """Return `confidence 92 %`, whole per cents and none of 100 %; `not counted` of a ceiling."""
    if not is_counted(finding):
        return "not counted"
    return f"confidence {percent(min(CONFIDENCE_MAX, round(finding.confidence or 0.0, 2)))}"


def is_counted(finding: FindingRow) -> bool:
    """Return whether its confidence is a count; an older report does not say so, but what it is counted by."""
    if finding.counted is not None:
        return finding.counted
    values = {row.metric: row.value for row in finding.evidence}
    kind, evidence = values.get(CHECKS), values.get(DECIDED_BY)
    if not isinstance(kind, str) or not isinstance(evidence, str):
        return True
    return CALIBRATION.is_counted(cast("Kind", kind), finding.cause, evidence)


def likelihood(finding: FindingRow) -> str:
    """Return `very likely`, `likely`, `possible` or `a hint only`; empty without a confidence."""
    confidence = finding.confidence
    return (
        ""
        if confidence is None
        else next(likelihood_text for least, likelihood_text in _LIKELIHOODS if confidence >= least)
    )


def cause_title(cause: str) -> str:
    """Return a cause in words; its name where it has no title."""
    return CAUSES[cause].title if cause in CAUSES else cause


def is_hint(finding: FindingRow) -> bool:
    """Return whether the confidence is too low for more than a hint; without a confidence it is no hint."""
    return finding.confidence is not None and finding.confidence < _LIKELIHOODS[-2][0]
