"""Three and more volumes side by side: a matrix of medians, the best of a row marked, the others by factor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from volbench.core.base.text import times
from volbench.core.records.cell import is_beyond
from volbench.core.records.metrics import CATALOGUE, PRIMARY_METRICS
from volbench.core.records.report import CellRow, Report, Standing
from volbench.results.compare.figures import population, standing_of
from volbench.results.report.wording import label, load_text

VOLUMES_MIN = 3
SHADE_FACTOR = 8.0
"""Factor to the best from which a cell has the darkest shade."""


@dataclass(frozen=True, kw_only=True)
class RankedValue:
    """A volume's figure, of cells of this `standing`.

    `factor` is how many times worse than the best of the row it is (1 for the best); of invalid cells, which bound
    nothing and set no best, it may be below 1. `shade` is 0 for the best and 1 from SHADE_FACTOR on, linear in the
    logarithm.
    """

    value: float
    factor: float
    shade: float
    cells: int
    standing: Standing = "valid"

    @property
    def best(self) -> bool:
        """Whether it is of valid cells, and no volume of the row is better, of disturbed cells either."""
        return self.factor == 1.0 and self.standing == "valid"

    @property
    def mark(self) -> str:
        """What a reader must know of it: `disturbed` or `invalid`; empty for valid cells."""
        return "" if self.standing == "valid" else self.standing

    @property
    def note(self) -> str:
        """What stands behind a value that is not the best: `2.37 times, disturbed`; never a factor below 1."""
        return ", ".join(filter(None, (times(self.factor) if self.factor > 1 else "", self.mark)))


@dataclass(frozen=True, kw_only=True)
class RankedMetric:
    """One metric of one step; `values` are in the order of the volumes, None without a figure."""

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
            if metric in cell.metrics or is_beyond(metric, cell.metrics, cell.notes):
                groups.setdefault((cell.step, load_text(cell.parameters), metric), []).append(cell)
    rows = (_row(step, parameters, metric, cells, volumes) for (step, parameters, metric), cells in groups.items())
    return tuple(row for row in rows if sum(value is not None for value in row.values) > 1)


def _row(step: str, parameters: str, metric: str, cells: Sequence[CellRow], volumes: Sequence[str]) -> RankedMetric:
    sample = CATALOGUE[metric]
    worst = -math.inf if sample.better == "higher" else math.inf
    by_volume = {
        volume: population(
            (
                standing_of(valid=cell.valid, bounded=metric in cell.bounds),
                cell.metrics[metric].value if metric in cell.metrics else worst,
            )
            for cell in cells
            if cell.volume == volume
        )
        for volume in volumes
    }
    medians = {volume: median(values) for volume, (_, values) in by_volume.items() if values}
    medians = {volume: value for volume, value in medians.items() if math.isfinite(value)}
    measured = [value for volume, value in medians.items() if by_volume[volume][0] != "invalid"]
    best = (max if sample.better == "higher" else min)(measured or medians.values(), default=math.nan)
    return RankedMetric(
        step=step,
        parameters=parameters,
        metric=metric,
        title=label(metric),
        unit=sample.unit,
        better=sample.better,
        values=tuple(
            _value(medians[volume], best, by_volume[volume], higher=sample.better == "higher")
            if volume in medians
            else None
            for volume in volumes
        ),
    )


def _value(value: float, best: float, of: tuple[Standing | None, Sequence[float]], *, higher: bool) -> RankedValue:
    """A disturbed cell that measured the best would have been no worse without: all others are against it."""
    worse, better = (value, best) if higher else (best, value)
    factor = 1.0 if worse == better else better / worse if worse > 0 else math.inf
    shade = min(1.0, math.log(max(factor, 1.0)) / math.log(SHADE_FACTOR)) if math.isfinite(factor) else 1.0
    return RankedValue(value=value, factor=factor, shade=shade, cells=len(of[1]), standing=of[0] or "valid")
