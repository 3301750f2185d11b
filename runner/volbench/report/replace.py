"""Which cells of a run are worth running anew: invalid by what came from outside, and missing in a verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from volbench.analysis.comparison_summary import PairSummary, summarise
from volbench.records.cell import CellResult
from volbench.records.metrics import PRIMARY_METRICS
from volbench.records.report import CellRow
from volbench.report.compared import compared_cells
from volbench.report.effects import as_declared
from volbench.report.rows import cell_rows, used_within_bounds
from volbench.store.run_directory import RunDirectory

_OPEN = ("inconclusive", "mixed")


def cells_to_replace(directory: RunDirectory) -> tuple[str, ...]:
    """Ids of cells: first those whose bounds overlap most with the other volumes' cells, then in planned order.

    A cell that was only disturbed stays where all of its volume's comparisons have a verdict with it, which then
    holds whatever the disturbance did. What a cell's own set-up makes invalid would be so again, and stays.
    """
    run, results = directory.run, directory.results()
    names = [volume.name for volume in run.volumes if not volume.variant_of]
    cells = as_declared(run, cell_rows(run, results))
    comparisons = compared_cells(cells, names, run.suite.comparison)
    pairs = summarise(comparisons)
    passing = {result.cell_id for result in results if _may_pass(result)}
    wanted = {
        cell.cell_id
        for cell in used_within_bounds(cells, comparisons)
        if not cell.valid and cell.cell_id in passing and PRIMARY_METRICS.get(cell.kind) and _missed(cell, pairs)
    }
    overlaps = _overlaps(cells)
    planned = [cell.cell_id for cell in run.cells if cell.cell_id in wanted]
    return tuple(sorted(planned, key=lambda cell_id: -overlaps.get(cell_id, 0)))


def _overlaps(cells: Sequence[CellRow]) -> Counter[str]:
    """By cell: with how many cells of other volumes its interval overlaps, in the metric that parts them best."""
    found: Counter[str] = Counter()
    groups: dict[tuple[str, str], list[CellRow]] = {}
    for cell in cells:
        groups.setdefault((cell.step, str(sorted(cell.parameters.items()))), []).append(cell)
    for group in groups.values():
        counts = [Counter(_overlapping(group, name)) for name in PRIMARY_METRICS.get(group[0].kind, ())]
        found.update(min(counts, key=lambda count: sum(count.values())) if counts else {})
    return found


def _overlapping(group: Sequence[CellRow], name: str) -> Iterator[str]:
    """Each cell's id once for each cell of another volume that its interval overlaps."""
    with_ends = [(cell, *_ends(cell, name)) for cell in group if name in cell.metrics]
    for one, low, high in with_ends:
        for other, other_low, other_high in with_ends:
            if one.volume != other.volume and low <= other_high and other_low <= high:
                yield one.cell_id


def _ends(cell: CellRow, name: str) -> tuple[float, float]:
    value = cell.metrics[name].value
    low, high = cell.bounds.get(name, (value, value))
    return low, math.inf if high is None else high


def _missed(cell: CellRow, pairs: list[PairSummary]) -> bool:
    if not cell.used_within_bounds:
        return True
    of_volume = [pair for pair in pairs if cell.volume in (pair.baseline, pair.candidate)]
    return any(pair.verdict in _OPEN for pair in of_volume)


def _may_pass(result: CellResult) -> bool:
    """Whether each reason of each step came from outside."""
    return result.status == "done" and all(
        set(step.invalid_reasons) <= set(step.outside_reasons) for step in result.steps
    )
