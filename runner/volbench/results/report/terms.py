"""What the words of a verdict mean: each is explained where it is used, and once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from volbench.core.records.report import Summary

CELL = "one pass of the suite on one volume, with a fresh copy of the data"
CELL_TERM = f"A cell is {CELL}."
_IS, _LOOKS = r"\b(?:is|are) (?:better|worse|best|worst)\b", r"\blooks (?:better|worse|best)\b"
_STRENGTHS = {
    (True, True): 'What "is" better or worse is decided by a test; what only "looks" so is not.',
    (True, False): 'What "is" better or worse is decided by a test.',
    (False, True): 'What only "looks" better or worse is not decided.',
}
"""By whether something is called better, and whether it looks so."""
_TERMS = {
    r"\bcells?\b": CELL_TERM,
    r"\bconfidence \d+ %": (
        "A confidence is how many of such findings were right in volbench's own lab of injected faults, less where"
        " a check fails or could not be made, or not every cell shows the cause."
    ),
    r", not counted\b|\bcause on (?![^:;]*, confidence \d)[^:;]*:": (
        "A cause without a confidence is not counted: volbench's own lab of injected faults never had such a"
        " finding, which is called likely at most."
    ),
}


def terms_of(texts: Iterable[str], explained: Collection[str] = ()) -> tuple[str, ...]:
    """Return what the words of some sentences mean, without what the page says before.

    Args:
        texts: of a headline, or of causes.
        explained: what this function returned before.
    """
    text = " ".join(texts)
    used = (re.search(_IS, text) is not None, re.search(_LOOKS, text) is not None)
    terms = [_STRENGTHS[used]] if used in _STRENGTHS else []
    terms += [term for pattern, term in _TERMS.items() if re.search(pattern, text, re.IGNORECASE)]
    return tuple(term for term in terms if term not in explained)


def verdict_notes(summary: Summary, *, explained: Collection[str] = ()) -> tuple[str, ...]:
    """Return the notes of a headline, and what its words mean.

    Args:
        summary: of the report.
        explained: terms that the page explains before.
    """
    return (*summary.notes, *terms_of((summary.headline, summary.sentence, *summary.notes), explained))
