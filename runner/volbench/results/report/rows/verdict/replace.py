"""The cells of a run that are worth repeating: invalid by an outside disturbance, and missing in a verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from volbench.core.records.cell import CellResult
from volbench.core.records.metrics import PRIMARY_METRICS
from volbench.core.records.report import CellRow
from volbench.results.compare.compared_cells import compared_cells
from volbench.results.compare.comparison_summary import PairSummary, summarise
from volbench.results.report.rows.cells import as_declared, cell_rows, used_within_bounds
from volbench.results.store.run_directory import RunDirectory

_UNDECIDED = ("inconclusive", "mixed")


def cells_to_replace(directory: RunDirectory) -> tuple[str, ...]:
    """Return ids of cells: first those whose bounds overlap most with the other volumes' cells, then as planned.

    A disturbed cell stays where all comparisons of its volume have a verdict with it, since that holds whatever
    the disturbance did. A cell that its own set-up makes invalid would be invalid again, and stays too.
    """
    run, results = directory.run, directory.results()
    names = [volume.name for volume in run.volumes if not volume.variant_of]
    cells = as_declared(run, cell_rows(run, results))
    comparisons = compared_cells(cells, names, run.suite.comparison)
    pairs = summarise(comparisons)
    disturbed_from_outside = {result.cell_id for result in results if _invalid_from_outside(result)}
    to_replace = {
        cell.cell_id
        for cell in used_within_bounds(cells, comparisons)
        if not cell.valid
        and cell.cell_id in disturbed_from_outside
        and PRIMARY_METRICS.get(cell.kind)
        and _is_missing(cell, pairs)
    }
    overlaps = _overlaps(cells)
    planned = [cell.cell_id for cell in run.cells if cell.cell_id in to_replace]
    return tuple(sorted(planned, key=lambda cell_id: -overlaps.get(cell_id, 0)))


def _overlaps(cells: Sequence[CellRow]) -> Counter[str]:
    """Return, by cell, how many cells of other volumes its interval overlaps, in the most selective metric."""
    overlaps: Counter[str] = Counter()
    groups: dict[tuple[str, str], list[CellRow]] = {}
    for cell in cells:
        groups.setdefault((cell.step, str(sorted(cell.parameters.items()))), []).append(cell)
    for group in groups.values():
        counts = [Counter(_overlapping(group, name)) for name in PRIMARY_METRICS.get(group[0].kind, ())]
        overlaps.update(min(counts, key=lambda count: sum(count.values())) if counts else {})
    return overlaps


def _overlapping(group: Sequence[CellRow], name: str) -> Iterator[str]:
    """Yield each cell's id once for each cell of another volume that its interval overlaps."""
    intervals = [(cell, *_ends(cell, name)) for cell in group if name in cell.metrics]
    for cell, low, high in intervals:
        for other_cell, other_low, other_high in intervals:
            if cell.volume != other_cell.volume and low <= other_high and other_low <= high:
                yield cell.cell_id


def _ends(cell: CellRow, name: str) -> tuple[float, float]:
    value = cell.metrics[name].value
    low, high = cell.bounds.get(name, (value, value))
    return low, math.inf if high is None else high


def _is_missing(cell: CellRow, pairs: list[PairSummary]) -> bool:
    if not cell.used_within_bounds:
        return True
    of_volume = [pair for pair in pairs if cell.volume in (pair.baseline, pair.candidate)]
    return any(pair.verdict in _UNDECIDED for pair in of_volume)


def _invalid_from_outside(result: CellResult) -> bool:
    """Return whether every reason of every step is an outside disturbance."""
    return result.status == "done" and all(
        set(step.invalid_reasons) <= set(step.outside_reasons) for step in result.steps
    )
