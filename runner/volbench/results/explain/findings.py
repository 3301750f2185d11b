"""From one step's evidence to its causes, and from repeats to rows of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from volbench.core.base.text import counted
from volbench.core.records.steps import step_kind
from volbench.results.explain import thresholds as limit
from volbench.results.explain.accounts.purge import purge_notes
from volbench.results.explain.accounts.statement_part import statement_part
from volbench.results.explain.arbitration import Refuted, arbitrate
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause, confidence_rows
from volbench.results.explain.causes import CAUSES, named, named_of_volume
from volbench.results.explain.check.objections import most_served
from volbench.results.explain.collapses import doubt_findings, unexplained_collapse
from volbench.results.explain.consequences import without_consequences
from volbench.results.explain.evidence.device import Resource
from volbench.results.explain.ranking import loss_of, ranked_by, weight_of
from volbench.results.explain.rule import OUTSIDE
from volbench.results.explain.rules.acquittal import acquit, missing_evidence, why_unexplained
from volbench.results.explain.rules.log_waits import log_elsewhere, storage_share_max
from volbench.results.explain.rules.shared_evidence import (
    effect_rows,
    loss_rows,
)
from volbench.results.explain.rules.stretch import SAMPLES_MIN, worst_stretch
from volbench.results.explain.shares import with_shares_that_fit
from volbench.results.explain.stretch_findings import Stretch

WITHIN_MIN = 0.8
"""Share of a limit's time that lies within another's."""
OF_INSTANCE = frozenset(name for name, cause in CAUSES.items() if "instance" in cause.claims)
"""Limits of the instance, beside which a larger volume is no help whatever waits for it."""
BRING = {name: cause.brings for name, cause in CAUSES.items() if cause.brings}
"""Causes whose doing others are, see `CauseInfo.brings`."""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What one step showed. No finding at all means that the evidence does not carry one: `notes` says why.

    `served` is the most that the volume gave for some intervals in a row, operations and MiB a second.
    """

    findings: tuple[Cause, ...]
    notes: tuple[str, ...] = ()
    refuted: tuple[Refuted, ...] = ()
    served: Mapping[Resource, float] = field(default_factory=dict)

    @property
    def refuted_texts(self) -> tuple[str, ...]:
        """A sentence for each cause that would have been named and is not."""
        named = {finding.cause for finding in self.findings}
        texts = (
            f"{item.cause.cause} would have been named, but {item.text}"
            for item in self.refuted
            if item.cause.cause not in named
        )
        return tuple(dict.fromkeys(texts))


def explain_case(case: Case) -> Explanation:
    """Return the causes of one step, the one that explains most first; `none` if the volume is not the problem."""
    if len(case.grid) < SAMPLES_MIN:
        return Explanation(
            findings=(), notes=(f"{counted(len(case.grid), 'sample is', 'samples are')} too few to name a cause",)
        )
    notes = (*missing_evidence(case), *purge_notes(case))
    checked = arbitrate(case, named(case), CAUSES, _stretch_of(case))
    left = without_consequences(case, checked, CAUSES, named)
    findings, refuted = [*left.findings], [*left.refuted]
    collapse = unexplained_collapse(case, findings, CAUSES)
    findings = doubt_findings(case, findings, collapse, CAUSES)
    if not findings:
        acquitted = None if collapse else acquit(case)
        innocent = arbitrate(case, [] if acquitted is None else [acquitted], CAUSES)
        findings = [*innocent.findings]
        refuted += innocent.refuted
        notes = notes if findings else (*notes, why_unexplained(case))
    findings, loss = [_with_unmade_check(finding) for finding in _attributed(findings)], loss_of(findings)
    findings = [replace(finding, recorded=case.recorded) for finding in findings]
    findings = [finding if _clears(case, finding) else replace(finding, volume_advice="") for finding in findings]
    ranked = _seconds(ranked_by(findings, lambda finding: weight_of(finding, loss)))
    return Explanation(
        findings=_with_confidence(ranked), notes=notes, refuted=tuple(refuted), served=most_served(case)
    )


def _with_confidence(ranked: Sequence[Cause]) -> tuple[Cause, ...]:
    """Return findings in their order, with what their confidence rests on, and with shares that add up."""
    rows = [replace(finding, evidence=(*finding.evidence, *confidence_rows(finding))) for finding in ranked]
    (fitting,) = with_shares_that_fit(rows)
    return fitting


def _clears(case: Case, finding: Cause) -> bool:
    """Return whether so little time is left for waits for the volume that a faster one changes little.

    It is known of no step whose statements, or streams, do not tell how long they wait for files, and of none with
    a log on a device that was not looked at. Time of statements counts as the part of the clients' time that it is.
    Waits above the device are no waits for it. Whether the instance's or the volume's limit is met is counted, and
    asks for no time.
    """
    if finding.cause in OF_INSTANCE:
        return True
    left = storage_share_max(case) if step_kind(case.kind).has_statements else case.waiting_share
    if left is None or log_elsewhere(case) is not None:
        return False
    in_statements = statement_part(case)
    above = (finding.share or 0.0) if finding.rule in OUTSIDE else 0.0
    return left * (1.0 if in_statements is None else in_statements) - above < limit.SHARE_MIN


def explain_component(case: Case) -> Explanation:
    """Return what one of a layout's other volumes does to a step: causes of the volume alone, the main one first.

    Args:
        case: the step as that volume sees it, see `component_cases`.
    """
    if len(case.grid) < SAMPLES_MIN:
        return Explanation(findings=())
    of_volume = [finding for finding in named_of_volume(case) if CAUSES[finding.cause].is_of_volume]
    left = arbitrate(case, of_volume, CAUSES)
    findings = [_with_unmade_check(finding) for finding in left.findings]
    loss = loss_of(findings)
    ranked = _seconds(ranked_by(findings, lambda finding: weight_of(finding, loss)))
    return Explanation(
        findings=_with_confidence(ranked),
        refuted=left.refuted,
        served=most_served(case),
    )


def _stretch_of(case: Case) -> Stretch | None:
    """Return what rules name in the worst stretch of a step by itself, and outside of it; None without one."""
    during = worst_stretch(case)
    if during is None:
        return None
    inside, outside = (replace(case, grid=case.grid.where(mask)) for mask in (during, ~during))
    effects = [effect for effect in effect_rows(case, during) if effect.is_worse]
    return Stretch(
        inside=named(inside),
        outside=named(outside),
        remainder=outside,
        share=case.time_share_of(during),
        clients_share=case.clients_share_of(during),
        effects=[effect.evidence for effect in effects],
        losses=[*loss_rows(effects)],
    )


def _seconds(ranked: Sequence[Cause]) -> list[Cause]:
    """Return the causes; of those that cannot be told apart, all but the first are marked as second."""
    undecided = [finding for finding in ranked if finding.one_of_two]
    return [replace(finding, is_second=finding in undecided[1:]) for finding in ranked]


def _with_unmade_check(finding: Cause) -> Cause:
    """Add a check that could not be made, where it is not known how long queries wait for the volume named."""
    unknown = finding.cause in CAUSES and CAUSES[finding.cause].is_of_volume and finding.share is None
    return replace(finding, checks=(*finding.checks, None)) if unknown else finding


def _attributed(findings: Sequence[Cause]) -> list[Cause]:
    """Reduce the share of a limit that is met only while something else runs by what that took of the speed."""
    rivals = [finding for finding in findings if finding.cause in BRING and finding.share is not None]
    attributed = []
    for finding in findings:
        meanwhile = [
            rival
            for rival in rivals
            if finding.cause in BRING[rival.cause] and _within(finding.window_s, rival.window_s)
        ]
        brought = loss_of(meanwhile)
        attributed.append(
            finding if finding.share is None else replace(finding, share=finding.share * (1 - brought))
        )
    return attributed


def _within(inner: tuple[float, float], outer: tuple[float, float]) -> bool:
    shared = min(inner[1], outer[1]) - max(inner[0], outer[0])
    return shared >= WITHIN_MIN * (inner[1] - inner[0])
