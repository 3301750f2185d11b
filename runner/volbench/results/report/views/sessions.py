"""Statement time by piece over time, stacked: how many sessions were in each piece, interval by interval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from volbench.core.records.report import CellRow, MomentRow, Report
from volbench.errors import RunUnreadable
from volbench.results.explain.accounts.time_budget import PIECES, sessions_by_piece, time_budget
from volbench.results.explain.case import Case
from volbench.results.explain.run_cases import cases_of
from volbench.results.stats.grid import Floats
from volbench.results.store.loaded_run import LoadedRun

CHARTS_MAX = 8
"""Charts of one report."""
INTERVALS_MAX = 120
"""Of a chart; longer ones have means over stretches."""
_SIDE = 100.0


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One piece: a polygon in a box of 100 by 100, and its mean number of sessions."""

    piece: str
    title: str
    points: str
    mean: float


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A moment that a finding speaks of: `left` is its place in percent of the chart's width."""

    left: float
    text: str


@dataclass(frozen=True, kw_only=True)
class SessionChart:
    """One cell of a volume's step.

    `top` is the number of sessions at the upper edge, the same for all volumes of a step. `begin_s` and `end_s` are
    seconds since the cell's zero.
    """

    volume: str
    step: str
    threads: int | None
    cell_id: str
    begin_s: float
    end_s: float
    top: float
    layers: tuple[Layer, ...]
    marks: tuple[Mark, ...]


def session_charts(loaded: LoadedRun, report: Report) -> tuple[SessionChart, ...]:
    """Return a chart for each volume's step that has a time budget: of its first valid cell, else its first one."""
    results = {result.cell_id: result for result in loaded.results}
    budgets = list(dict.fromkeys((row.step, row.threads, row.volume) for row in report.time_budgets))[:CHARTS_MAX]
    cases: list[tuple[str, str, Case]] = []
    for step, threads, volume in budgets:
        cell_id = _first_cell(report.cells, step, volume)
        try:
            of_cell = cases_of(loaded, results[cell_id]) if cell_id in results else iter(())
            cases += [(volume, cell_id, case) for case in of_cell if (case.name, case.threads) == (step, threads)]
        except RunUnreadable:
            continue
    return tuple(_charts(cases, report.moments))


def _first_cell(cells: Iterable[CellRow], step: str, volume: str) -> str:
    of_step = [cell for cell in cells if (cell.step, cell.volume) == (step, volume)]
    return next((cell.cell_id for cell in sorted(of_step, key=lambda cell: not cell.valid)), "")


def _charts(cases: Sequence[tuple[str, str, Case]], moments: Sequence[MomentRow]) -> Iterator[SessionChart]:
    pieces = [sessions_by_piece(case, time_budget(case)) for _, _, case in cases]
    tops: dict[tuple[str, int | None], float] = {}
    for (_, _, case), columns in zip(cases, pieces, strict=True):
        key = (case.name, case.threads)
        tops[key] = max(tops.get(key, 0.0), highest(columns))
    for (volume, cell_id, case), columns in zip(cases, pieces, strict=True):
        top = tops[case.name, case.threads]
        if top <= 0 or not (columns and case.grid.t_s.size):  # no sample of this cell lies in the step
            continue
        begin_s, end_s = float(case.grid.t_s[0]) - case.grid.width_s, float(case.grid.t_s[-1])
        yield SessionChart(
            volume=volume,
            step=case.name,
            threads=case.threads,
            cell_id=cell_id,
            begin_s=begin_s,
            end_s=end_s,
            top=top,
            layers=stacked(columns, top),
            marks=tuple(
                Mark(left=_SIDE * (moment.t_s - begin_s) / (end_s - begin_s), text=moment.text)
                for moment in moments
                if (moment.cell_id, moment.step) == (cell_id, case.name) and begin_s < moment.t_s < end_s
            ),
        )


def highest(pieces: Mapping[str, Floats]) -> float:
    """Return the largest sum of all pieces in a drawn interval, sessions."""
    return float(_drawn(pieces).sum(axis=0).max()) if pieces else 0.0


def stacked(pieces: Mapping[str, Floats], top: float) -> tuple[Layer, ...]:
    """Return the pieces as polygons that stand on each other, each interval a bar of its width.

    Args:
        pieces: sessions in each piece, shape (buckets,) each; NaN has no height.
        top: sessions at the upper edge of the box.
    """
    if not pieces or top <= 0:
        return ()
    heights = _SIDE * _drawn(pieces) / top
    upper = np.cumsum(heights, axis=0)
    lower = upper - heights
    edges = np.linspace(0.0, _SIDE, heights.shape[1] + 1)
    across = np.repeat(edges, 2)[1:-1]
    return tuple(
        Layer(
            piece=piece,
            title=PIECES[piece],
            points=_polygon(across, np.repeat(upper[row], 2), np.repeat(lower[row], 2)),
            mean=float(np.nanmean(pieces[piece])),
        )
        for row, piece in enumerate(pieces)
    )


def _drawn(pieces: Mapping[str, Floats]) -> Floats:
    """Means over stretches of equal length, shape (pieces, at most INTERVALS_MAX); 0 where nothing is known."""
    columns = np.array([np.nan_to_num(column) for column in pieces.values()])
    each = -(-columns.shape[1] // INTERVALS_MAX)
    begins = np.arange(0, columns.shape[1], each)
    lengths = np.diff(np.append(begins, columns.shape[1]))
    return np.asarray(np.add.reduceat(columns, begins, axis=1) / lengths, dtype=np.float64)


def _polygon(across: Floats, upper: Floats, lower: Floats) -> str:
    points = [*zip(across, upper, strict=True), *zip(across[::-1], lower[::-1], strict=True)]
    return " ".join(f"{x:.4g},{_SIDE - y:.4g}" for x, y in points)
