"""`pvc:CLAIM/PATH`: a path in a claim, and nothing beyond it."""

from __future__ import annotations

import pytest

from volbench.core.profile.claim_path import DATASET, ClaimPath, parse_claim_path
from volbench.errors import UsageError


@pytest.mark.parametrize(
    ("text", "claim", "path"),
    [
        ("pvc:dumps/shop.sql.gz", "dumps", "shop.sql.gz"),
        ("pvc:dumps/2026/shop", "dumps", "2026/shop"),
        ("pvc:dumps/2026//shop/", "dumps", "2026/shop"),
        ("pvc:restored", "restored", ""),
        ("pvc:restored/", "restored", ""),
        ("pvc:team.dumps/..old/a..b.sql", "team.dumps", "..old/a..b.sql"),
    ],
)
def test_a_path_in_a_claim(text: str, claim: str, path: str) -> None:
    assert parse_claim_path(text) == ClaimPath(claim=claim, path=path)


def test_a_pod_has_it_below_the_mounted_claim() -> None:
    place = parse_claim_path("pvc:dumps/2026/shop.sql")
    assert place is not None
    assert str(place.in_pod) == f"{DATASET}/2026/shop.sql"


@pytest.mark.parametrize("text", ["", "/data/shop.sql", "shop.sql", "/data/pvc:dumps/shop.sql"])
def test_a_path_of_this_machine_is_none(text: str) -> None:
    assert parse_claim_path(text) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pvc:dumps/../shop.sql", "not a path in the claim"),
        ("pvc:dumps/a/../../shop.sql", "not a path in the claim"),
        ("pvc:dumps/..", "not a path in the claim"),
        ("pvc:dumps//etc/passwd", "not a path in the claim"),
        ("pvc:dumps/a\nb", "not a path in the claim"),
        ("pvc:dumps/a\0b", "not a path in the claim"),
        ("pvc:", "needs a name or path"),
        ("pvc:/shop.sql", "needs a name or path"),
        ("pvc:Dumps/shop.sql", "is not a claim's name"),
        ("pvc:../shop.sql", "is not a claim's name"),
        ("pvc:dumps?size=1Gi/shop.sql", "has no option"),
    ],
)
def test_what_leaves_the_claim_or_names_none_is_refused_with_an_example(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        parse_claim_path(text)
    assert refused.value.where == f"dataset.path {text!r}"
    assert "pvc:CLAIM/dumps/shop.sql.gz" in refused.value.next_step
