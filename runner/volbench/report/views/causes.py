"""Causes as a report shows them: a heading in words, the confidence, and the chart that shows the cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import median

from volbench.analysis.explain.causes import CAUSES
from volbench.base.text import percent
from volbench.records.report import CellRow, EvidenceRow, FindingRow

CONFIDENCE_MAX = 0.99
"""Confidences are counted on a few hundred runs: whole percents, and none of 100 %."""
_LIKELIHOODS = ((0.9, "very likely"), (0.7, "likely"), (0.4, "possible"), (0.0, "a hint only"))
NONE = "none"
LOCATIONS_MAX = 3
"""Further volumes and steps that one line about a cause names."""
CHECKS, DECIDED_BY, DECIDE = "checks", "decided_by", "decide"
"""Metrics of the evidence rows that a confidence rests on, and of the one with a measurement that would decide."""
_NOT_FACTS = (CHECKS, DECIDED_BY, "loss")


@dataclass(frozen=True, kw_only=True)
class CauseView:
    """A finding as a page shows it.

    Args:
        title: the heading.
        certainty: confidence and explained share in words with figures; empty where neither is known.
        facts: evidence that a reader can check.
        confidence_basis: evidence rows that the confidence was calculated from.
        panel: key of the chart that shows the cause; empty without one.
    """

    finding: FindingRow
    title: str
    certainty: str
    facts: tuple[EvidenceRow, ...]
    confidence_basis: tuple[EvidenceRow, ...]
    panel: str


def cause_view(finding: FindingRow, panels: Collection[str]) -> CauseView:
    """Return a finding for a page that has these panels (their keys)."""
    panel_keys = CAUSES[finding.cause].panels if finding.cause in CAUSES else ()
    return CauseView(
        finding=finding,
        title=cause_title(finding.cause),
        certainty=certainty(finding),
        facts=_facts(finding),
        confidence_basis=tuple(row for row in finding.evidence if row.metric in (CHECKS, DECIDED_BY)),
        panel=next((key for key in panel_keys if key in panels), ""),
    )


def _facts(finding: FindingRow) -> tuple[EvidenceRow, ...]:
    """Return the evidence that a reader can check; the lost speed only where nothing else says what it did."""
    facts = tuple(row for row in finding.evidence if row.metric not in _NOT_FACTS)
    if any(row.metric != "cells" for row in facts):
        return facts
    return (*(row for row in finding.evidence if row.metric == "loss"), *facts)


def cause_title(cause: str) -> str:
    """Return a cause in words; its name where it has no title."""
    return CAUSES[cause].title if cause in CAUSES else cause


@dataclass(frozen=True, kw_only=True)
class CauseGroup:
    """Findings of one cause on several volumes or in several steps.

    Args:
        strongest: the finding that stands for the group: the first of them in the order of a summary.
        further: the rest of the findings of the cause, in the same order.
    """

    strongest: FindingRow
    further: tuple[FindingRow, ...]

    @property
    def location(self) -> str:
        """Return `gp2 (morning), also gp2 (night)`: where the cause was observed, the strongest first."""
        first, *further = (f"{finding.volume} ({finding.step})" for finding in (self.strongest, *self.further))
        if not further:
            return first
        hidden = len(further) - LOCATIONS_MAX
        return f"{first}, also {', '.join(further[:LOCATIONS_MAX])}" + (f" and {hidden} more" if hidden > 0 else "")


def cause_groups(findings: Sequence[FindingRow], cells: Sequence[CellRow] = ()) -> tuple[CauseGroup, ...]:
    """Return the findings by cause, in the order of a summary.

    First come causes that only some of the volumes have, because these set the volumes apart. Causes that every
    volume has follow, then those that are hints only, then acquittals. Within each kind a cause that is the first
    of its step precedes one that is second, and among these the one that explains most of the latency of the
    step's slowest volume.

    Args:
        findings: of all volumes and steps, those of one step in their order.
        cells: with the latency of each volume and step; without any, all volumes count as equally slow.
    """
    slowness = _slowness(cells)
    volumes = {finding.volume for finding in findings}
    by_cause: dict[str, list[tuple[int, float, FindingRow]]] = {}
    ranks: Counter[tuple[str, str]] = Counter()
    for finding in findings:
        rank = ranks[finding.volume, finding.step]
        ranks[finding.volume, finding.step] += 1
        explained = (finding.share or 0.0) * slowness.get((finding.volume, finding.step), 1.0)
        by_cause.setdefault(finding.cause, []).append((rank, -explained, finding))
    groups = [sorted(same, key=itemgetter(0, 1)) for same in by_cause.values()]
    groups.sort(key=lambda same: same[0][:2])
    if len(volumes) > 1:
        groups.sort(key=lambda same: {finding.volume for _, _, finding in same} == volumes)
    groups.sort(key=lambda same: all(_is_hint(finding) for _, _, finding in same))
    groups.sort(key=lambda same: same[0][2].cause == NONE)
    return tuple(
        CauseGroup(strongest=same[0][2], further=tuple(finding for _, _, finding in same[1:])) for same in groups
    )


def _is_hint(finding: FindingRow) -> bool:
    """Whether the confidence of a finding is too low for more than a hint; one without a confidence is no hint."""
    return finding.confidence is not None and finding.confidence < _LIKELIHOODS[-2][0]


def _slowness(cells: Sequence[CellRow]) -> Mapping[tuple[str, str], float]:
    """Return volume and step -> mean latency (median of cells) as a fraction of the step's slowest volume's."""
    samples: dict[tuple[str, str], list[float]] = {}
    for cell in cells:
        if (cell.valid or cell.used_within_bounds) and (sample := cell.metrics.get("latency_ms_mean")) is not None:
            samples.setdefault((cell.volume, cell.step), []).append(sample.value)
    medians = {key: median(values) for key, values in samples.items()}
    slowest: dict[str, float] = {}
    for (_, step), latency_ms in medians.items():
        slowest[step] = max(latency_ms, slowest.get(step, 0.0))
    return {key: latency_ms / slowest[key[1]] for key, latency_ms in medians.items() if slowest[key[1]] > 0}


def lead(findings: Sequence[FindingRow]) -> str:
    """Return what a report of one volume begins with: the first cause in words, with its figures and its advice.

    Of causes that cannot be told apart both are named, and what would decide. Empty without a finding.
    """
    named = [finding for finding in findings if finding.cause != NONE]
    if not named:
        return f"{cause_title(NONE)}." if findings else ""
    first = named[0]
    further = [finding for finding in named[1:] if finding.step == first.step and finding.cause != first.cause]
    alike = next((finding for finding in further if is_undecided(first) and is_undecided(finding)), None)
    title = cause_title(first.cause)
    if alike is not None:
        title = f"One of two causes: {_lower(title)}, or {_lower(cause_title(alike.cause))}"
    details = [f"step {first.step}", certainty(first)]
    if first.window_s is not None:
        details.append(f"second {first.window_s[0]:.0f} to {first.window_s[1]:.0f} of the run")
    sentences = [f"{title} ({'; '.join(detail for detail in details if detail)})."]
    sentences += [f"{_upper(row.text)}." for row in first.evidence[:1]]
    decides = next((row.text for row in first.evidence if row.metric == DECIDE), "")
    sentences.append(f"{_upper(decides)}." if decides and alike is not None else first.advice)
    return " ".join(sentences)


def is_undecided(finding: FindingRow) -> bool:
    """Return whether it is one of two causes that the evidence does not tell apart."""
    return any(row.metric == CHECKS and row.value == "one of two" for row in finding.evidence)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def certainty(finding: FindingRow) -> str:
    """Return `very likely (confidence 97 %); explains 63 % of the latency`, as far as both are known."""
    clauses = []
    if finding.confidence is not None:
        likelihood = next(likelihood for least, likelihood in _LIKELIHOODS if finding.confidence >= least)
        clauses.append(f"{likelihood} (confidence {percent(min(CONFIDENCE_MAX, round(finding.confidence, 2)))})")
    if finding.share is not None:
        clauses.append(f"explains {percent(finding.share)} of the latency")
    return "; ".join(clauses)
