"""Which cells of a run are done or pending, and how much a done one was disturbed."""

from __future__ import annotations

from collections.abc import Sequence

from volbench.core.records.cell import CellResult
from volbench.core.records.run import PlannedCell, skipped_cells, stopped_volumes
from volbench.results.compare.disturbance import held_share
from volbench.results.store.run_directory import RunDirectory


def is_finished(directory: RunDirectory) -> bool:
    """Return whether every cell is done or skipped, and the run was cleaned up after the last one."""
    events = directory.events()
    ended = bool(events) and events[-1].event == "run_finished"
    return ended and not pending_cells(directory)


def pending_cells(directory: RunDirectory, cells: Sequence[PlannedCell] | None = None) -> list[PlannedCell]:
    """Return the planned cells, in order, that are neither done nor skipped because the run was decided.

    Args:
        cells: look at these alone; None: at all of the run, each of whose results is read.
    """
    skipped = skipped_cells(directory.events())
    planned = directory.run.cells if cells is None else cells
    return [cell for cell in planned if cell.cell_id not in skipped and not is_done(directory, cell)]


def open_cells(directory: RunDirectory) -> list[PlannedCell]:
    """Return the planned cells of blocks after those of a decided pair of volumes, whose figures stay.

    Another value in place of one would be another look at that pair, and next to a figure that stays one of another
    time.
    """
    cells, stopped = directory.run.cells, stopped_volumes(directory.events())
    done = [cell for cell in cells if cell.volume in stopped and is_done(directory, cell)]
    last = max((cell.block for cell in done), default=-1)
    return [cell for cell in cells if cell.block > last]


def is_done(directory: RunDirectory, planned: PlannedCell) -> bool:
    """Return whether a cell has a result, and not that of a failure."""
    result = directory.result(planned.cell_id)
    return result is not None and result.status == "done"


def is_valid(result: CellResult) -> bool:
    """Return whether a result is that of a cell whose steps are all valid."""
    return result.status == "done" and all(step.valid for step in result.steps)


def delayed_share(result: CellResult) -> float:
    """Return an upper bound of the delayed share of a step's time, the worst of all steps; 2 if unbounded."""
    shares = [0.0]
    for step in result.steps:
        bounded = {disturbance.text for disturbance in step.disturbances if disturbance.beyond}
        if not step.valid:
            is_bounded = bounded.issuperset(step.invalid_reasons)
            shares.append(held_share(step.disturbances, ceiling=step.delayable_share) if is_bounded else 2.0)
    return max(shares)
