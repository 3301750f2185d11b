"""Nearest matches and suggestions."""

from __future__ import annotations

import pytest

from volbench.core.base.nearest import nearest_match, suggestion


@pytest.mark.parametrize(
    ("name", "match"), [("thread", "threads"), ("durration", "duration"), ("xyz", None), ("", None)]
)
def test_the_most_similar_candidate_matches(name: str, match: str | None) -> None:
    assert nearest_match(name, iter(["threads", "duration", "rate"])) == match


def test_a_stricter_cutoff_finds_fewer_matches() -> None:
    assert nearest_match("nconect", ["nconnect"], cutoff=0.75) == "nconnect"
    assert nearest_match("connections", ["nconnect"], cutoff=0.75) is None


def test_a_suggestion_names_the_match_or_all_candidates() -> None:
    assert suggestion("thread", ["threads", "rate"]) == "perhaps you meant 'threads'"
    assert suggestion("xyz", ["threads", "rate"]) == "known: threads, rate"
    assert suggestion("xyz", []) == ""
