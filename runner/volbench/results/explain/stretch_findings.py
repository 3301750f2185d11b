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
        rest: the rest of the step.
        share: of the time that statements took in the step, what they took in the stretch.
        clients_share: the same of the clients' time.
        effects: how clients were served meanwhile, against the rest.
        losses: what of their speed was lost.
    """

    inside: Sequence[Cause]
    outside: Sequence[Cause]
    rest: Case
    share: float
    clients_share: float
    effects: Sequence[EvidenceRow]
    losses: Sequence[EvidenceRow]


def with_stretch(whole: Sequence[Cause], stretch: Stretch, descriptors: Mapping[str, CauseInfo]) -> list[Cause]:
    """Return the findings of a step with those of a stretch that are news.

    Medians of a step say little of a stretch of it. What is named only in the stretch is added, with its share of
    the time. What only the step's medians named, neither the stretch nor the rest, is left out if the stretch
    has a cause.

    Args:
        whole: findings of all of the step.
        stretch: what is named in a part of it.
        descriptors: by name of a cause.
    """
    during = [one for one in stretch.inside if not descriptors[one.cause].is_change]
    if not during:
        return [*whole]
    known = {one.cause for one in whole}
    falls = {one.cause for one in whole if one.explains_fall or descriptors[one.cause].explains_fall}
    elsewhere = {one.cause for one in (*during, *stretch.outside)}
    return [
        *(one for one in whole if not descriptors[one.cause].by_medians or one.cause in elsewhere),
        *(
            _in_stretch(one, stretch, descriptors[one.cause])
            for one in during
            if one.cause not in known and not _is_no_news(descriptors[one.cause], known, falls, stretch.rest)
        ),
    ]


def _is_no_news(info: CauseInfo, known: Collection[str], falls: Collection[str], rest: Case) -> bool:
    """Whether a cause in a stretch is the doing of a known one, or a state that is there in the rest as well."""
    if not info.yields_to.isdisjoint(known) or (info.yields_to_falls and falls):
        return True
    return info.state is not None and _STATES[info.state](rest)


def _in_stretch(finding: Cause, stretch: Stretch, info: CauseInfo) -> Cause:
    """A finding of the stretch as one of the step: its share is a part of statement time, or of the clients'."""
    part = stretch.clients_share if is_of_clients(stretch.rest, finding, info) else stretch.share
    says_loss = any(piece.metric == "loss" for piece in finding.evidence)
    return replace(
        finding,
        share=None if finding.share is None else finding.share * part,
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
