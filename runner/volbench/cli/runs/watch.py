"""Progress of a run: a live line on a terminal, else a line for each cell."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.markup import escape
from rich.status import Status

from volbench.base.text import duration, percent
from volbench.cli import console
from volbench.execute.run import CellState
from volbench.plan.cost import estimate
from volbench.records.run import RunRecord

QUIET_REPORT_S = 30.0
"""Without a terminal, the progress of a long cell is printed at this interval."""


class TimeLeft:
    """Remaining time, from the completed cells; before the first from the plan's estimate."""

    def __init__(self, run: RunRecord) -> None:
        self._planned_s = estimate(run.suite, volumes=len(run.volumes)).wall_s / max(1, len(run.cells))
        self._cells = len(run.cells)
        self._done_s: list[float] = []
        self._current = (0, 0.0)

    def after(self, state: CellState) -> float:
        """Return seconds until the last cell is done."""
        number, elapsed_s = self._current
        if state.number != number and number:
            self._done_s.append(elapsed_s)
        self._current = (state.number, state.elapsed_s)
        each_s = sum(self._done_s) / len(self._done_s) if self._done_s else self._planned_s
        waiting = self._cells - max(state.number, 1) + (1 if state.number else 0)
        return max(0.0, each_s * waiting - (state.elapsed_s if state.number else 0.0)) + (
            0 if state.number else each_s
        )


@contextmanager
def progress_watcher(run: RunRecord, *, json: bool) -> Iterator[Callable[[CellState], None]]:
    """Yield a callback for the orchestrator that shows the state of the current cell."""
    time_left = TimeLeft(run)
    if console.err.is_terminal and not json:
        with console.err.status("starting") as status:
            yield lambda state: _show_live(status, state, time_left)
    else:
        yield _ProgressLines(time_left)


def _show_live(status: Status, state: CellState, time_left: TimeLeft) -> None:
    status.update(escape(_line(state, time_left.after(state))))


class _ProgressLines:
    """Prints a line when a cell begins, and at intervals while it runs."""

    def __init__(self, time_left: TimeLeft) -> None:
        self._time_left = time_left
        self._cell = ""
        self._printed_at_s = 0.0

    def __call__(self, state: CellState) -> None:
        remaining_s = self._time_left.after(state)
        if state.cell_id != self._cell or time.monotonic() - self._printed_at_s > QUIET_REPORT_S:
            self._cell, self._printed_at_s = state.cell_id, time.monotonic()
            console.say(_line(state, remaining_s))


def _line(state: CellState, remaining_s: float) -> str:
    activity = f"cell {state.number}/{state.of} on {state.volume}" if state.number else "preparing the dataset"
    progress_text = ""
    if state.progress is not None:
        progress_text = f": {state.progress.text}"
        if state.progress.fraction is not None:
            progress_text += f" {percent(state.progress.fraction)}"
    elapsed, remaining = duration(round(state.elapsed_s)), duration(round(remaining_s))
    return f"{activity}{progress_text}  ({elapsed}; about {remaining} left)"
