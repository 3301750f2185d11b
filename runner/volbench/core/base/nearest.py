"""The nearest match of a misspelled name, for error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

CUTOFF = 0.6
"""Smallest similarity of a match, 0 to 1, as `difflib` counts it."""


def nearest_match(name: str, candidates: Iterable[str], *, cutoff: float = CUTOFF) -> str | None:
    """Return the candidate that is most similar to a name; None if none is similar enough."""
    matches = difflib.get_close_matches(name, list(candidates), n=1, cutoff=cutoff)
    return matches[0] if matches else None


def suggestion(name: str, candidates: Iterable[str]) -> str:
    """Return `perhaps you meant 'x'`, or the list of candidates if none is similar; empty without candidates."""
    names = list(candidates)
    match = nearest_match(name, names)
    if match is not None:
        return f"perhaps you meant {match!r}"
    return f"known: {', '.join(names)}" if names else ""
