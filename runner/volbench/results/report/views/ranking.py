"""Three and more volumes side by side: a matrix of medians, the best of a row marked, the others by factor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from volbench.core.records.cell import is_beyond
from volbench.core.records.metrics import CATALOGUE, PRIMARY_METRICS
from volbench.core.records.report import CellRow, Report
from volbench.results.report.wording import label, load_text

VOLUMES_MIN = 3
SHADE_FACTOR = 8.0
"""Factor to the best from which a cell has the darkest shade."""


@dataclass(frozen=True, kw_only=True)
class RankedValue:
    """The median of a volume's valid cells.

    `factor` is how many times worse than the best of the row it is (1 for the best); `shade` is 0 for the best and
    1 from SHADE_FACTOR on, linear in the logarithm.
    """

    value: float
    factor: float
    shade: float
    cells: int

    @property
    def best(self) -> bool:
        """Whether no volume of the row is better."""
        return self.factor == 1.0


@dataclass(frozen=True, kw_only=True)
class RankedMetric:
    """One metric of one step; `values` are in the order of the volumes, None without a valid cell."""

    step: str
    parameters: str
    metric: str
    title: str
    unit: str
    better: str
    values: tuple[RankedValue | None, ...]


def ranking(report: Report) -> tuple[RankedMetric, ...]:
    """The primary metrics of all steps over all declared volumes; empty for fewer than three volumes."""
    volumes = [volume.name for volume in report.volumes]
    if len(volumes) < VOLUMES_MIN or report.sweep is not None:
        return ()
    groups: dict[tuple[str, str, str], list[CellRow]] = {}
    for cell in report.cells:
        for metric in PRIMARY_METRICS.get(cell.kind, ()):
            if cell.valid and (metric in cell.metrics or is_beyond(metric, cell.metrics, cell.notes)):
                groups.setdefault((cell.step, load_text(cell.parameters), metric), []).append(cell)
    rows = (_row(step, parameters, metric, cells, volumes) for (step, parameters, metric), cells in groups.items())
    return tuple(row for row in rows if sum(value is not None for value in row.values) > 1)


def _row(step: str, parameters: str, metric: str, cells: Sequence[CellRow], volumes: Sequence[str]) -> RankedMetric:
    sample = CATALOGUE[metric]
    worst = -math.inf if sample.better == "higher" else math.inf
    by_volume = {
        volume: [
            cell.metrics[metric].value if metric in cell.metrics else worst
            for cell in cells
            if cell.volume == volume
        ]
        for volume in volumes
    }
    medians = {volume: median(values) for volume, values in by_volume.items() if values}
    medians = {volume: value for volume, value in medians.items() if math.isfinite(value)}
    best = (max if sample.better == "higher" else min)(medians.values(), default=math.nan)
    return RankedMetric(
        step=step,
        parameters=parameters,
        metric=metric,
        title=label(metric),
        unit=sample.unit,
        better=sample.better,
        values=tuple(
            _value(medians[volume], best, len(by_volume[volume]), higher=sample.better == "higher")
            if volume in medians
            else None
            for volume in volumes
        ),
    )


def _value(value: float, best: float, cells: int, *, higher: bool) -> RankedValue:
    low, high = (value, best) if higher else (best, value)
    factor = 1.0 if low == high else high / low if low > 0 else math.inf
    shade = min(1.0, math.log(factor) / math.log(SHADE_FACTOR)) if math.isfinite(factor) else 1.0
    return RankedValue(value=value, factor=factor, shade=shade, cells=cells)
