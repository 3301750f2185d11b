"""Words of a verdict that a page explains: those that it uses, and no others."""

from __future__ import annotations

import pytest

from volbench.core.records.report import Summary
from volbench.results.report.terms import CELL_TERM, terms_of, verdict_notes


def summary(headline: str, notes: tuple[str, ...] = ()) -> Summary:
    return Summary(verdict="equivalent", sentence="No difference.", headline=headline, notes=notes)


def test_notes_say_once_what_a_cell_is() -> None:
    """Readers met `decided by 3 cells each` without a word on what a cell is."""
    of_cells = summary("One cell each, not decided")
    assert verdict_notes(of_cells) == (CELL_TERM,)
    assert verdict_notes(of_cells, explained=(CELL_TERM,)) == ()
    assert verdict_notes(summary("b: 3 ms", ("Also.",))) == ("Also.",)


@pytest.mark.parametrize(
    ("headline", "term"),
    [
        (
            "b is better than a and looks best of 3",
            'What "is" better or worse is decided by a test; what only "looks" so is not.',
        ),
        ("b is worse than a", 'What "is" better or worse is decided by a test.'),
        ("not decided: b looks worse than a", 'What only "looks" better or worse is not decided.'),
    ],
)
def test_the_strengths_of_a_verdict_have_their_scale(headline: str, term: str) -> None:
    """`Is better`, `looks best` and `not decided` are three strengths, and no page said which is which."""
    (text,) = verdict_notes(summary(headline))
    assert text.startswith(term)


def test_a_confidence_is_explained_where_one_is_stated() -> None:
    """Many causes had `confidence 85 %`, defined nowhere."""
    counted, missing = "likely cause on b, confidence 92 %: x", "likely cause on b: x"
    (text,) = terms_of([counted])
    assert text.startswith("A confidence is how many of such findings were right in volbench's own lab")
    (text,) = terms_of([missing])
    assert text.startswith(
        "A cause without a confidence is not counted: volbench's own lab of injected faults never"
    )
    assert terms_of(["likely cause on both a and b, one of 2: x"]) == (text,)
    assert terms_of(["Likely, not counted; explains 98 % of the latency."]) == (text,)
    assert len(terms_of([counted, f"{counted}; {missing}"])) == 2
    assert terms_of(["transactions/s 3 to 4"]) == ()
