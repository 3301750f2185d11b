"""Progress of a run: a live line on a terminal, else a line for each cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.markup import escape

from volbench.cli import console
from volbench.measure.execute.run import CellState
from volbench.measure.session.progress import ProgressLines
from volbench.results.store.run_directory import RunDirectory


@contextmanager
def progress_watcher(directory: RunDirectory, *, json: bool) -> Iterator[Callable[[CellState], None]]:
    """Yield a callback for the orchestrator that shows the current cell, and each finished one with its result."""
    live = console.messages.is_terminal and not json and not console.messages.quiet
    lines = ProgressLines(directory, console.say, begin_lines=not live)
    if not live:
        yield lines
        lines.report_finished()
        return
    with console.messages.status("starting") as status:

        def show(state: CellState) -> None:
            lines(state)
            status.update(escape(lines.line(state)))

        yield show
        lines.report_finished()
