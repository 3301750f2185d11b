"""Cells that are done but invalid, and are repeated with their neighbours in time: as many as the plan allows.

The cells of a block with equal parameters are compared with each other as neighbours in time. A new value of one
next to an old value of another would be of two times. Where one volume's cells alone are invalid, as those of an
emulated volume that falls behind are, early cells would be compared with late ones: of simulated equal volumes on a
machine that slows down, up to all were named (`tests/benchmarks/repeated_cells.py`). So they are repeated together,
and of two attempts the same one counts for all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from volbench.core.plan.cost import replacements_max
from volbench.core.records.cell import CellResult
from volbench.core.records.run import PlannedCell, not_begun
from volbench.measure.execute.completion import delayed_share, is_valid
from volbench.results.store.run_directory import RunDirectory

Neighbours = list[PlannedCell]


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

    def choose(self, cells: Sequence[PlannedCell]) -> list[PlannedCell]:
        """Return which of these cells to repeat, as many as the budget leaves; a part of a run has its share.

        What an interrupted call did not get to comes first.
        """
        with self._lock:
            return self._begun(cells) or self._choose(cells)

    def _begun(self, cells: Sequence[PlannedCell]) -> list[PlannedCell]:
        """Return the cells whose repeat was decided and has not begun."""
        waiting = not_begun(self._directory.events())
        return [cell for cell in cells if cell.cell_id in waiting]

    def _choose(self, cells: Sequence[PlannedCell]) -> list[PlannedCell]:
        run, cell_ids = self._directory.run, {cell.cell_id for cell in cells}
        replaced = [event for event in self._directory.events() if event.event == "cell_replaced"]
        allowed = replacements_max(run) * len(cells) // len(run.cells)
        budget = allowed - sum(event.cell_id in cell_ids for event in replaced)
        invalid = [cell_id for cell_id in self._invalid_cells(self._directory) if cell_id in cell_ids]
        chosen: list[PlannedCell] = []
        for neighbours in self._in_order(cells, invalid):
            if len(chosen) + len(neighbours) <= budget:
                chosen += neighbours
        for cell in chosen:
            self._directory.journal.append("cell_replaced", cell_id=cell.cell_id)
            self._say(f"cell {cell.cell_id} {self._reason_text(cell.cell_id, invalid)}")
        not_chosen = set(invalid) - {cell.cell_id for cell in chosen}
        if not_chosen:
            more = " more" if chosen else ""
            self._say(f"{len(not_chosen)}{more} invalid cells are not repeated: the plan allows {allowed} repeats")
        return chosen

    def _in_order(self, cells: Sequence[PlannedCell], invalid: Sequence[str]) -> list[Neighbours]:
        """Return what can be repeated: first where most cells are invalid, then as `invalid` has them.

        A neighbour that its own set-up makes invalid would be so again; where no other one is left, nothing would
        come of a repeat.
        """
        groups = {cell.cell_id: group for group in neighbours_of(cells) for cell in group}
        in_order = {groups[cell_id][0].cell_id: groups[cell_id] for cell_id in invalid}
        usable = []
        for group in in_order.values():
            repeated = [cell for cell in group if cell.cell_id in invalid or self._is_valid(cell.cell_id)]
            if len(repeated) > 1 or len(group) == 1:
                usable.append(repeated)
        return sorted(usable, key=lambda group: -sum(cell.cell_id in invalid for cell in group))

    def _is_valid(self, cell_id: str) -> bool:
        result = self._directory.result(cell_id)
        return result is not None and is_valid(result)

    def settle(self, cells: Sequence[PlannedCell]) -> None:
        """Decide which attempt of neighbours that were repeated counts: the same one for all of them.

        Where all were repeated, that in which the worst one was disturbed less: only the extent of the disturbance
        decides, never the figures. Where a repeat is missing, for the run was interrupted or a cell failed, the
        attempt before it, and all of them are to be repeated anew.
        """
        with self._lock:
            self._settle(cells)

    def _settle(self, cells: Sequence[PlannedCell]) -> None:
        events = self._directory.events()
        chosen, waiting = {event.cell_id for event in events if event.event == "cell_replaced"}, not_begun(events)
        for neighbours in neighbours_of(cells):
            cell_ids = [cell.cell_id for cell in neighbours if cell.cell_id in chosen]
            begun = [cell_id for cell_id in cell_ids if cell_id not in waiting]
            if len(begun) < len(cell_ids) or not all(map(self._is_done, begun)):
                self._undo(begun)
            elif begun:
                self._select_less_disturbed(begun)

    def _select_less_disturbed(self, cell_ids: Sequence[str]) -> None:
        before = [self._directory.last_attempt(cell_id) for cell_id in cell_ids]
        after = [self._directory.result(cell_id) for cell_id in cell_ids]
        is_complete = all(result is not None and result.status == "done" for result in before)
        if is_complete and _worst(before) < _worst(after):
            for cell_id in cell_ids:
                self._directory.put_back(cell_id)

    def _undo(self, cell_ids: Sequence[str]) -> None:
        """Put back the attempt before the repeat, where it was done, and decide on the repeat anew."""
        for cell_id in cell_ids:
            if self._directory.put_back_done(cell_id):
                self._directory.journal.append("cell_replaced", cell_id=cell_id)

    def _is_done(self, cell_id: str) -> bool:
        result = self._directory.result(cell_id)
        return result is not None and result.status == "done"

    def _reason_text(self, cell_id: str, invalid: Sequence[str]) -> str:
        if cell_id not in invalid:
            return "is repeated with its neighbour in time, which is invalid"
        result = self._directory.result(cell_id)
        steps = result.steps if result is not None else ()
        reasons = "; ".join(dict.fromkeys(reason for step in steps for reason in step.invalid_reasons))
        return f"is invalid and is repeated: {reasons}"


def neighbours_of(cells: Iterable[PlannedCell]) -> list[Neighbours]:
    """Return the cells in groups that are compared as neighbours in time: of one block, with equal parameters."""
    groups: dict[tuple[int, str], Neighbours] = {}
    for cell in cells:
        groups.setdefault((cell.block, str(sorted(cell.parameters.items()))), []).append(cell)
    return list(groups.values())


def _worst(results: Iterable[CellResult | None]) -> float:
    """Return the largest delayed share of some cells."""
    return max(delayed_share(result) for result in results if result is not None)
