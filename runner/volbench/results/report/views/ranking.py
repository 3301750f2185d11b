"""Three and more volumes side by side: a matrix of medians, the best of a row marked, changes as compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from volbench.core.base.text import change
from volbench.core.records.cell import is_beyond
from volbench.core.records.metrics import CATALOGUE, PRIMARY_METRICS
from volbench.core.records.report import CellRow, Report, Standing
from volbench.results.compare.figures import population, standing_of
from volbench.results.report.wording import label, load_text

RANKING_NOTE = (
    "Bold is the best median of a row, decided or not. After a median stands the change against {baseline} that"
    " their comparison states with its interval; it weighs each cell that counts, so that it is not"
    " the ratio of the medians and may point the other way."
)
VOLUMES_MIN = 3
SHADE_FACTOR = 8.0
"""Factor to the best from which a cell has the darkest shade."""


@dataclass(frozen=True, kw_only=True)
class RankedValue:
    """A volume's figure, of cells of this `standing`.

    `factor` is how many times worse than the best median of the row it is (1 for the best); of invalid cells,
    which bound nothing and set no best, it may be below 1. It orders and shades, and no page states it: what is
    stated of two volumes is the `change` of their comparison, the one figure of a pair that has an interval.
    `shade` is 0 for the best and 1 from SHADE_FACTOR on, linear in the logarithm. `at_rate`: a throughput at a rate
    that the load sets, which ranks nothing.
    """

    value: float
    factor: float
    shade: float
    cells: int
    standing: Standing = "valid"
    change: str = ""
    at_rate: bool = False

    @property
    def best(self) -> bool:
        """Whether it is of valid cells, and no volume of the row is better, of disturbed cells either."""
        return self.factor == 1.0 and self.standing == "valid" and not self.at_rate

    @property
    def mark(self) -> str:
        """What a reader must know of it: `disturbed` or `invalid`; empty for valid cells."""
        return "" if self.standing == "valid" else self.standing

    @property
    def note(self) -> str:
        """What stands behind a value: `+38 %, disturbed`; an invalid figure may lie either way: no change."""
        return ", ".join(filter(None, ("" if self.standing == "invalid" else self.change, self.mark)))


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
    changes = {
        (row.step, load_text(row.parameters), row.metric, row.candidate): change(row.ratio)
        for row in report.comparisons
        if row.ratio is not None
    }
    at_a_rate = {cell.step for cell in report.cells if cell.parameters.get("rate")}
    groups: dict[tuple[str, str, str], list[CellRow]] = {}
    for cell in report.cells:
        for metric in PRIMARY_METRICS.get(cell.kind, ()):
            if metric in cell.metrics or is_beyond(metric, cell.metrics, cell.notes):
                groups.setdefault((cell.step, load_text(cell.parameters), metric), []).append(cell)
    rows = (
        _row(
            step,
            parameters,
            metric,
            cells,
            {name: changes.get((step, parameters, metric, name), "") for name in volumes},
            at_rate=metric == "tps" and bool(at_a_rate & {step, step.partition("/")[0]}),
        )
        for (step, parameters, metric), cells in groups.items()
    )
    return tuple(row for row in rows if sum(value is not None for value in row.values) > 1)


def _row(
    step: str, parameters: str, metric: str, cells: Sequence[CellRow], changes: Mapping[str, str], *, at_rate: bool
) -> RankedMetric:
    """Return the row of one metric; `changes` has all volumes in their order, empty without a comparison."""
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
        for volume in changes
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
            _with_change(
                _value(medians[volume], best, by_volume[volume], higher=sample.better == "higher"),
                text,
                at_rate=at_rate,
            )
            if volume in medians
            else None
            for volume, text in changes.items()
        ),
    )


def _value(value: float, best: float, of: tuple[Standing | None, Sequence[float]], *, higher: bool) -> RankedValue:
    """A disturbed cell that measured the best would have been no worse without: all others are against it."""
    worse, better = (value, best) if higher else (best, value)
    factor = 1.0 if worse == better else better / worse if worse > 0 else math.inf
    shade = min(1.0, math.log(max(factor, 1.0)) / math.log(SHADE_FACTOR)) if math.isfinite(factor) else 1.0
    return RankedValue(value=value, factor=factor, shade=shade, cells=len(of[1]), standing=of[0] or "valid")


def _with_change(value: RankedValue, text: str, *, at_rate: bool) -> RankedValue:
    return replace(value, change=text, at_rate=at_rate, shade=0.0 if at_rate else value.shade)
