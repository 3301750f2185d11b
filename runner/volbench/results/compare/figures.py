"""A volume's figure of a metric: of which cells it is, and what the other cells measured.

One rule for every table, sentence, query and gate: a figure is the median of the valid cells. Where none is valid
it is that of the disturbed ones, which are known within bounds, and where there are none either, of the invalid
ones; then it says so. The cells that a figure is not of are counted beside it, with the least and the largest of
their values. What a comparison concludes from which cells is its own matter: it says how many of each it used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import get_args

from volbench.core.records.metrics import MetricValue
from volbench.core.records.report import CellRow, ExcludedRow, FigureRow, Standing

STANDINGS: tuple[Standing, ...] = get_args(Standing)
"""The first one that a metric has cells of is that of its figure."""


def standing_of(*, valid: bool, bounded: bool) -> Standing:
    """Return whether a value is of a valid cell, of one that is known within bounds, or of another invalid one."""
    if valid:
        return "valid"
    return "disturbed" if bounded else "invalid"


def population(values: Iterable[tuple[Standing, float]]) -> tuple[Standing | None, tuple[float, ...]]:
    """Return the values that a figure is of, and their standing; none at all: None."""
    by_standing: dict[Standing, list[float]] = {}
    for standing, value in values:
        by_standing.setdefault(standing, []).append(value)
    return next(
        ((standing, tuple(by_standing[standing])) for standing in STANDINGS if standing in by_standing), (None, ())
    )


def figure_of(cells: Iterable[CellRow], metric: str) -> float | None:
    """Return one volume's figure of a metric of one step and its parameters; None where no cell measured it."""
    _, values = population(_standings(cells, metric))
    return median(values) if values else None


def figure_cells(cells: Sequence[CellRow], metric: str) -> tuple[Standing | None, tuple[CellRow, ...]]:
    """Return the cells that a volume's figure of a metric is of, and their standing; None where none has it."""
    standing, _ = population(_standings(cells, metric))
    return standing, tuple(cell for cell in cells if standing in [of for of, _ in _standings((cell,), metric)])


def figure_rows(cells: Sequence[CellRow]) -> tuple[FigureRow, ...]:
    """Return every figure of a run, in the order of the cells' steps, volumes and metrics."""
    groups: dict[tuple[str, str, str, str], list[CellRow]] = {}
    for cell in cells:
        for name in cell.metrics:
            groups.setdefault((cell.step, repr(sorted(cell.parameters.items())), cell.volume, name), []).append(
                cell
            )
    rows = (figure_row(group, name) for (*_, name), group in groups.items())
    return tuple(row for row in rows if row is not None)


def figure_row(cells: Sequence[CellRow], name: str) -> FigureRow | None:
    """Return the figure of a metric of a volume's cells, of one step and its parameters; None where none has it."""
    values = list(_standings(cells, name))
    standing, chosen = population(values)
    if standing is None:
        return None
    metric: MetricValue = cells[0].metrics[name]
    values_of = {name: [value for of, value in values if of == name] for name in STANDINGS if name != standing}
    return FigureRow(
        volume=cells[0].volume,
        step=cells[0].step,
        parameters=cells[0].parameters,
        metric=name,
        unit=metric.unit,
        value=median(chosen),
        standing=standing,
        cells=len(chosen),
        excluded=tuple(
            ExcludedRow(standing=standing, cells=len(values_found), low=min(values_found), high=max(values_found))
            for standing, values_found in values_of.items()
            if values_found
        ),
    )


def _standings(cells: Iterable[CellRow], metric: str) -> Iterable[tuple[Standing, float]]:
    for cell in cells:
        value = cell.metrics.get(metric)
        if value is not None and math.isfinite(value.value):
            yield standing_of(valid=cell.valid, bounded=metric in cell.bounds), value.value
