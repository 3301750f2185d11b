"""The choice: the cheapest volume that is sure to keep a goal, unless a check refutes it.

A volume is recommended where its forecast keeps the goal with a chance of SURE_MIN and no check refutes it.
Whether it is the cheapest is a second statement: the likeliest of all cheaper volumes must break the goal. Where
cheaper ones may keep it as well, the answer names them and what would decide; where they are cheaper by a factor,
nothing is recommended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from volbench.core.base.text import counted, percent
from volbench.results.recommend.catalogue import Candidate
from volbench.results.recommend.evidence import Evidence, IndependentCheck, Setting
from volbench.results.recommend.goal import CHANCE_MAX, SURE_MIN, Chance, Goal

SAVING_MAX = 2.0
"""Times the price of the cheapest volume that may keep the goal: beyond it the forecast is too wide to buy by."""
LIKELY = 0.5
"""Chance from which on a volume that costs so much less speaks against buying: it does more likely than not."""
REFUTED_MAX = 20
"""Volumes that checks may refute one after the other; then forecast and checks contradict each other."""


@dataclass(frozen=True, kw_only=True)
class Assessed:
    """A volume with its chances. `keeps`: of the whole goal, that of its likeliest breach."""

    candidate: Candidate
    chances: tuple[Chance, ...]
    checks: tuple[IndependentCheck, ...] = ()

    @property
    def keeps(self) -> float:
        """Chance that every part of the goal is kept: the least of them."""
        return min((chance.keeps for chance in self.chances), default=0.0)

    @property
    def is_refuted(self) -> bool:
        """Whether a check says that the goal is broken."""
        return any(check.keeps is False for check in self.checks)


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The answer for one load.

    Args:
        chosen: None: nothing is recommended, and `refusal` says why.
        cheaper: the likeliest of all cheaper volumes; None where the chosen one is the cheapest of all.
        is_cheapest: whether every cheaper volume is expected to break the goal, and no check contradicts that.
        refuted: volumes that the forecast alone would have recommended.
        measurement: what would decide where that is open; empty where it is not.
    """

    name: str
    goal: Goal
    chosen: Assessed | None
    cheaper: Assessed | None
    is_cheapest: bool
    settings: tuple[Setting, ...] = ()
    refuted: tuple[Assessed, ...] = ()
    refusal: str = ""
    measurement: str = ""
    notes: tuple[str, ...] = ()


def recommend(evidence: Evidence, candidates: Sequence[Candidate], goal: Goal) -> Recommendation:
    """Return the cheapest volume that keeps the goal, or why none is named.

    Args:
        evidence: the load.
        candidates: the cheapest first.
        goal: with at least one part.

    Raises Undecided where the evidence says nothing about any volume.
    """
    assessed: list[Assessed] = []
    refuted: list[Assessed] = []
    for candidate in candidates:
        option = Assessed(candidate=candidate, chances=evidence.chances(candidate, goal))
        if option.keeps >= SURE_MIN:
            option = _checked(option, evidence, goal)
            if not option.is_refuted:
                return _chosen(option, assessed, tuple(refuted), evidence, goal)
            refuted.append(option)
            if len(refuted) >= REFUTED_MAX:
                return _refused(_contradiction(refuted), assessed, tuple(refuted), evidence, goal)
        assessed.append(option)
    return _refused(_none_is_sure(assessed), assessed, tuple(refuted), evidence, goal)


def _checked(assessed: Assessed, evidence: Evidence, goal: Goal) -> Assessed:
    checks = tuple(evidence.checks(assessed.candidate, goal))
    return Assessed(candidate=assessed.candidate, chances=assessed.chances, checks=checks)


def _chosen(
    chosen: Assessed, cheaper: Sequence[Assessed], refuted: tuple[Assessed, ...], evidence: Evidence, goal: Goal
) -> Recommendation:
    below = [candidate for candidate in cheaper if candidate.candidate.cost.month < chosen.candidate.cost.month]
    likeliest = max(below, key=_rank, default=None)
    if likeliest is not None and not likeliest.checks:
        likeliest = _checked(likeliest, evidence, goal)
    possible = [candidate for candidate in below if candidate.keeps > CHANCE_MAX and not candidate.is_refuted]
    likely = next((candidate for candidate in possible if candidate.keeps > LIKELY), None)
    if likely is not None and chosen.candidate.cost.month > SAVING_MAX * likely.candidate.cost.month:
        return _refused(_too_wide(likely, chosen), below, refuted, evidence, goal)
    contradicted = likeliest is not None and any(check.keeps for check in likeliest.checks)
    is_cheapest = not possible and not contradicted
    return Recommendation(
        name=evidence.name,
        goal=goal,
        chosen=chosen,
        cheaper=likeliest,
        is_cheapest=is_cheapest,
        settings=evidence.settings(chosen.candidate, goal),
        refuted=refuted,
        measurement="" if is_cheapest or likeliest is None else evidence.measurement(likeliest.candidate),
        notes=evidence.notes,
    )


def _refused(
    reason: str, assessed: Sequence[Assessed], refuted: tuple[Assessed, ...], evidence: Evidence, goal: Goal
) -> Recommendation:
    likeliest = max((candidate for candidate in assessed if not candidate.is_refuted), key=_rank, default=None)
    return Recommendation(
        name=evidence.name,
        goal=goal,
        chosen=None,
        cheaper=likeliest,
        is_cheapest=False,
        refuted=refuted,
        refusal=reason,
        measurement=""
        if likeliest is None or likeliest.keeps <= CHANCE_MAX
        else evidence.measurement(likeliest.candidate),
        notes=evidence.notes,
    )


def _rank(assessed: Assessed) -> tuple[bool, float, float]:
    """Return an order by the chance, in which of equal chances the cheaper volume is the higher."""
    return not assessed.is_refuted, round(assessed.keeps, 5), -assessed.candidate.cost.month


def _none_is_sure(assessed: Sequence[Assessed]) -> str:
    best = max(assessed, key=_rank, default=None)
    if best is None:
        return "no volume is offered in this size"
    if best.keeps <= CHANCE_MAX:
        return (
            f"none of {counted(len(assessed), 'volume')} keeps the objective: the likeliest, {best.candidate.spec},"
            f" does with {percent(best.keeps)}"
        )
    return (
        f"no forecast is sure enough: the likeliest of {counted(len(assessed), 'volume')}, {best.candidate.spec},"
        f" keeps the objective with {percent(best.keeps)}, and {percent(SURE_MIN)} are asked for"
    )


def _too_wide(possible: Assessed, sure: Assessed) -> str:
    return (
        f"the forecast is too wide to buy by: {possible.candidate.spec} for {possible.candidate.cost.month:,.2f} a"
        f" month may keep the objective ({percent(possible.keeps)}), and only {sure.candidate.spec} for"
        f" {sure.candidate.cost.month:,.2f} is sure to ({percent(sure.keeps)})"
    )


def _contradiction(refuted: Sequence[Assessed]) -> str:
    check = next(check for check in refuted[-1].checks if check.keeps is False)
    return (
        f"forecast and check contradict each other on {counted(len(refuted), 'volume')}, the last"
        f" {refuted[-1].candidate.spec}: {check.text}"
    )
