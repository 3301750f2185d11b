"""The chart of storage classes: transactions a second over the price a month, and the frontier of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from volbench.core.base.text import number
from volbench.core.records.goals.pricing import StorageClassRow
from volbench.results.report.rows.storage_classes import standing_text
from volbench.results.report.views.geometry import Tick, log_ticks
from volbench.results.report.wording import parameter_text

POINTS_MIN = 2
_ROOM = 0.08
"""Free space at each end of an axis, in powers of ten."""


@dataclass(frozen=True, kw_only=True)
class VolumeMark:
    """A volume on the chart, per cent from the left and from the top, its slowest and fastest cell from the top.

    `style` is `frontier`, `dominated` or `losing` (it lost acknowledged commits). `left_label`: the name stands
    to the left of the mark, since the chart ends on the right. `settled`: its price is complete, and it had no
    burst credits.
    """

    volume: str
    at: float
    top: float
    slowest: float
    fastest: float
    style: str
    left_label: bool
    settled: bool
    title: str


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """The volumes of one load with a price and a speed; `steps` is the frontier as points of an SVG polyline.

    Both axes are logarithmic. The frontier rises in steps: between two prices the cheaper volume is the best one.
    """

    load: str
    currency: str
    rows: tuple[StorageClassRow, ...]
    marks: tuple[VolumeMark, ...]
    steps: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


@dataclass(frozen=True, kw_only=True)
class _Axis:
    low: float
    high: float

    def share(self, value: float) -> float:
        return round(100 * (math.log10(value) - self.low) / (self.high - self.low), 2)


def frontiers(rows: Sequence[StorageClassRow]) -> tuple[Frontier, ...]:
    """Return the table and chart of each load; a chart without marks has fewer than two volumes to draw."""
    loads: dict[str, list[StorageClassRow]] = {}
    for row in rows:
        loads.setdefault(f"{row.step} {parameter_text(row.parameters)}".strip(), []).append(row)
    return tuple(_frontier(load, tuple(of_load)) for load, of_load in loads.items())


def _frontier(load: str, rows: tuple[StorageClassRow, ...]) -> Frontier:
    drawn = [row for row in rows if (row.tps or 0.0) > 0 and (row.price_month or 0.0) > 0]
    if len(drawn) < POINTS_MIN:
        return Frontier(load=load, currency=rows[0].currency, rows=rows, marks=(), steps="", x_ticks=(), y_ticks=())
    prices = _axis([row.price_month or 0.0 for row in drawn])
    speeds = _axis([end for row in drawn for end in (row.tps_range or (row.tps or 0.0,)) if end > 0])
    return Frontier(
        load=load,
        currency=rows[0].currency,
        rows=rows,
        marks=tuple(_mark(row, prices, speeds) for row in drawn),
        steps=_steps(drawn, prices, speeds),
        x_ticks=tuple(Tick(at=prices.share(v), text=f"{v:,.6g}") for v in log_ticks(prices.low, prices.high)),
        y_ticks=tuple(Tick(at=100 - speeds.share(v), text=f"{v:,.6g}") for v in log_ticks(speeds.low, speeds.high)),
    )


def _axis(values: Sequence[float]) -> _Axis:
    return _Axis(low=math.log10(min(values)) - _ROOM, high=math.log10(max(values)) + _ROOM)


def _mark(row: StorageClassRow, prices: _Axis, speeds: _Axis) -> VolumeMark:
    tps, price = row.tps or 0.0, row.price_month or 0.0
    slowest, fastest = row.tps_range or (tps, tps)
    at = prices.share(price)
    return VolumeMark(
        volume=row.volume,
        at=at,
        top=round(100 - speeds.share(tps), 2),
        slowest=round(100 - speeds.share(slowest), 2) if slowest > 0 else 100.0,
        fastest=round(100 - speeds.share(fastest), 2),
        style="losing" if row.loses else "frontier" if row.frontier else "dominated",
        left_label=at > 60,
        settled=row.settled,
        title=f"{row.volume}: {number(tps)} tps, {price:,.2f} {row.currency} a month; {standing_text(row)}",
    )


def _steps(rows: Sequence[StorageClassRow], prices: _Axis, speeds: _Axis) -> str:
    best = sorted(
        (prices.share(row.price_month or 0.0), 100 - speeds.share(row.tps or 0.0))
        for row in rows
        if row.frontier and row.settled
    )
    if not best:
        return ""
    corners = [(best[0][0], 100.0), best[0]]
    for (_, top), (at, next_top) in pairwise(best):
        corners += [(at, top), (at, next_top)]
    corners.append((100.0, best[-1][1]))
    return " ".join(f"{at:.2f},{top:.2f}" for at, top in corners)
