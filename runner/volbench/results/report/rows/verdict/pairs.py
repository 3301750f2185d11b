"""The comparisons of a run's volumes, and whether they decide a run that goes on until it is decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from volbench.core.records.cell import CellResult
from volbench.core.records.report import CellRow
from volbench.core.records.run import RunRecord
from volbench.results.compare.compared_cells import compared_cells
from volbench.results.compare.comparison import Comparison
from volbench.results.compare.comparison_summary import summarise
from volbench.results.report.rows.cells import as_declared, cell_rows
from volbench.results.report.rows.nodes import (
    declared_placements,
    hosts_by_volume,
    nodes_of_all,
    without_verdict_across_nodes,
)
from volbench.results.report.rows.verdict.volumes import unavailable_volumes
from volbench.results.stats.sequential import CELLS_MIN
from volbench.results.store.run_directory import RunDirectory


def compared_volumes(run: RunRecord, results: Sequence[CellResult], unavailable: Mapping[str, str]) -> list[str]:
    """Return the names of the declared volumes, without those that could not be used and have no cell."""
    volume_of = {cell.cell_id: cell.volume for cell in run.cells}
    measured = {volume_of[result.cell_id] for result in results}
    return [
        volume.name
        for volume in run.volumes
        if not volume.variant_of and (volume.name in measured or volume.name not in unavailable)
    ]


def run_comparisons(
    run: RunRecord, results: Sequence[CellResult], cells: Sequence[CellRow], volumes: Sequence[str]
) -> list[Comparison]:
    """Return the comparisons of the volumes with the first one; those across nodes have no verdict."""
    volume_of = {cell.cell_id: cell.volume for cell in run.cells}
    comparisons = compared_cells(as_declared(run, cells), volumes, run.suite.comparison)
    return without_verdict_across_nodes(comparisons, hosts_by_volume(results, volume_of), declared_placements(run))


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What the cells of a run decide: all of it, or the pairs of some volumes with the first one.

    Args:
        reason: why the cells so far are enough, for one line of text; empty: they are not.
        baseline: the volume that each other one makes a pair with.
        volumes: other ones whose pair has a verdict.
    """

    reason: str = ""
    baseline: str = ""
    volumes: tuple[str, ...] = ()


def why_decided(directory: RunDirectory) -> str:
    """Return why the cells so far are enough, for one line of text, or nothing."""
    return decision_of(directory).reason


def decision_of(directory: RunDirectory) -> Decision:
    """Return what the cells so far decide.

    All, where every pair of volumes has a verdict in the report, or there is one volume and nothing to decide.
    """
    run, results = directory.run, directory.results()
    volume_of = {cell.cell_id: cell.volume for cell in run.cells}
    volumes = compared_volumes(run, results, unavailable_volumes(directory.events(), volume_of))
    cells = Counter(volume_of[result.cell_id] for result in results if result.status == "done")
    if min((cells[name] for name in volumes), default=0) < CELLS_MIN:
        return Decision()
    if len(volumes) < 2:
        return Decision(reason="one volume is not compared")
    if len(nodes_of_all(hosts_by_volume(results, volume_of), volumes)) < int(run.target_options.get("nodes", 1)):
        return Decision()  # nodes that the run was asked to measure on have no block yet
    pairs = summarise(run_comparisons(run, results, cell_rows(run, results), volumes))
    decided = tuple(pair.candidate for pair in pairs if pair.verdict != "inconclusive")
    enough = len(decided) == len(volumes) - 1
    return Decision(
        reason="every pair of volumes has a verdict" if enough else "",
        baseline=volumes[0],
        volumes=() if run.suite.sweep is not None else decided,  # effects of a sweep are of all of its cells
    )
