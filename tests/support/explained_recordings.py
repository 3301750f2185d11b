"""Explanations of recordings among the fixtures, each computed once in a process: who asks only reads them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from volbench.results.explain.recordings.directory import RecordedExplanation, explain_recorded


@cache
def explanation_of(source: Path) -> RecordedExplanation:
    """Return what `explain_recorded` says of a file or directory that no test changes. Raises what that raises."""
    return explain_recorded(source)
