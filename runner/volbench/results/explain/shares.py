"""Shares of a step's findings: what each explains by itself, and what conservation leaves of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from volbench.results.explain.cause import Cause
from volbench.results.explain.causes import CAUSES
from volbench.results.explain.check.shares import ShareClaim, divided
from volbench.results.explain.wording import percent, row

HINT_BELOW = 0.4
"""A confidence of a hint only: it is a question, and no reason to buy or to change anything."""
ALONE = "share_alone"
"""The evidence that says what a cause would explain by itself, where its share is less."""
_HOST = "the host or the instance"
REDUCED_MIN = 0.005
"""A share that is less by this part of the time reads as another one."""


def with_shares_that_fit(*volumes: Sequence[Cause], unaccounted: float = 0.0) -> tuple[tuple[Cause, ...], ...]:
    """Findings of one step of one cell with shares that add up to no more than the clients' time, in their order.

    What a cause would explain by itself stays in its evidence, where its share is less; findings that were divided
    before have their claims again first. A share that is not known takes nothing. See `check.shares`.

    Args:
        volumes: findings of the step on its volume, and of each other volume of a layout: clients wait for all of
            them in one time.
        unaccounted: share of the clients' time that nothing recorded accounts for; see `check.shares`.
    """
    claimed = [[_as_claimed(finding) for finding in findings] for findings in volumes]
    claims = [
        _share_claim(finding, volume)
        for volume, findings in enumerate(claimed)
        for finding in findings
        if finding.share is not None
    ]
    shares = iter(divided(claims, accounted=1.0 - unaccounted))
    return tuple(
        tuple(
            finding if finding.share is None else _reduced(finding, next(shares), unaccounted)
            for finding in findings
        )
        for findings in claimed
    )


def share_alone(finding: Cause) -> float | None:
    """What it would explain by itself, as its rule said."""
    alone = (piece.value for piece in finding.evidence if piece.metric == ALONE)
    return next((float(value) for value in alone if isinstance(value, int | float)), finding.share)


def _as_claimed(finding: Cause) -> Cause:
    evidence = tuple(piece for piece in finding.evidence if piece.metric != ALONE)
    return replace(finding, share=share_alone(finding), evidence=evidence)


def _share_claim(finding: Cause, volume: int) -> ShareClaim:
    return ShareClaim(
        share=finding.share or 0.0,
        alternatives=_alternatives(finding, volume),
        is_hint=finding.confidence < HINT_BELOW,
    )


def _alternatives(finding: Cause, volume: int) -> str:
    """The set of causes of which it is one: those at one volume, or those of server, client and CPUs."""
    if not finding.one_of_two:
        return ""
    info = CAUSES.get(finding.cause)
    is_at_volume = info is not None and (info.is_helped_by_volume or info.group == _HOST)
    return f"at volume {volume}" if is_at_volume else "at the server"


def _reduced(finding: Cause, share: float, unaccounted: float) -> Cause:
    """The finding with the share that is left of its claim; it says so where that is less."""
    claim = finding.share or 0.0
    if claim - share < REDUCED_MIN:
        return replace(finding, share=share)
    deduction = "" if unaccounted < REDUCED_MIN else f", less {percent(unaccounted)} that nothing accounts for"
    text = (
        f"by itself it would explain {percent(claim)} of the {finding.share_of}; the causes of this step together"
        f" would explain more than all of it{deduction}, so each is given its part"
    )
    return replace(finding, share=share, evidence=(*finding.evidence, row(ALONE, claim, "1", text)))
