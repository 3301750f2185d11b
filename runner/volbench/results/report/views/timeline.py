"""Lines over time of each cell, small enough for one HTML file: at full resolution, else in buckets.

A bucket has the mean and the extremes of a series; percentiles come from histograms merged over the bucket. A
missing sample is a gap (None). An interval without a finished transaction is a stall, and stalls are listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volbench.core.records.cell import CellResult
from volbench.core.records.report import FindingRow, MomentRow
from volbench.core.records.run import PlannedCell
from volbench.errors import RunUnreadable
from volbench.results.report.views.panels import LATENCY_LEVELS, LATENCY_PANELS, chosen_series
from volbench.results.stats.histogram import LogBins, quantiles_ms
from volbench.results.store.histograms import Histograms, Intervals, MergedHistograms
from volbench.results.store.loaded_run import LoadedRun
from volbench.results.store.series import Series, bucketed

VALUES_MAX = 110_000
"""About this many values go into one report: some 6 bytes each."""
LINES_OF_A_CELL = 28
POINTS_MAX = 900
POINTS_MIN = 60
CELLS_MAX = 60
_GAP = 1.6  # intervals without a sample that break a line

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class TimeLine:
    """One line: times and values of equal length, None in a gap; `low` and `high` are the extremes of buckets."""

    t_s: tuple[float, ...]
    value: tuple[float | None, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Window:
    """A step's time in the cell: `from_s` with its warm-up, measured from `t0_s` to `t1_s`."""

    step: str
    from_s: float
    t0_s: float
    t1_s: float


@dataclass(frozen=True, kw_only=True)
class CellTimeline:
    """All lines of one cell, seconds since its zero, by `panel.line`."""

    cell_id: str
    volume: str
    repeat: int
    valid: bool
    length_s: float
    windows: tuple[Window, ...]
    lines: dict[str, TimeLine]
    stalls_s: tuple[tuple[float, float], ...] = ()
    sources: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Timelines:
    """The timelines of cells, and the files that cannot be read, each with its fault."""

    cells: tuple[CellTimeline, ...]
    unreadable: tuple[str, ...]


def timelines(loaded: LoadedRun, *, values_max: int = VALUES_MAX) -> Timelines:
    """Return the timelines of at most CELLS_MAX cells that have a result, in planned order.

    A cell without tables has no lines. A cell with a damaged table is omitted and named; its metrics are in
    result.json and do not depend on the table.
    """
    results = {result.cell_id: result for result in loaded.results}
    cells = [cell for cell in loaded.run.cells if cell.cell_id in results][:CELLS_MAX]
    points = values_max // (LINES_OF_A_CELL * max(1, len(cells)))
    points = min(POINTS_MAX, max(POINTS_MIN, points))
    drawn, unreadable = [], []
    for cell in cells:
        try:
            drawn.append(cell_timeline(loaded, cell, results[cell.cell_id], points=points))
        except RunUnreadable as error:
            unreadable.append(f"{error.where}: {error.what}")
    return Timelines(cells=tuple(drawn), unreadable=tuple(unreadable))


def cell_timeline(loaded: LoadedRun, planned: PlannedCell, result: CellResult, *, points: int) -> CellTimeline:
    """Return one cell's timeline with at most about `points` points a line."""
    lines: dict[str, TimeLine] = {}
    stalls: tuple[tuple[float, float], ...] = ()
    sources: dict[str, str] = {}
    histograms = loaded.histograms(planned.cell_id)
    for panel, source in LATENCY_PANELS.items():
        intervals = histograms.intervals(source)
        lines |= {f"{panel}.{name}": line for name, line in _latency_lines(histograms, source, intervals, points)}
        if source == "client":
            stalls = tuple(_stalls(intervals))
    series_by_file = loaded.series_by_file(planned.cell_id)
    if series_by_file:
        chosen = list(chosen_series(loaded.series(planned.cell_id), result.volume_facts.disk))
        for series in series_by_file:
            of_file = {line: series[key] for line, key in chosen if key in series and line not in lines}
            lines |= dict(_series_lines(of_file, points))
        sources = {line.split(".")[0]: f"{key.source} {key.entity}".strip() for line, key in chosen}
    return CellTimeline(
        cell_id=planned.cell_id,
        volume=planned.volume,
        repeat=planned.repeat,
        valid=result.status == "done" and all(step.valid for step in result.steps),
        length_s=max([result.wall_s, *(phase.t1_s for phase in result.phases)]),
        windows=tuple(_windows(result)),
        lines=lines,
        stalls_s=stalls,
        sources=sources,
    )


def _windows(result: CellResult) -> Iterator[Window]:
    started = {
        phase.name.removeprefix("step:"): phase.t0_s for phase in result.phases if phase.name.startswith("step:")
    }
    for step in result.steps:
        t0_s, t1_s = step.window_s
        yield Window(step=step.step, from_s=min(t0_s, started.get(step.step, t0_s)), t0_s=t0_s, t1_s=t1_s)


def _latency_lines(
    histograms: Histograms, source: str, intervals: Intervals, points: int
) -> Iterator[tuple[str, TimeLine]]:
    if not len(intervals.t_s):
        return
    ends = np.unique(intervals.t_s)
    first = float(intervals.t_s[0] - intervals.interval_s[0])
    if len(ends) > points:
        ends = np.linspace(first, float(ends[-1]), points + 1)[1:]
    grid = np.concatenate([[first], ends])
    quantiles = np.full((len(ends), len(LATENCY_LEVELS)), np.nan)
    for key, merged in histograms.merged(grid_s=grid).items():
        if key.source == source:
            table = quantile_table(merged, tuple(LATENCY_LEVELS.values()))
            quantiles = np.where(np.isnan(table), quantiles, table)
    for column, name in enumerate(LATENCY_LEVELS):
        yield name, _line(ends, quantiles[:, column])


def quantile_table(merged: MergedHistograms, levels: Sequence[float]) -> Floats:
    """Return latencies in ms at `levels` for each bucket: shape (buckets, levels), NaN where none is known."""
    bins = LogBins(mult=merged.key.edge_mult, deduct=merged.key.edge_deduct)
    return quantiles_ms(bins, merged.counts, below=merged.below, above=merged.above, levels=levels)


def _stalls(intervals: Intervals) -> Iterator[tuple[float, float]]:
    """Yield the spans without a finished event; adjacent intervals are joined."""
    start: float | None = None
    end = 0.0
    for t_s, interval_s, events in zip(intervals.t_s, intervals.interval_s, intervals.events, strict=True):
        begins = float(t_s - interval_s)
        if start is not None and (events or begins > end + interval_s / 2):
            yield start, end
            start = None
        if not events:
            start, end = (begins if start is None else start), float(t_s)
    if start is not None:
        yield start, end


def _series_lines(series_by_line: Mapping[str, Series], points: int) -> Iterator[tuple[str, TimeLine]]:
    if not series_by_line:
        return
    chosen = series_by_line.values()
    samples = max(len(series.t_s) for series in chosen)
    if samples <= points:
        for line, series in series_by_line.items():
            yield line, _line(series.t_s, series.value)
        return
    first, last = min(float(series.t_s[0]) for series in chosen), max(float(series.t_s[-1]) for series in chosen)
    points = max(POINTS_MIN, points // 2)  # a point has three values: mean and extremes
    window_s = (first - (last - first) / (samples - 1), last)
    width_s = (window_s[1] - window_s[0]) / points
    for line, series in series_by_line.items():
        buckets = bucketed(series, window_s=window_s, width_s=width_s)
        ends = np.asarray(buckets.t0_s + buckets.width_s * np.arange(1, len(buckets.mean) + 1), dtype=np.float64)
        yield line, _line(ends, buckets.mean, buckets.low, buckets.high)


def _line(t_s: Floats, value: Floats, low: Floats | None = None, high: Floats | None = None) -> TimeLine:
    """Return a line with None where samples are missing for longer than a tick."""
    if len(t_s) > 1:
        steps = np.diff(t_s)
        breaks = np.flatnonzero(steps > _GAP * np.median(steps)) + 1
    else:
        breaks = np.array([], dtype=np.int64)
    times = np.insert(t_s, breaks, (t_s[breaks - 1] + t_s[breaks]) / 2 if len(breaks) else [])
    columns = [None if c is None else np.insert(c, breaks, np.nan) for c in (value, low, high)]
    value_columns = [() if c is None else tuple(map(four_digits, c.tolist())) for c in columns]
    return TimeLine(
        t_s=tuple(round(t, 3) for t in times.tolist()),
        value=value_columns[0],
        low=value_columns[1],
        high=value_columns[2],
    )


def four_digits(value: float) -> float | None:
    """Return four significant digits, as a chart can show them; None for NaN."""
    return None if np.isnan(value) else float(f"{value:.4g}")


def as_json(
    cells: Iterable[CellTimeline],
    volumes: Sequence[str],
    moments: Sequence[MomentRow] = (),
    findings: Sequence[FindingRow] = (),
    *,
    step: str = "",
) -> dict[str, Any]:
    """Return the data of the page's script. Equal times are stored once for a cell, under `grids_ms`.

    Each is a first time and the steps to the next ones, mostly equal. Values have the digits that a chart's legend
    shows; extremes, which are only drawn, have three. A moment is [seconds, text, index of its finding or -1].

    Args:
        findings: in the order of the page.
        step: of the headline; the charts begin with it.
    """
    of_cell: dict[str, list[list[Any]]] = {}
    index = {(row.cause, row.volume, row.step): at for at, row in enumerate(findings)}
    for moment in moments:
        finding = index.get((moment.cause, moment.volume, moment.step), -1)
        of_cell.setdefault(moment.cell_id, []).append([round(moment.t_s, 3), moment.text, finding])
    return {
        "volumes": list(volumes),
        "step": step,
        "cells": [_cell_json(cell, volumes, of_cell.get(cell.cell_id, [])) for cell in cells],
    }


def _cell_json(cell: CellTimeline, volumes: Sequence[str], moments: Sequence[Any]) -> dict[str, Any]:
    grids: dict[tuple[float, ...], int] = {}
    lines = {
        name: [
            grids.setdefault(line.t_s, len(grids)),
            list(map(_as_shown, line.value)),
            *(list(map(_three_digits, column)) for column in (line.low, line.high) if column),
        ]
        for name, line in cell.lines.items()
    }
    return {
        "id": cell.cell_id,
        "volume": list(volumes).index(cell.volume),
        "repeat": cell.repeat,
        "valid": cell.valid,
        "length": round(cell.length_s, 3),
        "windows": [[w.step, w.from_s, w.t0_s, w.t1_s] for w in cell.windows],
        "stalls": [[round(a, 3), round(b, 3)] for a, b in cell.stalls_s],
        "moments": moments,
        "grids_ms": list(map(_steps_ms, grids)),
        "lines": lines,
    }


def _steps_ms(t_s: Sequence[float]) -> list[int]:
    return [after - before for before, after in pairwise((0, *(round(1000 * t) for t in t_s)))]


def _as_shown(value: float | None) -> float | None:
    """Return three digits, and all before the point: `number` of charts.js shows no more."""
    return value if value is None or abs(value) >= 1000 else _three_digits(value)


def _three_digits(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.3g}")
