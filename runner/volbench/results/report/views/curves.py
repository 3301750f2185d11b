"""Curves of a sweep within a step: operations a second and latency against the operations in flight."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from volbench.core.records.base import Scalar
from volbench.core.records.report import CellRow
from volbench.results.report.views.geometry import Tick, log_ticks

KIND = "fio"
POINTS_MIN = 2
METRICS = ("fio_iops", "latency_ms_p50", "latency_ms_p99")


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """One point of a volume: medians of its valid cells, the lowest and the highest, by metric."""

    under_way: int
    middle: Mapping[str, float]
    low: Mapping[str, float]
    high: Mapping[str, float]
    cells: int


@dataclass(frozen=True, kw_only=True)
class VolumeCurve:
    """The points of one volume, by growing queue."""

    volume: str
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, kw_only=True)
class StepCurves:
    """All volumes' curves of one pattern and size of operation; `parameters` is the text of further ones."""

    step: str
    parameters: str
    curves: tuple[VolumeCurve, ...]

    @property
    def depths(self) -> tuple[int, ...]:
        """Return every number of operations in flight that any volume has, ascending."""
        return tuple(sorted({point.under_way for curve in self.curves for point in curve.points}))

    def at(self, volume: str, under_way: int) -> CurvePoint | None:
        """Return one point; None where the volume has none."""
        for curve in self.curves:
            if curve.volume == volume:
                return next((point for point in curve.points if point.under_way == under_way), None)
        return None


def step_curves(cells: Iterable[CellRow], volumes: Sequence[str]) -> tuple[StepCurves, ...]:
    """Return the curves of every pattern that was measured with at least two queue depths."""
    groups: dict[tuple[str, str], dict[str, dict[int, list[CellRow]]]] = {}
    for cell in cells:
        depth, jobs = cell.parameters.get("iodepth"), cell.parameters.get("numjobs", 1)
        if cell.kind != KIND or not cell.valid or not isinstance(depth, int) or not isinstance(jobs, int):
            continue  # the step as a whole has lists of them
        under_way = depth * jobs
        by_volume = groups.setdefault((cell.step, _distinguishing_parameters(cell.parameters)), {})
        by_volume.setdefault(cell.volume, {}).setdefault(under_way, []).append(cell)
    candidates = (
        StepCurves(
            step=step,
            parameters=distinguishing,
            curves=tuple(
                VolumeCurve(
                    volume=name,
                    points=tuple(_point(depth, by_volume[name][depth]) for depth in sorted(by_volume[name])),
                )
                for name in volumes
                if name in by_volume
            ),
        )
        for (step, distinguishing), by_volume in groups.items()
    )
    return tuple(curves for curves in candidates if len(curves.depths) >= POINTS_MIN)


def _distinguishing_parameters(parameters: Mapping[str, Scalar]) -> str:
    """Return the parameters that make separate curves: those of the cell, not those of a point."""
    own = {"rw", "block_size_bytes", "iodepth", "numjobs"}
    return ", ".join(f"{name}={value}" for name, value in parameters.items() if name not in own)


def _point(under_way: int, cells: Sequence[CellRow]) -> CurvePoint:
    values = {
        name: [cell.metrics[name].value for cell in cells if name in cell.metrics and cell.metrics[name].value > 0]
        for name in METRICS
    }
    measured = {name: metric_values for name, metric_values in values.items() if metric_values}
    return CurvePoint(
        under_way=under_way,
        middle={name: median(metric_values) for name, metric_values in measured.items()},
        low={name: min(metric_values) for name, metric_values in measured.items()},
        high={name: max(metric_values) for name, metric_values in measured.items()},
        cells=len(cells),
    )


@dataclass(frozen=True, kw_only=True)
class ErrorBar:
    """The range from the lowest to the highest cell, per cent from the top; `at`: per cent from the left."""

    at: float
    top: float
    bottom: float
    middle: float


@dataclass(frozen=True, kw_only=True)
class DrawnLine:
    """One metric of one volume: the line through the medians, and a bar at each."""

    volume: str
    metric: str
    points: str
    bars: tuple[ErrorBar, ...]


@dataclass(frozen=True, kw_only=True)
class CurvePlot:
    """Lines in a box of 100 by 100, both axes logarithmic."""

    title: str
    unit: str
    lines: tuple[DrawnLine, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


def curve_plots(curves: StepCurves) -> tuple[CurvePlot, ...]:
    """Return plots of operations a second and of latency (median and p99) over the operations in flight."""
    return tuple(
        plot
        for title, unit, metrics in (
            ("operations per second", "1/s", METRICS[:1]),
            ("latency: median, and p99 dashed", "ms", METRICS[1:]),
        )
        if (plot := _plot(curves, title, unit, metrics)) is not None
    )


def _plot(curves: StepCurves, title: str, unit: str, metrics: Sequence[str]) -> CurvePlot | None:
    points = [point for curve in curves.curves for point in curve.points]
    bounds = [
        value for point in points for name in metrics for value in (point.low.get(name), point.high.get(name))
    ]
    values = [value for value in bounds if value is not None]
    if not values:
        return None
    x_low, x_high = math.log10(curves.depths[0]), math.log10(curves.depths[-1])
    y_low, y_high = math.log10(min(values)) - 0.05, math.log10(max(values)) + 0.05

    def across(depth: int) -> float:
        return round(100 * (math.log10(depth) - x_low) / (x_high - x_low), 2)

    def down(value: float) -> float:
        return round(100 * (y_high - math.log10(value)) / (y_high - y_low), 2)

    def line(curve: VolumeCurve, name: str) -> DrawnLine:
        bars = tuple(
            ErrorBar(
                at=across(point.under_way),
                top=down(point.high[name]),
                bottom=down(point.low[name]),
                middle=down(point.middle[name]),
            )
            for point in curve.points
            if name in point.middle
        )
        joined = " ".join(f"{bar.at},{bar.middle}" for bar in bars)
        return DrawnLine(volume=curve.volume, metric=name, points=joined, bars=bars)

    return CurvePlot(
        title=title,
        unit=unit,
        lines=tuple(line(curve, name) for curve in curves.curves for name in metrics),
        x_ticks=tuple(Tick(at=across(depth), text=f"{depth}") for depth in curves.depths),
        y_ticks=tuple(Tick(at=down(v), text=f"{v:,.6g}") for v in log_ticks(y_low, y_high)),
    )
