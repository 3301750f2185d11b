"""Findings of a stretch of a step, added to those of all of it: which are news, and which of the whole stay."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from volbench.core.records.report import EvidenceRow
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo, State
from volbench.results.explain.clients_time import is_of_clients


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """What rules name in a stretch of a step, and in the rest of it.

    Args:
        inside: findings of the stretch alone.
        outside: findings of the rest.
        remainder: the rest of the step.
        share: of the time that statements took in the step, what they took in the stretch.
        clients_share: the same of the clients' time.
        effects: how clients were served meanwhile, against the rest.
        losses: what of their speed was lost.
    """

    inside: Sequence[Cause]
    outside: Sequence[Cause]
    remainder: Case
    share: float
    clients_share: float
    effects: Sequence[EvidenceRow]
    losses: Sequence[EvidenceRow]


def with_stretch(findings: Sequence[Cause], stretch: Stretch, descriptors: Mapping[str, CauseInfo]) -> list[Cause]:
    """Return the findings of a step with those of a stretch that are news.

    Medians of a step say little of a stretch of it. What is named only in the stretch is added, with its share of
    the time. What only the step's medians named, neither the stretch nor the rest, is left out if the stretch
    has a cause.

    Args:
        findings: of all of the step.
        stretch: what is named in a part of it.
        descriptors: by name of a cause.
    """
    during = [finding for finding in stretch.inside if not descriptors[finding.cause].is_change]
    if not during:
        return [*findings]
    named = {finding.cause for finding in findings}
    falls = {
        finding.cause for finding in findings if finding.explains_fall or descriptors[finding.cause].explains_fall
    }
    elsewhere = {finding.cause for finding in (*during, *stretch.outside)}
    return [
        *(
            finding
            for finding in findings
            if not descriptors[finding.cause].by_medians or finding.cause in elsewhere
        ),
        *(
            _in_stretch(finding, stretch, descriptors[finding.cause])
            for finding in during
            if finding.cause not in named
            and not _is_no_news(descriptors[finding.cause], named, falls, stretch.remainder)
        ),
    ]


def _is_no_news(info: CauseInfo, named: Collection[str], falls: Collection[str], outside: Case) -> bool:
    """Whether a cause in a stretch is the doing of a known one, or a state that is there in the rest as well."""
    if not info.yields_to.isdisjoint(named) or (info.yields_to_falls and falls):
        return True
    return info.state is not None and _STATES[info.state](outside)


def _in_stretch(finding: Cause, stretch: Stretch, info: CauseInfo) -> Cause:
    """A finding of the stretch as one of the step: its share is a part of statement time, or of the clients'."""
    time_share = stretch.clients_share if is_of_clients(stretch.remainder, finding, info) else stretch.share
    says_loss = any(piece.metric == "loss" for piece in finding.evidence)
    return replace(
        finding,
        share=None if finding.share is None else finding.share * time_share,
        evidence=(*finding.evidence, *stretch.effects, *(() if says_loss else stretch.losses)),
    )


def _is_busy(case: Case) -> bool:
    return case.cpu_bound


def _is_busy_with_others(case: Case) -> bool:
    return case.cpu_bound and case.cpu_account is not None and case.cpu_account.is_mostly_lost


_STATES: Mapping[State, Callable[[Case], bool]] = {
    "busy CPUs": _is_busy,
    "CPUs busy with others": _is_busy_with_others,
}
