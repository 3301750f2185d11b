"""Recorded series as one step: on one grid, whose clock is that of the volume's coarsest source."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from volbench.core.records.named_metrics import Client
from volbench.results.explain.case import Case
from volbench.results.recorded.clocks import VOLUME_SOURCES
from volbench.results.recorded.pt_stalk import Collection
from volbench.results.stats.grid import Floats, Grid, align, interval_s
from volbench.results.store.series import Series, SeriesKey

STEP = "recorded"


def case_of(series: Mapping[SeriesKey, Series], *, clocked: bool, collection: Collection | None = None) -> Case:
    """Return recorded series as one step, on the clock of the volume's coarsest source."""
    grid = align(series, width_s=(width := _width_s(series)), window_s=_edges_s(series, width))
    threads = grid.column(*Client.threads_running)
    zero_s = 86_400.0 if clocked else 0.0  # a whole day: shows as the time of day
    return Case(
        name=STEP,
        grid=grid,
        cell_grid=grid,
        volume_grid=_volume_grid(series),
        kind="oltp" if grid.column(*Client.tps) is not None else STEP,
        disk=None if collection is None else collection.disk,
        variables={} if collection is None else collection.variables,
        threads=None if threads is None or not math.isfinite(threads[0]) else int(threads[0]),
        clock_zero_s=zero_s,
        recorded=True,
    )


def _width_s(series: Mapping[SeriesKey, Series]) -> float | None:
    """The coarsest clock of the volume's sources rules: a finer one would only repeat its samples.

    A clock is of all metrics of a device together: some waiting times exist only where such operations were.
    """
    sources = ("diskstats", *VOLUME_SOURCES)
    intervals = [interval_s(t_s) for (source, _), t_s in _clocks(series).items() if source in sources]
    return max((interval for interval in intervals if interval is not None), default=None)


def _clocks(series: Mapping[SeriesKey, Series]) -> dict[tuple[str, str], Floats]:
    """All times of each entity of a source, ascending."""
    times: dict[tuple[str, str], list[Floats]] = {}
    for key, values in series.items():
        times.setdefault((key.source, key.entity), []).append(values.t_s)
    return {entity: np.unique(np.concatenate(lists)) for entity, lists in times.items()}


def _edges_s(series: Mapping[SeriesKey, Series], width_s: float | None) -> tuple[float, float] | None:
    """Start and end of a grid whose edges are those of the coarsest source; None: of the earliest sample."""
    of_width = [float(t_s[0]) for t_s in _clocks(series).values() if interval_s(t_s) == width_s]
    if width_s is None or not of_width:
        return None
    first_s = min(float(values.t_s[0]) for values in series.values())
    last_s = max(float(values.t_s[-1]) for values in series.values())
    before = max(0, math.ceil((min(of_width) - first_s) / width_s))
    start_s = min(of_width) - (before + 1) * width_s
    return start_s, start_s + width_s * math.ceil((last_s - start_s) / width_s)


def _volume_grid(series: Mapping[SeriesKey, Series]) -> Grid | None:
    """What the volume itself counted, on its own clock; None where no file tells of it."""
    own = {key: values for key, values in series.items() if key.source in VOLUME_SOURCES}
    return align(own) if own else None
