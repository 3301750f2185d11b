"""Durability and speed: what power cuts cost on each volume, and the speed of the same volume.

Losses are of all cells: a second of missed samples does not bring a lost commit back. Times and speeds are the
figures that every other table has (`results/compare/figures.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from volbench.core.records.cell import CellResult, StepResult
from volbench.core.records.metrics import PRIMARY_METRICS
from volbench.core.records.report import CellRow, DurabilityRow, SpeedRow
from volbench.results.compare.figures import figure_of, figure_row

KIND = "crash"
SPEEDS_MAX = 4


def durability_rows(
    results: Sequence[CellResult], cells: Sequence[CellRow], volume_of: dict[str, str], volumes: Sequence[str]
) -> tuple[DurabilityRow, ...]:
    """Return one row for each volume, crash step and its settings, in the order of the volumes."""
    groups: dict[tuple[str, str, str], dict[str, StepResult]] = {}
    for result in results:
        for step in result.steps:
            if step.kind == KIND:
                settings = str(sorted(step.details.get("settings", {}).items()))
                groups.setdefault((volume_of[result.cell_id], step.step, settings), {})[result.cell_id] = step
    ranked = sorted(groups.items(), key=lambda group: volumes.index(group[0][0]))
    return tuple(_row(volume, steps, cells) for (volume, _, _), steps in ranked)


def _row(volume: str, by_cell: Mapping[str, StepResult], cells: Sequence[CellRow]) -> DurabilityRow:
    steps = list(by_cell.values())
    of_step = [cell for cell in cells if cell.step == steps[0].step and cell.cell_id in by_cell]
    details = steps[0].details
    cuts: list[dict[str, Any]] = [cut for step in steps for cut in step.details.get("cuts", ())]
    return DurabilityRow(
        volume=volume,
        step=steps[0].step,
        fault=str(details.get("fault", "")),
        volume_durability=details.get("volume_durability"),
        settings=dict(details.get("settings", {})),
        cells=len(steps),
        cuts=len(cuts),
        acknowledged_commits=_total(steps, "acknowledged_commits"),
        lost_commits=_total(steps, "lost_commits"),
        torn_or_damaged=sum(_total(steps, name) for name in ("torn_commits", "damaged_rows", "damaged_tables")),
        failed_recoveries=_total(steps, "failed_recoveries"),
        lost_s=max(_values(steps, "lost_s"), default=None),
        commits_per_s=figure_of(of_step, "commits_per_s"),
        recovery_s=figure_of(of_step, "recovery_s"),
        first_query_ms=figure_of(of_step, "first_query_ms"),
        speeds=_speeds(cells, volume),
    )


def _speeds(cells: Iterable[CellRow], volume: str) -> tuple[SpeedRow, ...]:
    """Return the figure of the first primary metric of each other step of the volume."""
    groups: dict[tuple[str, str], list[CellRow]] = {}
    for cell in cells:
        metric = next(iter(PRIMARY_METRICS.get(cell.kind, ())), "")
        if cell.volume == volume and cell.kind != KIND and metric in cell.metrics:
            groups.setdefault((cell.step, metric), []).append(cell)
    figures = (figure_row(group, metric) for (_, metric), group in list(groups.items())[:SPEEDS_MAX])
    return tuple(
        SpeedRow(
            step=figure.step,
            metric=figure.metric,
            value=figure.value,
            unit=figure.unit,
            standing=figure.standing,
        )
        for figure in figures
        if figure is not None
    )


def _values(steps: Iterable[StepResult], name: str) -> Iterator[float]:
    return (step.metrics[name].value for step in steps if name in step.metrics)


def _total(steps: Iterable[StepResult], name: str) -> int:
    return round(sum(_values(steps, name)))
