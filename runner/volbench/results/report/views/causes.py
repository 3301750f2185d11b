"""Causes as a report shows them: a heading in words, the confidence, and the chart that shows the cause."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from volbench.core.base.text import change_words, duration, percent
from volbench.core.records.layout import component_name
from volbench.core.records.report import CellRow, EvidenceRow, FindingRow, Report
from volbench.results.compare.figures import figure_of
from volbench.results.explain.causes import CAUSES
from volbench.results.explain.rules.stretch import SAMPLES_MIN
from volbench.results.report.rows.verdict.lead import (
    CHECKS,
    DECIDED_BY,
    NONE,
    cause_title,
    certainty,
    is_counted,
    is_hint,
    likelihood,
)
from volbench.results.report.rows.verdict.reason import is_step
from volbench.results.report.wording import joined, label, load_text

LOCATIONS_MAX = 3
"""Further volumes and steps that one line about a cause names."""
OVERLAP_FROM = 1.005
"""Above this sum, shares that are printed as whole per cents exceed 100 %."""
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


@dataclass(frozen=True, kw_only=True)
class CauseGroup:
    """Findings of one cause that are equally sure, on several volumes or in several steps.

    Args:
        strongest: the finding that stands for the group: the first of them in the order of a summary.
        further: the rest of its findings, in the same order.
    """

    strongest: FindingRow
    further: tuple[FindingRow, ...]

    @property
    def location(self) -> str:
        """Return `gp2 (morning)`: where the strongest was observed."""
        return _location(self.strongest)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return the strongest finding's size and sureness, and where else the cause is: a sentence each."""
        finding = self.strongest
        evidence = finding.evidence[0].text if finding.evidence else ""
        hidden = len(self.further) - LOCATIONS_MAX
        elsewhere = [*map(_elsewhere, self.further[:LOCATIONS_MAX]), *([f"{hidden} more"] if hidden > 0 else [])]
        further = "; ".join(elsewhere)
        texts = (evidence, certainty(finding), f"also, with figures of its own, on {further}" if further else "")
        return tuple(sentence(text) for text in texts if text)


def sentence(text: str) -> str:
    """Return the text with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."


def _location(finding: FindingRow) -> str:
    volume = component_name(finding.volume, finding.component) if finding.component else finding.volume
    return f"{volume} ({finding.step})"


def _elsewhere(finding: FindingRow) -> str:
    share = "" if finding.share is None else f", {percent(finding.share)} of the {finding.share_of}"
    return f"{_location(finding)}{share}"


def ordered_findings(report: Report) -> tuple[FindingRow, ...]:
    """Return the findings in the order of a page.

    First come those of the headline's step; in each of both parts the valid ones that are no hints come first, then
    those that explain most of the latency of the step's slowest volume. Acquittals are last.
    """
    slowness, step = _slowness(report.cells), _headline_step(report)

    def rank_of(finding: FindingRow) -> tuple[bool, bool, bool, bool, float]:
        explained = (finding.share or 0.0) * slowness.get((finding.volume, finding.step), 1.0)
        of_other_step = not is_step(step, finding.step)
        return (finding.cause == NONE, of_other_step, not finding.valid, is_hint(finding), -explained)

    return tuple(sorted(report.findings, key=rank_of))


def _headline_step(report: Report) -> str:
    return report.summary.figure.step if report.summary.figure else ""


def groups_of(report: Report) -> tuple[CauseGroup, ...]:
    """Return the causes of a report, those of the headline's step first."""
    return cause_groups(report.findings, report.cells, step=_headline_step(report))


def cause_groups(
    findings: Sequence[FindingRow], cells: Sequence[CellRow] = (), *, step: str = ""
) -> tuple[CauseGroup, ...]:
    """Return the findings by cause and how sure they are, in the order of a summary.

    First come causes of the headline's step. Of these, as of the others, first come causes that only some of the
    volumes have, because these set the volumes apart. Causes that every volume has follow, then those without a
    valid cell, and those that are hints only. Acquittals are last. Within each kind a cause that is the first of
    its step precedes one that is second, and among these the one that explains most of the latency of the step's
    slowest volume.

    Args:
        findings: of all volumes and steps, those of one step in their order.
        cells: with the latency of each volume and step; without any, all volumes count as equally slow.
        step: of the headline.
    """
    slowness = _slowness(cells)
    volumes = {finding.volume for finding in findings}
    by_strength: dict[tuple[str, str, bool, bool], list[tuple[int, float, FindingRow]]] = {}
    of_cause: dict[str, set[str]] = {}
    ranks: Counter[tuple[str, str]] = Counter()
    for finding in findings:
        rank = ranks[finding.volume, finding.step]
        ranks[finding.volume, finding.step] += 1
        explained = (finding.share or 0.0) * slowness.get((finding.volume, finding.step), 1.0)
        strength = (finding.cause, likelihood(finding), is_counted(finding), finding.valid)
        by_strength.setdefault(strength, []).append((rank, -explained, finding))
        of_cause.setdefault(finding.cause, set()).add(finding.volume)
    groups = [sorted(same, key=itemgetter(0, 1)) for same in by_strength.values()]
    for same in groups:
        same.sort(key=lambda ranked: not is_step(step, ranked[2].step))
    groups.sort(key=lambda same: same[0][:2])
    if len(volumes) > 1:
        groups.sort(key=lambda same: of_cause[same[0][2].cause] == volumes)
    groups.sort(key=lambda same: not same[0][2].valid)
    groups.sort(key=lambda same: all(is_hint(finding) for _, _, finding in same))
    groups.sort(key=lambda same: not is_step(step, same[0][2].step))
    groups.sort(key=lambda same: same[0][2].cause == NONE)
    return tuple(
        CauseGroup(strongest=same[0][2], further=tuple(finding for _, _, finding in same[1:])) for same in groups
    )


def overlaps(findings: Sequence[FindingRow]) -> tuple[str, ...]:
    """Return a sentence for each volume and step whose causes together explain more than its latency."""
    groups: dict[tuple[str, str], list[FindingRow]] = {}
    for finding in findings:
        if finding.cause != NONE and finding.share is not None:
            groups.setdefault((finding.volume, finding.step), []).append(finding)
    return tuple(
        f"Causes on {volume} ({step}) overlap: together they explain {percent(total)} of the"
        f" {together[0].share_of}, since one wait may count in several; do not add them."
        for (volume, step), together in groups.items()
        if (total := sum(finding.share or 0.0 for finding in together)) > OVERLAP_FROM
    )


def unexplained(report: Report) -> tuple[str, ...]:
    """Return a sentence that names the volumes, worse by the headline's figure, of which no likely cause was found.

    Of two volumes the headline says it.
    """
    figure = report.summary.figure
    if figure is None or not report.findings or len(report.volumes) < 3:
        return ()
    explained = {
        finding.volume
        for finding in report.findings
        if finding.cause != NONE and not is_hint(finding) and is_step(figure.step, finding.step)
    }
    worse = {
        row.candidate: f"{row.candidate} ({change_words(row.ratio, f'on {row.baseline}')})"
        for row in report.comparisons
        if (row.step, load_text(row.parameters), row.metric) == (figure.step, figure.load, figure.metric)
        and row.verdict == "worse"
        and row.ratio
        and row.candidate not in explained
    }
    if not worse:
        return ()
    text = f"No likely cause was found in {figure.step} on {joined([*worse.values()])}, by {label(figure.metric)}"
    lengths_s = {volume: _longest_s(report.cells, volume, figure.step) for volume in worse}
    short = {volume: length_s for volume, length_s in lengths_s.items() if length_s < SAMPLES_MIN}
    checked = "" if len(short) == len(worse) else "none of the causes that are checked explains it"
    lasts = f"on {joined([*short])} the step lasts {duration(max(short.values()))}" if short else ""
    unchecked = lasts and f"{lasts}, and at one sample a second a cause takes {SAMPLES_MIN} s to be checked"
    return (f"{text}: {'; '.join(filter(None, (checked, unchecked)))}.",)


def _longest_s(cells: Sequence[CellRow], volume: str, step: str) -> float:
    """Return how long a step was measured, in the cell of a volume in which it took the longest time."""
    windows_s = [cell.window_s for cell in cells if (cell.volume, cell.step) == (volume, step)]
    return max((window_s[1] - window_s[0] for window_s in windows_s if window_s is not None), default=math.inf)


def _slowness(cells: Sequence[CellRow]) -> Mapping[tuple[str, str], float]:
    """Return volume and step -> mean latency (median of cells) as a fraction of the step's slowest volume's."""
    groups: dict[tuple[str, str], list[CellRow]] = {}
    for cell in cells:
        groups.setdefault((cell.volume, cell.step), []).append(cell)
    figures = {key: figure_of(group, "latency_ms_mean") for key, group in groups.items()}
    medians = {key: value for key, value in figures.items() if value is not None}
    slowest: dict[str, float] = {}
    for (_, step), latency_ms in medians.items():
        slowest[step] = max(latency_ms, slowest.get(step, 0.0))
    return {key: latency_ms / slowest[key[1]] for key, latency_ms in medians.items() if slowest[key[1]] > 0}
