"""Who decides between causes: one pure function over what their descriptors say, and the check's objections.

What a stretch of the step names is added where it is news. Each cause is checked by what it claims, with the share
that its rule gave it. Then shares become parts of the clients' time, and causes that cannot be true beside a surer
one are taken out; two that are as sure are one of two, and a question. What is taken out is kept with its reason:
reports show it. A level that others take of is named as what they leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.check.claimed import claimed_quantile
from volbench.results.explain.check.objections import objections
from volbench.results.explain.clients_time import of_clients_time
from volbench.results.explain.left_levels import as_left_levels
from volbench.results.explain.objection import Objection
from volbench.results.explain.stretch_findings import Stretch, with_stretch
from volbench.results.explain.suggestions import suggested, with_suggestions
from volbench.results.explain.wording import row


@dataclass(frozen=True, kw_only=True)
class Refuted:
    """A cause that would have been named, and what refutes it."""

    cause: Cause
    objections: tuple[Objection, ...]

    @property
    def text(self) -> str:
        """The reason in a clause."""
        return "; ".join(objection.text for objection in self.objections)


@dataclass(frozen=True, kw_only=True)
class Arbitration:
    """What is left of the causes that rules name, with what weakens each; and what was refuted."""

    findings: tuple[Cause, ...]
    refuted: tuple[Refuted, ...]


def arbitrate(
    case: Case, causes: Sequence[Cause], descriptors: Mapping[str, CauseInfo], stretch: Stretch | None = None
) -> Arbitration:
    """Return the causes that the evidence of a step leaves.

    Args:
        case: the step.
        causes: what rules name, in any order.
        descriptors: by name of a cause; one without a descriptor claims nothing.
        stretch: what they name in a stretch of the step by itself.
    """
    candidates = causes if stretch is None else with_stretch(causes, stretch, descriptors)
    checked = [_checked(case, cause, descriptors.get(cause.cause)) for cause in candidates]
    sound = [cause for cause in checked if not any(objection.refutes for objection in cause.objections)]
    refuted = [
        Refuted(cause=cause, objections=tuple(objection for objection in cause.objections if objection.refutes))
        for cause in checked
        if cause not in sound
    ]
    left = of_clients_time(case, _with_suggestions(case, sound, descriptors), descriptors)
    standing = []
    for cause in left:
        surer = next((rival for rival in _excluding(cause, left, descriptors) if _is_surer(rival, cause)), None)
        if surer is None:
            standing.append(cause)
            continue
        text = f"{surer.cause}, which is surer here, cannot be true of the same seconds beside it"
        against = Objection(law="consistency", text=text, claimed=cause.confidence, recorded=surer.confidence)
        refuted.append(Refuted(cause=cause, objections=(against,)))
    standing = [_as_question(cause, next(_excluding(cause, standing, descriptors), None)) for cause in standing]
    return Arbitration(findings=tuple(as_left_levels(case, standing, descriptors)), refuted=tuple(refuted))


def _with_suggestions(case: Case, causes: Sequence[Cause], descriptors: Mapping[str, CauseInfo]) -> list[Cause]:
    """Causes and what objections suggest in their place; what the check refutes is no suggestion."""
    candidates = (_checked(case, cause, descriptors[cause.cause]) for cause in suggested(case, causes, descriptors))
    sound = [cause for cause in candidates if not any(objection.refutes for objection in cause.objections)]
    return with_suggestions([*causes, *sound], descriptors)


def _checked(case: Case, cause: Cause, info: CauseInfo | None) -> Cause:
    if info is None:
        return cause
    middle = case.grid.t_s - case.grid.width_s / 2
    inside = (middle > cause.window_s[0]) & (middle <= cause.window_s[1])
    return replace(
        cause,
        objections=objections(case, cause, info.claims),
        rebuilt=claimed_quantile(case, inside, 0.95, waits=info.waits, wait_time=info.wait_time, share=cause.share),
    )


def _excluding(cause: Cause, causes: Sequence[Cause], descriptors: Mapping[str, CauseInfo]) -> Iterator[Cause]:
    """Causes of its time that cannot be true beside this one, whichever says so; none where one is one of two."""
    for rival in causes:
        pairs = ((rival.cause, cause.cause), (cause.cause, rival.cause))
        excludes = any(first in descriptors and second in descriptors[first].contradicts for first, second in pairs)
        at_once = min(cause.window_s[1], rival.window_s[1]) > max(cause.window_s[0], rival.window_s[0])
        if excludes and at_once and not (cause.one_of_two or rival.one_of_two):
            yield rival


def _is_surer(first: Cause, second: Cause) -> bool:
    """Whether a reader sees that it is: reports have whole percents."""
    return round(100 * first.confidence) > round(100 * second.confidence)


def _as_question(cause: Cause, rival: Cause | None) -> Cause:
    """Of two causes that exclude each other and are as sure, each is one of two, and nothing is advised for it."""
    if rival is None:
        return cause
    text = f"{rival.cause} fits as well, is as sure, and cannot be true of the same seconds"
    ask = f"Is it {cause.cause} or {rival.cause}? Nothing recorded tells which: measure again, or longer, before"
    return replace(
        cause,
        one_of_two=True,
        evidence=(*cause.evidence, row("one_of_two", rival.cause, "1", text)),
        advice=f"{ask} you change or buy anything for it.",
        volume_advice="",
    )
