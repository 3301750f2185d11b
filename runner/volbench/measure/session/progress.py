"""Progress of a run as lines: what a cell does, how long the rest will take, and what each cell gave."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import RLock

from volbench.core.base.text import duration, number, percent, quantity
from volbench.core.plan.cost import estimate
from volbench.core.records.cell import CellResult
from volbench.core.records.metrics import PRIMARY_METRICS, MetricValue
from volbench.core.records.run import ResolvedSuite
from volbench.core.suite.sweep import with_parameters
from volbench.measure.execute.completion import pending_cells
from volbench.measure.execute.run import CellState
from volbench.results.report.wording import label
from volbench.results.store.run_directory import RunDirectory

METRICS_SHOWN, FIGURES_MAX = 2, 4
"""Primary metrics of a step, and figures of a cell, in the line of a finished cell."""
WARN_AFTER_CELLS = 4
"""If so many cells are done and none is valid, a line says so."""
PROGRESS_MIN, ACTIVITY_S_MIN = 0.005, 10.0
"""Progress, and seconds, from which on the remaining time of a step's phase follows from its own speed."""
QUIET_REPORT_S = 30.0
"""Without a terminal, the progress of a long cell is printed at this interval."""


class TimeLeft:
    """Remaining time: the plan's estimate of each cell, corrected by done cells and by the running ones' progress.

    Without a forecast, an estimate cannot know how fast a volume is. Cells may run at once, in any order.
    """

    def __init__(self, directory: RunDirectory) -> None:
        run = directory.run
        self._directory = directory
        self._number_of = {cell.cell_id: number for number, cell in enumerate(run.cells, start=1)}
        self._planned_s = {
            number: _planned_s(with_parameters(run.suite, cell.parameters), cell.volume)
            for number, cell in enumerate(run.cells, start=1)
        }
        self._waiting = {self._number_of[cell.cell_id] for cell in pending_cells(directory)}
        self._events_seen = len(directory.events())
        self._running: dict[int, _Activity] = {}
        self._done_s: list[tuple[int, float]] = []
        self._repeats: set[int] = set()

    def begin(self, state: CellState) -> bool:
        """Note that a cell begins; return whether it is the repeat of an invalid one."""
        events = self._directory.events()
        for index, event in enumerate(events):
            if event.event == "cell_replaced" and event.cell_id in self._number_of:
                self._repeats.add(self._number_of[event.cell_id])
                if index >= self._events_seen:
                    self._waiting.add(self._number_of[event.cell_id])
            elif event.event == "volume_unavailable":
                volume = event.details.get("volume")
                self._waiting -= {
                    self._number_of[c.cell_id] for c in self._directory.run.cells if c.volume == volume
                }
        self._events_seen = len(events)
        self._waiting.discard(state.number)
        if state.number:
            self._running[state.number] = _Activity()
        return state.number in self._repeats

    def finish(self, number: int, result: CellResult) -> None:
        """Note that a cell has its result; a failed one says nothing of the time that cells take."""
        if self._running.pop(number, None) is not None and result.status == "done":
            self._done_s.append((number, result.wall_s))

    def after(self, state: CellState) -> float:
        """Return seconds until the last cell is done."""
        for cell_id, index in self._number_of.items():
            result = self._directory.result(cell_id) if index in self._running and index != state.number else None
            if result is not None and result.status == "done":
                self.finish(index, result)  # its lane has no other cell
        if state.number in self._running:
            self._running[state.number].update(state)
        ratio = self._ratio()
        running_s = [
            max(ratio * self._planned_s[number] - activity.elapsed_s, activity.left_s)
            for number, activity in self._running.items()
        ]
        waiting_s = ratio * sum(self._planned_s[number] for number in self._waiting)
        return max([(sum(running_s) + waiting_s) / max(1, len(running_s)), *running_s, 0.0])

    def _ratio(self) -> float:
        """Return the time of a cell relative to its estimate; of running cells only where they take longer."""
        if self._done_s:
            planned_s = sum(self._planned_s[number] for number, _ in self._done_s)
            return sum(seconds for _, seconds in self._done_s) / planned_s
        ratios = [
            (activity.elapsed_s + activity.left_s) / self._planned_s[number]
            for number, activity in self._running.items()
        ]
        return max([1.0, *ratios])


def _planned_s(suite: ResolvedSuite, volume: str) -> float:
    cost = estimate(suite, volumes=1, volume=volume)
    return cost.wall_s / cost.cells


class _Activity:
    """What a running cell does now, such as a phase of a step.

    `elapsed_s` is the cell's. `left_s` is what the activity still takes at its speed until its latest progress; 0
    where that is not known yet.
    """

    def __init__(self) -> None:
        self.elapsed_s = self.left_s = 0.0
        self._began_s: float | None = None
        self._first = self._last = 0.0
        self._last_s = 0.0

    def update(self, state: CellState) -> None:
        """Read the cell's state."""
        self.elapsed_s = state.elapsed_s
        fraction = state.progress.fraction if state.progress is not None else None
        if fraction is None:
            self._began_s, self.left_s = None, 0.0
            return
        if self._began_s is None or fraction < self._last:
            self._began_s, self._first, self._last_s = state.elapsed_s, fraction, state.elapsed_s
        elif fraction > self._last:
            self._last_s = state.elapsed_s
        self._last = fraction
        seconds, share = self._last_s - self._began_s, fraction - self._first
        if (
            share >= PROGRESS_MIN and seconds >= ACTIVITY_S_MIN
        ):  # progress by whole points stands still between them
            self.left_s = max(0.0, seconds * (1 - fraction) / share - (state.elapsed_s - self._last_s))
        else:
            self.left_s = 0.0


class ProgressLines:
    """Prints a line when a cell begins, at intervals while it runs, and with its result when it is done.

    Lanes that run at once may call it from their threads.

    Args:
        say: gets each line.
        begin_lines: False where a live line shows the current cell.
    """

    def __init__(self, directory: RunDirectory, say: Callable[[str], None], *, begin_lines: bool = True) -> None:
        self._directory = directory
        self._say = say
        self._lock = RLock()
        self._time_left = TimeLeft(directory)
        self._begin_lines = begin_lines
        self._begun: dict[str, CellState] = {}
        self._repeated: set[str] = set()
        self._finished = self._valid = 0
        self._began_s = self._printed_at_s = time.monotonic()

    def __call__(self, state: CellState) -> None:
        """Note a cell's state, and print what is new."""
        with self._lock:
            self._note(state)

    def _note(self, state: CellState) -> None:
        if state.cell_id not in self._begun:
            self._report_finished()
            self._begun[state.cell_id] = state
            if self._time_left.begin(state):
                self._repeated.add(state.cell_id)
        elif time.monotonic() - self._printed_at_s <= QUIET_REPORT_S:
            self._time_left.after(state)
            return
        self._printed_at_s = time.monotonic()
        text = self._line(state)
        if self._begin_lines:
            self._say(text)

    def line(self, state: CellState) -> str:
        """Return the current cell, what it does, the time since the run began, and the time left."""
        with self._lock:
            return self._line(state)

    def _line(self, state: CellState) -> str:
        activity = f"{self._name(state)} on {state.volume}" if state.number else "preparing the dataset"
        progress_text = ""
        if state.progress is not None:
            progress_text = f": {state.progress.text}"
            if state.progress.fraction is not None:
                progress_text += f" {percent(state.progress.fraction)}"
        elapsed, remaining = duration(round(self._elapsed_s)), duration(round(self._time_left.after(state)))
        return f"{activity}{progress_text}  ({elapsed} elapsed, about {remaining} left)"

    def report_finished(self) -> None:
        """Print the result of each cell that has one since the last call."""
        with self._lock:
            self._report_finished()

    def _report_finished(self) -> None:
        for cell_id, state in list(self._begun.items()):
            result = self._directory.result(cell_id) if state.number else None
            if result is not None:
                del self._begun[cell_id]
                self._time_left.finish(state.number, result)
                self._say(
                    f"{self._name(state)} {state.volume}: {result_text(result)}"
                    f"  ({duration(round(self._elapsed_s))} elapsed)"
                )
                self._warn_of_invalid_cells(result)

    def _warn_of_invalid_cells(self, result: CellResult) -> None:
        """Say once that the first cells are all invalid: who reads that now need not wait for the end."""
        self._finished += 1
        self._valid += all(step.valid for step in result.steps)
        if self._finished == WARN_AFTER_CELLS and not self._valid:
            self._say(
                f"note: the first {WARN_AFTER_CELLS} cells are all invalid; the run continues, but may end without"
                " a verdict. Ctrl-C ends it and keeps the cells"
            )

    def _name(self, state: CellState) -> str:
        """Return `cell 3/16`, and `repeat of cell 3/16` where it was run before and was invalid."""
        repeat = "repeat of " if state.cell_id in self._repeated else ""
        return f"{repeat}cell {state.number}/{state.total}"

    @property
    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_s


def result_text(result: CellResult) -> str:
    """Return a cell's first primary metrics and its validity: `transactions/s 438, p95 latency 33 ms; valid`.

    Where several steps have figures, each begins with the step's name.
    """
    if result.status != "done":
        return f"failed: {result.failure.message}" if result.failure is not None else "failed"
    figures = [
        (step.step, f"{label(name)} {_figure(metric)}")
        for step in result.steps
        for name in PRIMARY_METRICS.get(step.kind, ())[:METRICS_SHOWN]
        if (metric := step.metrics.get(name)) is not None
    ][:FIGURES_MAX]
    steps = list(dict.fromkeys(step for step, _ in figures))
    texts = [
        (f"{step}: " if len(steps) > 1 else "") + ", ".join(text for name, text in figures if name == step)
        for step in steps
    ]
    reasons = list(dict.fromkeys(reason for step in result.steps for reason in step.invalid_reasons))
    return "; ".join([*texts, f"invalid: {reasons[0]}" if reasons else "valid"])


def _figure(metric: MetricValue) -> str:
    return number(metric.value) if metric.unit == "1/s" else quantity(metric.value, metric.unit)
