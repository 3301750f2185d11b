"""The picture in the verdict box: every cell of the headline's step as a mark on its volume's lane, plain data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from volbench.core.base.text import quantity
from volbench.core.records.metrics import PRIMARY_METRICS
from volbench.core.records.report import CellRow, ComparisonRow, FigureRow, HeadlineFigure, Report, Standing
from volbench.results.report.views.geometry import Tick, cell_standing, linear_ticks, log_ticks
from volbench.results.report.wording import figure_clauses, label, load_text

LOG_FROM = 20.0
"""From this factor between the largest and the smallest value on, a linear axis makes the small ones one point."""
PANELS_MAX = 2
"""Throughput and p95: what the volume gives, and what a client waits."""
ROOM = 4.0
"""Per cent of the width that marks keep from both ends."""


@dataclass(frozen=True, kw_only=True)
class PictureMark:
    """One cell: where it is, per cent from the left, how it counts, and its value in words."""

    at: float
    kind: Standing
    title: str


@dataclass(frozen=True, kw_only=True)
class PictureLane:
    """One volume: its figure in words, its cells, and the interval of a candidate's change.

    `median_at` is that of the figure. `interval` is the change's confidence interval times the baseline's figure,
    so that it lies on the same axis.
    """

    volume: str
    text: str
    marks: tuple[PictureMark, ...]
    median_at: float | None
    interval: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True)
class PicturePanel:
    """One metric over all volumes."""

    metric: str
    better: str
    unit: str
    step: str
    log: bool
    ticks: tuple[Tick, ...]
    lanes: tuple[PictureLane, ...]


def picture(report: Report) -> tuple[PicturePanel, ...]:
    """Return the panels: the headline's metric and the next one of the same step; empty without a figure."""
    figure = report.summary.figure
    if figure is None:
        return ()
    cells = [
        cell for cell in report.cells if cell.step == figure.step and load_text(cell.parameters) == figure.load
    ]
    primary = [name for cell in cells[:1] for name in PRIMARY_METRICS.get(cell.kind, ())]
    order = sorted(dict.fromkeys((figure.metric, *primary[:PANELS_MAX])), key=_order(primary))
    names = [figure.metric, *(name for name in order if name != figure.metric)][:PANELS_MAX]
    volumes = list(dict.fromkeys(volume.name for volume in report.volumes if volume.name in _volumes(cells)))
    panels = (_panel(report, figure, cells, name, volumes) for name in sorted(names, key=_order(primary)))
    return tuple(panel for panel in panels if panel is not None)


def _order(names: Sequence[str]) -> Callable[[str], int]:
    return lambda name: names.index(name) if name in names else len(names)


def _volumes(cells: Iterable[CellRow]) -> set[str]:
    return {cell.volume for cell in cells}


def _panel(
    report: Report, figure: HeadlineFigure, cells: Sequence[CellRow], metric: str, volumes: Sequence[str]
) -> PicturePanel | None:
    measured = [cell for cell in cells if metric in cell.metrics]
    if not measured:
        return None
    rows = {
        row.candidate: row
        for row in report.comparisons
        if (row.step, load_text(row.parameters), row.metric) == (figure.step, figure.load, metric)
    }
    figures = {
        row.volume: row
        for row in report.figures
        if (row.step, load_text(row.parameters), row.metric) == (figure.step, figure.load, metric)
    }
    sample = measured[0].metrics[metric]
    intervals = {name: ends for name, row in rows.items() if (ends := _interval(row)) is not None}
    values = [cell.metrics[metric].value for cell in measured]
    values += [end for ends in intervals.values() for end in ends]
    axis = _Axis.of(values)
    return PicturePanel(
        metric=metric,
        better=sample.better,
        unit=sample.unit,
        step=figure.step,
        log=axis.log,
        ticks=axis.ticks(),
        lanes=tuple(
            _lane(
                name,
                [cell for cell in measured if cell.volume == name],
                metric,
                figures.get(name),
                intervals.get(name),
                axis,
            )
            for name in volumes
        ),
    )


def _interval(row: ComparisonRow) -> tuple[float, float] | None:
    if row.ci is None or row.baseline_value is None:
        return None
    low, high = sorted(end * row.baseline_value for end in row.ci)
    return (low, high) if math.isfinite(high) else None


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """From 0, or logarithmic where the values span decades."""

    low: float
    high: float
    log: bool

    @classmethod
    def of(cls, values: Sequence[float]) -> _Axis:
        positive = [value for value in values if value > 0]
        low, high = min(values), max(values)
        if positive and low > 0 and high / low >= LOG_FROM:
            return cls(low=math.log10(low), high=math.log10(high), log=True)
        return cls(low=min(0.0, low), high=high if high > min(0.0, low) else 1.0, log=False)

    def at(self, value: float) -> float:
        """Return per cent from the left."""
        if self.log and value <= 0:
            return ROOM
        position = math.log10(value) if self.log else value
        share = (position - self.low) / (self.high - self.low)
        return round(ROOM + (100 - 2 * ROOM) * min(1.0, max(0.0, share)), 2)

    def ticks(self) -> tuple[Tick, ...]:
        values = log_ticks(self.low, self.high) if self.log else linear_ticks(self.low, self.high)
        return tuple(Tick(at=self.at(value), text=f"{value:,.6g}") for value in values)


def _lane(
    volume: str,
    cells: Sequence[CellRow],
    metric: str,
    figure: FigureRow | None,
    interval: tuple[float, float] | None,
    axis: _Axis,
) -> PictureLane:
    return PictureLane(
        volume=volume,
        text="no figure" if figure is None else figure_clauses(figure),
        marks=tuple(
            PictureMark(
                at=axis.at(cell.metrics[metric].value), kind=cell_standing(cell, metric), title=_title(cell, metric)
            )
            for cell in cells
        ),
        median_at=None if figure is None else axis.at(figure.value),
        interval=None if interval is None else (axis.at(interval[0]), axis.at(interval[1])),
    )


def _title(cell: CellRow, metric: str) -> str:
    value = cell.metrics[metric]
    text = f"{cell.cell_id}: {label(metric)} {quantity(value.value, value.unit)}"
    return text if cell.valid else f"{text}; {cell_standing(cell, metric)}: {'; '.join(cell.invalid_reasons)}"
