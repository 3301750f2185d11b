"""The commands that make a run again; of one that decided nothing, with the number of cells that can decide.

Of a run that is not complete it is the command that measures the rest: what was planned may decide.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from volbench.core.records.report import ComparisonRow, EffectRow
from volbench.results.report.wording import joined, label

_SET, _REPEATS, _OUT = "--set", "repeats=", "--out"


@dataclass(frozen=True, kw_only=True)
class IncompleteRun:
    """A run of which cells are missing.

    Args:
        done: cells with a result, of those that are `planned`.
    """

    run_id: str
    done: int
    planned: int


def reproduce_lines(
    command: Sequence[str],
    about: str,
    rows: Sequence[ComparisonRow | EffectRow],
    progress: IncompleteRun | None = None,
) -> tuple[str, ...]:
    """Return the run's own command, what it rests on, and where it decided nothing a command that can.

    Args:
        command: of the run.
        about: seed and version.
        rows: the comparisons, or of a sweep the effects.
        progress: of a run that is not complete.
    """
    further = _deciding(tuple(command), rows) if progress is None else _resuming(tuple(command), progress)
    return (shlex.join(command), f"# {about}", *further)


def cells_that_decide(rows: Sequence[ComparisonRow | EffectRow]) -> int | None:
    """Return how many cells of each side the open primary rows need, the most of them; None where none says."""
    primary = [row for row in rows if row.primary]
    if any(row.verdict in ("better", "worse", "equivalent") for row in primary):
        return None
    return max((row.runs_needed for row in primary if row.runs_needed is not None), default=None)


def decided_names(rows: Sequence[ComparisonRow | EffectRow]) -> str:
    """Return ` decide p95 latency` where more cells decide some of the open primary metrics only, else nothing."""
    has_number = {row.metric: False for row in rows if row.primary and row.verdict == "inconclusive"}
    has_number |= {row.metric: True for row in rows if row.primary and row.runs_needed is not None}
    names = [label(metric) for metric, is_decided in has_number.items() if is_decided]
    return "" if all(has_number.values()) else f" decide {joined(names)}"


def _deciding(command: tuple[str, ...], rows: Sequence[ComparisonRow | EffectRow]) -> Iterator[str]:
    needed = cells_that_decide(rows)
    if needed is None or command[1:2] != ("run",):
        return
    yield f"# these cells decided nothing; {needed} cells of each volume can{decided_names(rows)}:"
    yield shlex.join((*_without_repeats(command), _SET, f"{_REPEATS}{needed}"))


def _resuming(command: tuple[str, ...], progress: IncompleteRun) -> Iterator[str]:
    yield f"# {progress.done} of {progress.planned} cells are done; this measures the rest:"
    yield resume_command(command, progress.run_id)


def resume_command(command: Sequence[str], run_id: str) -> str:
    """Return the command that continues a run.

    Args:
        command: of the run; `--out` tells where it is.
        run_id: its name.
    """
    separate = (after for option, after in pairwise(command) if option == _OUT)
    with_equals = (option.removeprefix(f"{_OUT}=") for option in command if option.startswith(f"{_OUT}="))
    out = (*separate, *with_equals, "results")[0]
    return shlex.join(("volbench", "resume", f"{out.rstrip('/')}/{run_id}"))


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
