"""Raw runs of the lab, explained again with the rules and the check as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from causes.sample import SAMPLE, SUFFIX, Outcome, counts, figures, outcomes, pack
from volbench.results.explain.calibration import LEFT_COUNTS

SCORES_MAX_BYTES = 8 << 20


@pytest.fixture(scope="module")
def scored() -> list[Outcome]:
    return [*outcomes()]


def test_the_sample_is_small_and_has_enough_runs(scored: list[Outcome]) -> None:
    assert len(scored) >= 30
    assert sum(file.stat().st_size for file in SAMPLE.glob(f"*{SUFFIX}")) <= SCORES_MAX_BYTES


def test_scores_do_not_fall(scored: list[Outcome]) -> None:
    """As they were when the check was made; what changes them says so here."""
    result = figures(scored)
    assert result["right_of_named"] >= 0.93
    assert result["named"] >= 0.81
    assert result["wrong_and_sure"] <= 0.02, "one of 60: a write cache that ran out, called a stall"
    assert result["acquitted_wrongly"] <= 0.02
    assert result["clean_accused"] <= 0.02
    assert result["clean_acquitted"] >= 0.90


def test_confidences_are_what_the_check_leaves(scored: list[Outcome]) -> None:
    """The counts that confidences come from are near those of the rules as they are."""
    again = counts(scored)
    for left in LEFT_COUNTS.left:
        assert again.confidence(left) == pytest.approx(LEFT_COUNTS.confidence(left), abs=0.08)


def test_no_confidence_is_certain(scored: list[Outcome]) -> None:
    assert max(row.confidence or 0.0 for outcome in scored for row in outcome.findings) <= 0.99


def test_a_family_that_is_left_out_does_not_change_what_is_sure(scored: list[Outcome]) -> None:
    """Counted on all families but one, what nothing speaks against is as sure for the family that was left out."""
    for family in {outcome.family for outcome in scored}:
        assert counts(scored, without=family).confidence("rebuilt") >= 0.85


def test_a_stand_of_the_disk_is_no_small_pool(scored: list[Outcome]) -> None:
    """Reads of 2.3 ms in the median second, and a second in which nothing ends, again and again (recorded)."""
    (stand,) = (item for item in scored if item.name.startswith("stand-of-the-disk-101"))
    assert "memory.buffer_pool_small" not in [row.cause for row in stand.findings]


def test_an_empty_bucket_is_not_surely_a_slow_volume(scored: list[Outcome]) -> None:
    """The rate stays as it is while waiting times vary: a limit looks like that (recorded)."""
    for item in scored:
        if item.name.startswith("bucket-empty"):
            assert (item.findings[0].confidence or 0.0) < 0.9


def test_what_is_not_proven_is_not_packed(tmp_path: Path) -> None:
    (tmp_path / "truth.json").write_text(json.dumps({"injected": False}))
    assert not pack(tmp_path, tmp_path / "to")
    assert not (tmp_path / "to").exists()
