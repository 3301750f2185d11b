"""Causes of one step explain no more than its time together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volbench.results.explain.check.shares import ShareClaim, divided


def alone(share: float) -> ShareClaim:
    return ShareClaim(share=share)


def alternative(share: float, name: str = "at the volume", *, is_hint: bool = False) -> ShareClaim:
    return ShareClaim(share=share, alternatives=name, is_hint=is_hint)


def hint(share: float) -> ShareClaim:
    return ShareClaim(share=share, is_hint=True)


@pytest.mark.parametrize(
    ("claims", "shares"),
    [
        ([], []),
        ([alone(0.9)], [0.9]),
        ([alone(0.5), alone(0.5)], [0.5, 0.5]),
        # Two causes claim one extra time under two names.
        ([alone(0.9), alone(0.8)], [0.5294, 0.4706]),
        ([alone(0.4), alone(0.8), alone(0.8)], [0.2, 0.4, 0.4]),
        # Of two that the evidence does not tell apart one is true: together they are the larger one.
        ([alternative(0.9), alternative(0.9)], [0.9, 0.9]),
        ([alternative(0.6), alternative(0.3), alone(0.9)], [0.4, 0.2, 0.6]),
        # Which limit of the volume, and whose CPUs, are two questions.
        ([alternative(0.8), alternative(0.8, "at the server")], [0.5, 0.5]),
        # A question takes nothing from what is likely.
        ([alone(0.9), hint(0.8)], [0.9, 0.1]),
        ([alone(0.9), alone(0.9), hint(0.8)], [0.5, 0.5, 0.0]),
        ([hint(0.9), hint(0.6)], [0.6, 0.4]),
        ([alternative(0.9), alternative(0.9, is_hint=True)], [0.9, 0.9]),
        ([alternative(0.9, is_hint=True), alone(0.7)], [0.3, 0.7]),
    ],
)
def test_claims_are_reduced_to_the_time_that_there_is(claims: list[ShareClaim], shares: list[float]) -> None:
    assert divided(claims) == pytest.approx(shares, abs=1e-4)


CLAIMS = st.lists(
    st.builds(
        ShareClaim,
        share=st.floats(0, 1),
        alternatives=st.sampled_from(["", "", "at the volume", "at the server"]),
        is_hint=st.booleans(),
    ),
    max_size=8,
)


@given(CLAIMS)
def test_shares_add_up_to_no_more_than_there_is_and_no_claim_grows(claims: list[ShareClaim]) -> None:
    shares = divided(claims)
    assert all(0 <= share <= claim.share for share, claim in zip(shares, claims, strict=True))
    names = {claim.alternatives for claim in claims}
    counted = sum(share for share, claim in zip(shares, claims, strict=True) if not claim.alternatives) + sum(
        max(share for share, claim in zip(shares, claims, strict=True) if claim.alternatives == name)
        for name in names - {""}
    )
    assert counted <= 1 + 1e-9


@given(CLAIMS)
def test_the_order_of_the_causes_decides_nothing(claims: list[ShareClaim]) -> None:
    assert divided(claims[::-1])[::-1] == pytest.approx(divided(claims))
