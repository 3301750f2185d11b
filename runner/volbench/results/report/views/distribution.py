"""Latency distributions: quantiles of histograms merged over each cell and over all valid cells of a volume."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volbench.core.records.report import CellRow
from volbench.errors import RunUnreadable
from volbench.results.report.views.timeline import quantile_table
from volbench.results.store.histograms import HistogramKey, MergedHistograms
from volbench.results.store.loaded_run import LoadedRun

LEVELS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999)
EVENTS_BEYOND_MIN = 5
"""A quantile with fewer events above it depends on single events and is not drawn."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Latencies in ms at LEVELS of one volume or, with `cell_id`, of one cell; None: not known."""

    volume: str
    cell_id: str | None
    events: int
    value_ms: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """The curves of one step: volumes first, then cells."""

    step: str
    curves: tuple[Curve, ...]


def distributions(loaded: LoadedRun, cells: Sequence[CellRow], volumes: Sequence[str]) -> list[Distribution]:
    """Return one distribution for each step that has client histograms, in the order of the steps.

    A cell with a damaged table is omitted; `timelines` names it.
    """
    volume_of = {cell.cell_id: cell.volume for cell in cells}
    valid = {(cell.cell_id, cell.step) for cell in cells if cell.valid}
    by_step: dict[str, dict[str, MergedHistograms]] = {step: {} for step in dict.fromkeys(c.step for c in cells)}
    for cell_id in volume_of:
        for key, merged in _measured(loaded, cell_id).items():
            if key.source == "client" and (cell_id, key.step) in valid:
                by_step[key.step][cell_id] = merged
    return [
        Distribution(step=step, curves=tuple(_curves(by_cell, volume_of, volumes)))
        for step, by_cell in by_step.items()
        if by_cell
    ]


def _measured(loaded: LoadedRun, cell_id: str) -> dict[HistogramKey, MergedHistograms]:
    try:
        return loaded.histograms(cell_id).merged(measured=True)
    except RunUnreadable:
        return {}


def _curves(
    by_cell: Mapping[str, MergedHistograms], volume_of: Mapping[str, str], volumes: Sequence[str]
) -> Iterable[Curve]:
    for volume in volumes:
        of_volume = [merged for cell_id, merged in by_cell.items() if volume_of[cell_id] == volume]
        if of_volume:
            yield _curve(_sum_histograms(of_volume), volume, None)
    for cell_id, merged in by_cell.items():
        yield _curve(merged, volume_of[cell_id], cell_id)


def _curve(merged: MergedHistograms, volume: str, cell_id: str | None) -> Curve:
    events = int(merged.events.sum())
    levels = [level for level in LEVELS if (1 - level) * events >= EVENTS_BEYOND_MIN]
    quantiles = quantile_table(merged, levels)[0].tolist() if levels else []
    values = [None if np.isnan(value) else value for value in quantiles]
    return Curve(
        volume=volume, cell_id=cell_id, events=events, value_ms=(*values, *([None] * (len(LEVELS) - len(values))))
    )


def _sum_histograms(histograms: Sequence[MergedHistograms]) -> MergedHistograms:
    """Return the sum over cells. Cells whose bins differ from the first's cannot be added and are omitted."""
    key: HistogramKey = histograms[0].key
    compatible = [histogram for histogram in histograms if histogram.key == key]
    bins = max(histogram.counts.shape[1] for histogram in compatible)
    counts = np.zeros((1, bins), np.int64)
    for histogram in compatible:
        counts[:, : histogram.counts.shape[1]] += histogram.counts
    return MergedHistograms(
        key=key,
        counts=counts,
        seconds=np.sum([histogram.seconds for histogram in compatible], axis=0),
        below=_total(compatible, "below"),
        above=_total(compatible, "above"),
        events=_total(compatible, "events"),
        errors=_total(compatible, "errors"),
        rows=_total(compatible, "rows"),
    )


def _total(histograms: Sequence[MergedHistograms], name: str) -> NDArray[np.int64]:
    return np.asarray(np.sum([getattr(histogram, name) for histogram in histograms], axis=0), dtype=np.int64)
