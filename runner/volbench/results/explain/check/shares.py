"""What the causes of one step may explain together: the clients' time is there once (conservation).

A rule says what its cause explains by itself, the part of the clients' time that would not be spent without it.
Two causes may claim one time under two names, or each of them may be enough for it; nothing that is recorded
divides it. So a claim is what a cause explains at most. Claims that fit into the time stay as they are. Those that
do not are reduced in proportion: their order stays, and it does not matter which of them is looked at first.
Time that nothing accounts for is not divided among them, as far as no single cause claims it.

A hint is a question: it takes nothing from a likely cause and gets what these leave. Of alternatives one is true,
so that they count once, by the largest of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

TOTAL = 1.0


@dataclass(frozen=True, kw_only=True)
class ShareClaim:
    """What one cause of a step explains by itself.

    Args:
        share: of the clients' time.
        alternatives: name of the set of causes that it is among, of which one is true; empty: it is no such cause.
        is_hint: it is less likely than what is worth acting on.
    """

    share: float
    alternatives: str = ""
    is_hint: bool = False


def divided(claims: Sequence[ShareClaim], *, accounted: float = TOTAL) -> list[float]:
    """Return the share of each cause; together they are no more than TOTAL, of alternatives the largest.

    Args:
        claims: of all causes of one step, in any order.
        accounted: share of the clients' time that waits and CPU account for: several causes get no more together,
            unless one of them claims more by itself.
    """
    likely = {claim.alternatives for claim in claims if not claim.is_hint} - {""}
    hints = [claim.is_hint and claim.alternatives not in likely for claim in claims]
    likely_sum = _together(claim for claim, is_hint in zip(claims, hints, strict=True) if not is_hint)
    hints_sum = _together(claim for claim, is_hint in zip(claims, hints, strict=True) if is_hint)
    most = min(TOTAL, max([accounted, *(claim.share for claim in claims)]))
    factor, factor_of_hints = _factor(likely_sum, most), _factor(hints_sum, max(0.0, most - likely_sum))
    return [
        claim.share * (factor_of_hints if is_hint else factor) for claim, is_hint in zip(claims, hints, strict=True)
    ]


def _together(claims: Iterable[ShareClaim]) -> float:
    """Return the sum of claims, alternatives counted once."""
    alone = 0.0
    largest: dict[str, float] = {}
    for claim in claims:
        if claim.alternatives:
            largest[claim.alternatives] = max(claim.share, largest.get(claim.alternatives, 0.0))
        else:
            alone += claim.share
    return alone + sum(largest.values())


def _factor(claimed: float, available: float) -> float:
    return 1.0 if claimed <= available else available / claimed
