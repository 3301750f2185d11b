"""Progress of a run: a live line on a terminal, a line a cell elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.markup import escape
from rich.status import Status

from volbench.cli import console
from volbench.cli.plan import duration
from volbench.execute.run import CellState
from volbench.plan.cost import estimate
from volbench.records.run import RunRecord

QUIET_REPORT_S = 30.0
"""Without a terminal, a cell that takes long says so this often."""


class TimeLeft:
    """Seconds to go: from the cells done so far, before that from the plan's estimate."""

    def __init__(self, run: RunRecord) -> None:
        self._planned_s = estimate(run.suite, volumes=len(run.volumes)).wall_s / max(1, len(run.cells))
        self._cells = len(run.cells)
        self._done_s: list[float] = []
        self._current = (0, 0.0)

    def after(self, state: CellState) -> float:
        """Seconds until the last cell is done."""
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
def watching(run: RunRecord, *, json: bool) -> Iterator[Callable[[CellState], None]]:
    """Something to hand to the orchestrator."""
    left = TimeLeft(run)
    if console.err.is_terminal and not json:
        with console.err.status("starting") as status:
            yield lambda state: _show_live(status, state, left)
    else:
        yield _Lines(left)


def _show_live(status: Status, state: CellState, left: TimeLeft) -> None:
    status.update(escape(_line(state, left.after(state))))


class _Lines:
    """A line when a cell begins, and now and then while it goes on."""

    def __init__(self, left: TimeLeft) -> None:
        self._left = left
        self._cell = ""
        self._said_s = 0.0

    def __call__(self, state: CellState) -> None:
        remaining_s = self._left.after(state)
        if state.cell_id != self._cell or time.monotonic() - self._said_s > QUIET_REPORT_S:
            self._cell, self._said_s = state.cell_id, time.monotonic()
            console.say(_line(state, remaining_s))


def _line(state: CellState, remaining_s: float) -> str:
    what = f"cell {state.number}/{state.of} on {state.volume}" if state.number else "preparing the dataset"
    doing = ""
    if state.progress is not None:
        doing = f": {state.progress.text}"
        if state.progress.fraction is not None:
            doing += f" {100 * state.progress.fraction:.0f} %"
    return f"{what}{doing}  ({duration(state.elapsed_s)}; about {duration(remaining_s)} left)"
