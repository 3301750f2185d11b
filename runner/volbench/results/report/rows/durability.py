"""Durability and speed: what power cuts cost on each volume, and the speed of the same volume."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Any

from volbench.core.records.cell import CellResult, StepResult
from volbench.core.records.metrics import PRIMARY_METRICS
from volbench.core.records.report import CellRow, DurabilityRow, SpeedRow

KIND = "crash"
SPEEDS_MAX = 4


def durability_rows(
    results: Sequence[CellResult], cells: Sequence[CellRow], volume_of: dict[str, str], volumes: Sequence[str]
) -> tuple[DurabilityRow, ...]:
    """Return one row for each volume, crash step and its settings, in the order of the volumes.

    Invalid cells count too: a second of missed samples does not bring a lost commit back.
    """
    groups: dict[tuple[str, str, str], list[StepResult]] = {}
    for result in results:
        for step in result.steps:
            if step.kind == KIND:
                settings = str(sorted(step.details.get("settings", {}).items()))
                groups.setdefault((volume_of[result.cell_id], step.step, settings), []).append(step)
    ranked = sorted(groups.items(), key=lambda group: volumes.index(group[0][0]))
    return tuple(_row(volume, steps, _speeds(cells, volume)) for (volume, _, _), steps in ranked)


def _row(volume: str, steps: Sequence[StepResult], speeds: tuple[SpeedRow, ...]) -> DurabilityRow:
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
        commits_per_s=_median(_values(steps, "commits_per_s")),
        recovery_s=_median(_values(steps, "recovery_s")),
        first_query_ms=_median(_values(steps, "first_query_ms")),
        speeds=speeds,
    )


def _speeds(cells: Iterable[CellRow], volume: str) -> tuple[SpeedRow, ...]:
    """Return the first primary metric of each other step of the volume: the median of its valid cells."""
    groups: dict[tuple[str, str], list[CellRow]] = {}
    for cell in cells:
        metric = next(iter(PRIMARY_METRICS.get(cell.kind, ())), "")
        if cell.volume == volume and cell.kind != KIND and cell.valid and metric in cell.metrics:
            groups.setdefault((cell.step, metric), []).append(cell)
    return tuple(
        SpeedRow(
            step=step,
            metric=metric,
            value=median(cell.metrics[metric].value for cell in group),
            unit=group[0].metrics[metric].unit,
        )
        for (step, metric), group in list(groups.items())[:SPEEDS_MAX]
    )


def _values(steps: Iterable[StepResult], name: str) -> Iterator[float]:
    return (step.metrics[name].value for step in steps if name in step.metrics)


def _total(steps: Iterable[StepResult], name: str) -> int:
    return round(sum(_values(steps, name)))


def _median(values: Iterable[float]) -> float | None:
    known_values = list(values)
    return median(known_values) if known_values else None
