"""Positions of marks in the page's static charts, in per cent of the chart: plain data for tests."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from volbench.core.base.text import TIMES, change, quantity
from volbench.core.records.report import CellRow, ComparisonRow, EffectRow, Standing
from volbench.results.compare.figures import figure_of, standing_of
from volbench.results.report.views.distribution import LEVELS, Curve, Distribution
from volbench.results.report.wording import label

_DECADE_TICKS = (1, 2, 5)
_ROUND_RATIOS = (
    1.02,
    1.05,
    1.1,
    1.15,
    1.2,
    1.25,
    1.3,
    1.4,
    1.5,
    1.75,
    2.0,
    2.5,
    3.0,
    4.0,
    5.0,
    7.0,
    10.0,
    20.0,
    50.0,
)


def _tick_text(ratio: float) -> str:
    """Return `same`, a percentage, `× 3` or `1/3`: digits that a round ratio has, for a narrow axis."""
    if ratio == 1:
        return "same"
    text = change(ratio)
    return text.removesuffix(".00").removesuffix(".0").replace(f"{TIMES} 1/", "1/")


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A labelled position on an axis, per cent from its start."""

    at: float
    text: str


@dataclass(frozen=True, kw_only=True)
class IntervalMark:
    """One comparison on the ratio axis: estimate and interval; `open_low`, `open_high`: it leaves the chart."""

    at: float | None
    low: float
    high: float
    open_low: bool
    open_high: bool


@dataclass(frozen=True, kw_only=True)
class RatioAxis:
    """A log axis of candidate / baseline, shared by all comparisons; 1 is in its middle."""

    reach: float
    margin: float

    def position(self, ratio: float) -> float:
        """Return per cent from the left, within the chart."""
        return min(100.0, max(0.0, 50 + 50 * math.log(ratio) / self.reach))

    @property
    def band(self) -> tuple[float, float]:
        """Return start and width of the margin in which a difference does not matter."""
        low, high = self.position(1 / (1 + self.margin)), self.position(1 + self.margin)
        return low, high - low

    @property
    def ticks(self) -> list[Tick]:
        """Return 1, and one or two round ratios on either side, as far apart as fits."""
        fitting = [ratio for ratio in _ROUND_RATIOS if math.log(ratio) <= 0.93 * self.reach]
        far = fitting[-1] if fitting else _ROUND_RATIOS[0]
        near = [ratio for ratio in fitting if 0.4 * self.reach <= math.log(ratio) <= 0.5 * math.log(far)][-1:]
        up = [*near, far] if near else [far]
        ratios = [*(1 / ratio for ratio in reversed(up)), 1.0, *up]
        return [Tick(at=self.position(ratio), text=_tick_text(ratio)) for ratio in ratios]

    def mark(self, row: ComparisonRow | EffectRow) -> IntervalMark | None:
        """Return the comparison's mark; None without a ratio."""
        if row.ratio is None or row.ratio <= 0:
            return None
        low, high = _interval(row) or (0.0, math.inf)
        return IntervalMark(
            at=self.position(row.ratio),
            low=self.position(low) if low > 0 else 0.0,
            high=self.position(high) if math.isfinite(high) else 100.0,
            open_low=low <= 0 or abs(math.log(low)) > self.reach,
            open_high=not math.isfinite(high) or abs(math.log(high)) > self.reach,
        )


def _interval(row: ComparisonRow | EffectRow) -> tuple[float, float] | None:
    """Return the interval that is drawn; where bounds leave none, that of the cells as they ran."""
    return row.ci or (row.plain_ci if isinstance(row, ComparisonRow) else None)


def ratio_axis(rows: Sequence[ComparisonRow | EffectRow]) -> RatioAxis:
    """Return an axis that includes every interval: at least 1.3 times the margin, at most a factor of 100."""
    margin = max([row.margin for row in rows], default=0.05)
    drawn = [end for row in rows for end in (row.ratio, *(_interval(row) or ()))]
    ends = [end for end in drawn if end is not None and 0 < end < math.inf]
    widest = max([abs(math.log(end)) for end in ends], default=0.0)
    return RatioAxis(reach=min(math.log(100), max(widest * 1.08, 2.5 * math.log1p(margin))), margin=margin)


@dataclass(frozen=True, kw_only=True)
class Dot:
    """One cell's value of a metric, and how it counts."""

    at: float
    kind: Standing
    title: str


@dataclass(frozen=True, kw_only=True)
class DotRow:
    """All cells of one volume; `median_at` is the place of its figure."""

    volume: str
    dots: tuple[Dot, ...]
    median_at: float | None


@dataclass(frozen=True, kw_only=True)
class DotChart:
    """Every cell's value of one metric of one step, a row for each volume."""

    step: str
    metric: str
    unit: str
    better: str
    ticks: tuple[Tick, ...]
    rows: tuple[DotRow, ...]


def dot_chart(cells: Iterable[CellRow], metric: str, volumes: Sequence[str]) -> DotChart | None:
    """Return the chart of one metric of cells of one step; None when no cell has a value."""
    rows = [cell for cell in cells if metric in cell.metrics]
    if not rows:
        return None
    values = [row.metrics[metric].value for row in rows]
    low, high = min(values), max(values)
    room = (high - low) * 0.06 or abs(high) * 0.05 or 1.0
    low, high = low - room, high + room

    def position(value: float) -> float:
        return round(100 * (value - low) / (high - low), 2)

    unit = rows[0].metrics[metric].unit
    dot_rows = []
    for volume in volumes:
        of_volume = [row for row in rows if row.volume == volume]
        middle = figure_of(of_volume, metric)
        dots = tuple(
            Dot(
                at=position(row.metrics[metric].value),
                kind=cell_standing(row, metric),
                title=_dot_title(row, metric),
            )
            for row in of_volume
        )
        dot_rows.append(DotRow(volume=volume, dots=dots, median_at=None if middle is None else position(middle)))
    return DotChart(
        step=rows[0].step,
        metric=metric,
        unit=unit,
        better=rows[0].metrics[metric].better,
        ticks=tuple(Tick(at=position(v), text=f"{v:,.6g}") for v in linear_ticks(low, high)),
        rows=tuple(dot_rows),
    )


def _dot_title(row: CellRow, metric: str) -> str:
    value = row.metrics[metric]
    text = f"{row.cell_id}, repeat {row.repeat}: {label(metric)} {quantity(value.value, value.unit)}"
    return text if row.valid else f"{text}; {cell_standing(row, metric)}: {'; '.join(row.invalid_reasons)}"


def cell_standing(row: CellRow, metric: str) -> Standing:
    """Return whether a cell's value of a metric is valid, known within bounds, or invalid."""
    return standing_of(valid=row.valid, bounded=metric in row.bounds)


def linear_ticks(low: float, high: float) -> list[float]:
    """Return three to six round values within low .. high."""
    raw = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw)
    first = math.ceil(low / step)
    return [round(i * step, 12) for i in range(first, math.floor(high / step) + 1)]


@dataclass(frozen=True, kw_only=True)
class PlottedCurve:
    """A curve as points of an SVG polyline in a box of 100 by 100, and where the volume's mark stands on it.

    A curve of few events has no point.
    """

    volume: str
    cell_id: str | None
    points: str
    knots: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class QuantileChart:
    """Latency over quantile: x is -log10(1 - quantile), so that each nine takes the same width; y is a log axis."""

    step: str
    curves: tuple[PlottedCurve, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    table: tuple[tuple[str, int, tuple[float | None, ...]], ...]


TABLE_LEVELS = (0.5, 0.9, 0.95, 0.99, 0.999)


def quantile_chart(distribution: Distribution) -> QuantileChart | None:
    """Return the chart of one step; None when no curve has a value."""
    latencies = [v for curve in distribution.curves for v in curve.value_ms if v is not None and v > 0]
    if not latencies:
        return None
    low, high = math.log10(min(latencies)) - 0.03, math.log10(max(latencies)) + 0.03
    drawn_levels = [
        lv for lv, *vs in zip(LEVELS, *(c.value_ms for c in distribution.curves), strict=True) if any(vs)
    ]
    right = max(_nines(drawn_levels[-1]), 1.0)

    def plotted(curve: Curve) -> PlottedCurve:
        pairs = [(lv, v) for lv, v in zip(LEVELS, curve.value_ms, strict=True) if v is not None and v > 0]
        lefts = [f"{100 * _nines(level) / right:.2f}" for level, _ in pairs]
        tops = [f"{100 * (high - math.log10(latency)) / (high - low):.2f}" for _, latency in pairs]
        points = list(zip(lefts, tops, strict=True))
        quarters = sorted({math.ceil(len(points) * quarter / 4) - 1 for quarter in (1, 2, 3, 4)})
        return PlottedCurve(
            volume=curve.volume,
            cell_id=curve.cell_id,
            points=" ".join(map(",".join, points)),
            knots=tuple(points[at] for at in quarters) if points and not curve.cell_id else (),
        )

    labelled_levels = [(0.0, "0"), (0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")]
    return QuantileChart(
        step=distribution.step,
        curves=tuple(map(plotted, reversed(distribution.curves))),
        x_ticks=tuple(
            Tick(at=100 * _nines(v) / right, text=t) for v, t in labelled_levels if _nines(v) <= right * 1.001
        ),
        y_ticks=tuple(
            Tick(at=100 * (high - math.log10(v)) / (high - low), text=f"{v:,.6g}") for v in log_ticks(low, high)
        ),
        table=tuple(
            (c.volume, c.events, tuple(c.value_ms[LEVELS.index(lv)] for lv in TABLE_LEVELS))
            for c in distribution.curves
            if c.cell_id is None
        ),
    )


def _nines(level: float) -> float:
    return -math.log10(1 - level) if level > 0 else 0.0


def log_ticks(low: float, high: float) -> list[float]:
    """Return round values whose logarithms to base 10 lie within low .. high; of many, only powers of ten.

    Where fewer than two of 1, 2, 5 times a power of ten lie within, the values are evenly spaced.
    """
    decades = range(math.floor(low), math.ceil(high) + 1)
    ticks = [m * 10.0**d for d in decades for m in _DECADE_TICKS]
    inside = [t for t in ticks if low <= math.log10(t) <= high]
    if len(inside) > 7:
        powers = [t for t in inside if math.isclose(math.log10(t), round(math.log10(t)))]
        inside = powers if len(powers) > 1 else inside
    return inside if len(inside) > 1 or low >= high else linear_ticks(10**low, 10**high)
