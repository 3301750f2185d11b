"""The commands that make a run again; of one that decided nothing, with the number of cells that can decide."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise

from volbench.core.records.report import ComparisonRow, EffectRow

_SET, _REPEATS = "--set", "repeats="


def reproduce_lines(
    command: Sequence[str], about: str, rows: Sequence[ComparisonRow | EffectRow]
) -> tuple[str, ...]:
    """Return the run's own command, what it rests on, and where it decided nothing a command that can.

    Args:
        command: of the run.
        about: seed and version.
        rows: the comparisons, or of a sweep the effects.
    """
    return (shlex.join(command), f"# {about}", *_deciding(tuple(command), rows))


def cells_that_decide(rows: Sequence[ComparisonRow | EffectRow]) -> int | None:
    """Return how many cells of each side the open primary rows need, the most of them; None where none says."""
    primary = [row for row in rows if row.primary]
    if any(row.verdict in ("better", "worse", "equivalent") for row in primary):
        return None
    return max((row.runs_needed for row in primary if row.runs_needed is not None), default=None)


def _deciding(command: tuple[str, ...], rows: Sequence[ComparisonRow | EffectRow]) -> Iterator[str]:
    needed = cells_that_decide(rows)
    if needed is None or command[1:2] != ("run",):
        return
    yield f"# the same decided nothing; {needed} cells of each volume can:"
    yield shlex.join((*_without_repeats(command), _SET, f"{_REPEATS}{needed}"))


def _without_repeats(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the arguments without the number of cells that the run had."""
    skip = False
    for argument, following in pairwise((*arguments, "")):
        if skip:
            skip = False
        elif argument == _SET and following.startswith(_REPEATS):
            skip = True
        elif not argument.startswith(f"{_SET}={_REPEATS}"):
            yield argument
