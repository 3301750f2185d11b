"""Progress of a run: a live line on a terminal, else a line for each cell."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.markup import escape

from volbench.base.text import duration, number, percent, quantity
from volbench.cli import console
from volbench.execute.run import CellState
from volbench.plan.cost import estimate
from volbench.records.cell import CellResult
from volbench.records.metrics import PRIMARY_METRICS
from volbench.records.run import RunRecord
from volbench.report.wording import label
from volbench.store.run_directory import RunDirectory

METRICS_SHOWN, FIGURES_MAX = 2, 4
"""Primary metrics of a step, and figures of a cell, in the line of a finished cell."""
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
def progress_watcher(directory: RunDirectory, *, json: bool) -> Iterator[Callable[[CellState], None]]:
    """Yield a callback for the orchestrator that shows the current cell, and each finished one with its result."""
    time_left = TimeLeft(directory.run)
    if console.messages.is_terminal and not json and not console.messages.quiet:
        with console.messages.status("starting") as status:
            lines = _ProgressLines(directory, time_left, begin_lines=False)

            def show(state: CellState) -> None:
                lines(state)
                status.update(escape(lines.line(state)))

            yield show
            lines.report_finished()
    else:
        lines = _ProgressLines(directory, time_left)
        yield lines
        lines.report_finished()


class _ProgressLines:
    """Prints a line when a cell begins, at intervals while it runs, and with its result when it is done.

    Args:
        begin_lines: False where a live line shows the current cell.
    """

    def __init__(self, directory: RunDirectory, time_left: TimeLeft, *, begin_lines: bool = True) -> None:
        self._directory = directory
        self._time_left = time_left
        self._begin_lines = begin_lines
        self._begun: dict[str, CellState] = {}
        self._began_s = self._printed_at_s = time.monotonic()

    def __call__(self, state: CellState) -> None:
        if state.cell_id not in self._begun:
            self.report_finished()
            self._begun[state.cell_id] = state
        elif time.monotonic() - self._printed_at_s <= QUIET_REPORT_S:
            self._time_left.after(state)
            return
        self._printed_at_s = time.monotonic()
        text = self.line(state)
        if self._begin_lines:
            console.say(text)

    def line(self, state: CellState) -> str:
        """Return the current cell, what it does, the time since the run began, and the time left."""
        activity = (
            f"cell {state.number}/{state.total} on {state.volume}" if state.number else "preparing the dataset"
        )
        progress_text = ""
        if state.progress is not None:
            progress_text = f": {state.progress.text}"
            if state.progress.fraction is not None:
                progress_text += f" {percent(state.progress.fraction)}"
        elapsed, remaining = duration(round(self._elapsed_s)), duration(round(self._time_left.after(state)))
        return f"{activity}{progress_text}  ({elapsed} elapsed, about {remaining} left)"

    def report_finished(self) -> None:
        """Print the result of each cell that has one since the last call."""
        for cell_id, state in list(self._begun.items()):
            result = self._directory.result(cell_id) if state.number else None
            if result is not None or not state.number:
                del self._begun[cell_id]
            if result is not None:
                console.say(
                    f"cell {state.number}/{state.total} {state.volume}: {result_text(result)}"
                    f"  ({duration(round(self._elapsed_s))} elapsed)"
                )

    @property
    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_s


def result_text(result: CellResult) -> str:
    """Return a cell's first primary metrics and its validity: `transactions/s 438, p95 latency 33 ms; valid`."""
    if result.status != "done":
        return f"failed: {result.failure.message}" if result.failure is not None else "failed"
    figures = [
        f"{label(name)} {number(metric.value) if metric.unit == '1/s' else quantity(metric.value, metric.unit)}"
        for step in result.steps
        for name in PRIMARY_METRICS.get(step.kind, ())[:METRICS_SHOWN]
        if (metric := step.metrics.get(name)) is not None
    ][:FIGURES_MAX]
    reasons = list(dict.fromkeys(reason for step in result.steps for reason in step.invalid_reasons))
    validity = f"invalid: {reasons[0]}" if reasons else "valid"
    return f"{', '.join(figures)}; {validity}" if figures else validity
