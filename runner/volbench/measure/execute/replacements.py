"""Cells that are done but invalid, and are repeated: as many as the plan allows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from volbench.core.plan.cost import replacements_max
from volbench.core.records.run import PlannedCell
from volbench.measure.execute.completion import delayed_share
from volbench.results.store.run_directory import RunDirectory


class Replacements:
    """Chooses invalid cells of a run to repeat; the journal counts them across a resume.

    Args:
        invalid_cells: returns ids of done but invalid cells for which another attempt may give valid figures.
        on_message: called with a line for each cell that is repeated, with the reason.
    """

    def __init__(
        self,
        directory: RunDirectory,
        invalid_cells: Callable[[RunDirectory], Sequence[str]],
        on_message: Callable[[str], None],
    ) -> None:
        self._directory = directory
        self._invalid_cells = invalid_cells
        self._say = on_message
        self._lock = threading.Lock()

    def choose(self, cells: Sequence[PlannedCell]) -> set[str]:
        """Return which of these cells to repeat, as many as the budget leaves; a part of a run has its share."""
        with self._lock:
            return self._choose({cell.cell_id for cell in cells})

    def _choose(self, cell_ids: set[str]) -> set[str]:
        run = self._directory.run
        replaced = [event for event in self._directory.events() if event.event == "cell_replaced"]
        allowed = replacements_max(run) * len(cell_ids) // len(run.cells)
        budget = allowed - sum(event.cell_id in cell_ids for event in replaced)
        candidates = [cell_id for cell_id in self._invalid_cells(self._directory) if cell_id in cell_ids]
        chosen = candidates[: max(0, budget)]
        for cell_id in chosen:
            self._directory.journal.append("cell_replaced", cell_id=cell_id)
            self._say(f"cell {cell_id} is invalid and is repeated: {self._why_invalid(cell_id)}")
        if len(candidates) > len(chosen):
            more = " more" if chosen else ""
            self._say(
                f"{len(candidates) - len(chosen)}{more} invalid cells are not repeated: the plan allows"
                f" {allowed} repeats"
            )
        return set(chosen)

    def select_less_disturbed(self, cell_id: str) -> None:
        """Of a cell that was repeated and is invalid again, use the attempt that was disturbed less.

        Only the extent of the disturbance decides, never the figures.
        """
        current, previous = self._directory.result(cell_id), self._directory.last_attempt(cell_id)
        if current is None or previous is None or previous.status != "done":
            return
        if current.status == "done" and delayed_share(previous) < delayed_share(current):
            self._directory.put_back(cell_id)

    def _why_invalid(self, cell_id: str) -> str:
        result = self._directory.result(cell_id)
        steps = result.steps if result is not None else ()
        return "; ".join(dict.fromkeys(reason for step in steps for reason in step.invalid_reasons))
