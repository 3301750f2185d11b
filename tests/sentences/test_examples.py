"""Sentences that this version makes of the rows of committed examples, and the page for a person."""

from __future__ import annotations

import re

import pytest
from proofread import page, reports, sentences_of, validations

from sentences import WORDS, plain, states
from volbench.core.records.report import Report

REPORTS = dict(reports())


@pytest.mark.parametrize("name", REPORTS)
def test_a_headline_has_size_and_decision_of_the_rows(name: str) -> None:
    """Above differences of 12 to 205 times stood `not decided yet`."""
    report: Report = REPORTS[name]
    texts = dict(sentences_of(report))
    headline = texts["headline"]
    assert "No verdict yet" not in headline
    changes = [match[0] for match in WORDS.finditer(headline)]
    ratios = [row.ratio for row in report.comparisons if row.ratio]
    ratios += [row.ratio for row in report.effects if row.ratio]
    assert changes or not ratios
    assert all(any(states(change, ratio) for ratio in ratios) for change in changes), headline
    assert re.search(r"better|worse|best|equivalent|matter|told apart", headline) or len(report.volumes) == 1


@pytest.mark.parametrize("name", REPORTS)
def test_no_sentence_that_is_made_anew_has_what_was_objected_to(name: str) -> None:
    for kind, text in sentences_of(REPORTS[name]):
        if kind in ("headline", "sentence", "finding"):
            assert "no bound" not in text
            assert not re.search(r"\N{MINUS SIGN}100 %", text), text
            assert not re.search(r"\([^()]*\([^()]*\)", text), text
            assert not re.search(r"1 threads\b|\b1 cells\b", text), text


def test_a_person_reads_all_of_them_on_one_page() -> None:
    text = plain(page())
    assert len(REPORTS) >= 8
    for name in (*REPORTS, *dict(validations())):
        assert f"<h2>{name}" in text
    assert text.count("<b>headline</b>") == len(REPORTS)
