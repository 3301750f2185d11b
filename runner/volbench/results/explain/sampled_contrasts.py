"""The contrasts of sizes that concern a cell's steps, each with the series of its time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from volbench.core.records.cell import CellResult
from volbench.core.records.size_contrast import SizeContrast
from volbench.errors import RunUnreadable
from volbench.results.explain.evidence.size_contrasts import SampledContrast
from volbench.results.stats.grid import Grid, align
from volbench.results.store.loaded_run import LoadedRun

_ROUNDING_S = 1e-6


def contrasts_of_cell(loaded: LoadedRun, result: CellResult, cell_grid: Grid) -> tuple[SampledContrast, ...]:
    """Return those of a cell, and those after the last step of its volume's first cell.

    Args:
        loaded: the run.
        result: of the cell.
        cell_grid: its series.
    """
    own = tuple(_sampled(result, cell_grid))
    if any(not sampled.follows for sampled in own):
        return own
    for first in _equal_cells(loaded, result):
        if any(not contrast.step for contrast in first.size_contrasts) and loaded.has_series(first.cell_id):
            with suppress(RunUnreadable):  # named where that cell is explained
                grid = align(loaded.series(first.cell_id), on_demand=True)
                return (*own, *(sampled for sampled in _sampled(first, grid) if not sampled.follows))
    return own


def contrasts_of_step(contrasts: tuple[SampledContrast, ...], name: str) -> tuple[SampledContrast, ...]:
    """Return those that follow a step, or a part of it; without any, those after a cell's last one."""
    step = name.partition("/")[0]
    following = tuple(sampled for sampled in contrasts if sampled.contrast.step == step)
    return following or tuple(sampled for sampled in contrasts if not sampled.follows)


def _equal_cells(loaded: LoadedRun, result: CellResult) -> Iterator[CellResult]:
    """Yield the results of the cells of the same volume and combination of factors."""
    planned = {cell.cell_id: (cell.volume, tuple(sorted(cell.parameters.items()))) for cell in loaded.run.cells}
    for candidate in loaded.results:
        if candidate.cell_id != result.cell_id and planned[candidate.cell_id] == planned[result.cell_id]:
            yield candidate


def _sampled(result: CellResult, grid: Grid) -> Iterator[SampledContrast]:
    for contrast in result.size_contrasts:
        yield SampledContrast(
            contrast=contrast,
            grid=_whole_intervals(grid, contrast),
            disk=result.volume_facts.disk,
            follows=bool(contrast.step),
        )


def _whole_intervals(grid: Grid, contrast: SizeContrast) -> Grid:
    """Return the intervals that lie in a contrast from begin to end."""
    begin_s, end_s = contrast.window_s
    inside = (grid.t_s - grid.width_s >= begin_s - _ROUNDING_S) & (grid.t_s <= end_s + _ROUNDING_S)
    return grid.where(inside)
