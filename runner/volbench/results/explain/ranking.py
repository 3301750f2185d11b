"""In which order findings are given: by what they explain, hints last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from volbench.core.records.report import FindingRow
from volbench.results.explain.cause import Cause
from volbench.results.explain.causes import CAUSES, OF_VOLUME

ALL_ALONG = frozenset(name for name, cause in CAUSES.items() if cause.all_along)
_OF_OTHERS = frozenset(name for name, cause in CAUSES.items() if cause.is_of_others)
Finding = TypeVar("Finding", Cause, FindingRow)
_LIKELY = 0.5
_UNKNOWN_SHARE = 0.2
"""Where a share cannot be said, for the order of findings only; it is never shown."""


def ranked_by(findings: Sequence[Finding], weight: Callable[[Finding], float]) -> list[Finding]:
    """Findings by weight, descending, hints last.

    Of causes of the volume that cannot be told apart only the first has its whole weight: they explain one thing.
    Of equal weights the volume's own limits and changes come before what others do to it.
    """
    ranked = sorted(findings, key=lambda finding: (weight(finding), not _is_of_others(finding)), reverse=True)
    pair = [finding for finding in ranked if finding.cause in OF_VOLUME and _is_undecided(finding)]
    ranked.sort(key=lambda finding: weight(finding) / (2 if finding in pair[1:] else 1), reverse=True)
    return sorted(ranked, key=_is_hint)


def _is_undecided(finding: Cause | FindingRow) -> bool:
    """Whether it is one of two causes that the evidence does not tell apart."""
    return _kind(finding) == "one of two"


def _is_of_others(finding: Cause | FindingRow) -> bool:
    return finding.cause in _OF_OTHERS


def _is_hint(finding: Cause | FindingRow) -> bool:
    """Whether a check of it failed and it is less likely than not: whatever is likelier comes before it."""
    return _kind(finding) == "some failed" and (finding.confidence or 0.0) < _LIKELY


def _kind(finding: Cause | FindingRow) -> str:
    """What its checks came to; of a row of a report, as its evidence says."""
    if isinstance(finding, Cause):
        return finding.kind
    return next((str(piece.value) for piece in finding.evidence if piece.metric == "checks"), "")


def _is_objected(finding: Cause | FindingRow) -> bool:
    """Whether something speaks against it without refuting it."""
    if isinstance(finding, Cause):
        return finding.left == "objected"
    return any(piece.metric == "check" and piece.value == "objected" for piece in finding.evidence)


def weight_of(findings: Cause | FindingRow, loss: float) -> float:
    """What findings are ranked by: what they explain.

    `loss` is the share of its speed that the load lost to something beside it: what was there before explains only
    the rest of the latency that it rose to. What evidence speaks against, or is less likely than not, counts as far
    as it is likely. Otherwise confidences are no part of it: of two causes that cannot be told apart each has half,
    and both together explain no less.
    """
    share = _UNKNOWN_SHARE if findings.share is None else findings.share
    is_all_along = findings.cause in ALL_ALONG and not any(piece.metric == "loss" for piece in findings.evidence)
    confidence = None if _is_undecided(findings) else findings.confidence
    likely = 1.0 if confidence is None else confidence
    is_doubtful = likely < _LIKELY or _is_objected(findings)
    return share * (1 - loss if is_all_along else 1) * (likely if is_doubtful else 1)


def loss_of(findings: Sequence[Cause | FindingRow]) -> float:
    """The most speed that something beside the load took while it ran, as a share; 0 where nothing did."""
    with_confidence = [piece.value for finding in findings for piece in finding.evidence if piece.metric == "loss"]
    return max((float(value) for value in with_confidence if isinstance(value, int | float)), default=0.0)
