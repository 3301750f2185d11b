"""Comparisons of cells, of a run or of several: which metrics, at which level. Reports and gates compare by it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from volbench.core.records.cell import is_beyond
from volbench.core.records.metrics import CATALOGUE, PRIMARY_METRICS
from volbench.core.records.report import CellRow
from volbench.core.records.run import ComparisonSpec
from volbench.core.records.steps import step_kind
from volbench.results.compare.comparison import Comparison, compare
from volbench.results.compare.row import Row

ADJUSTED_FOR = frozenset({"foreign_cpu", "cpu_steal", "foreign_io"})
"""Disturbances whose shares are covariates."""
LATE: Literal["emulator_late"] = "emulator_late"
"""Follows from others' CPU use, and has a bound of its own on what is measured over the whole step."""


def compared_cells(
    cells: Iterable[CellRow],
    volumes: Sequence[str],
    spec: ComparisonSpec,
    *,
    of_one_run: bool = True,
) -> list[Comparison]:
    """Return all comparisons with the first volume, for metrics that have a direction.

    Args:
        of_one_run: cells of the same block are neighbours in time.
    """
    return compare(
        (row if of_one_run else replace(row, block=None) for row in rows_of(cells, spec)),
        volumes,
        margin=spec.margin,
        alpha=1 - spec.confidence,
        sequential=spec.until == "decided",
    )


def rows_of(cells: Iterable[CellRow], spec: ComparisonSpec) -> Iterator[Row]:
    """Yield the values of the cells, of metrics that have a direction."""
    for cell in cells:
        primary = _primary_metrics(cell) if spec.metrics is None else spec.metrics
        beyond = {record.kind: record.delayed_share_max for record in cell.disturbances if record.beyond}
        for name, metric in cell.metrics.items():
            if metric.better == "none":
                continue
            yield Row(
                step=cell.step,
                parameters=cell.parameters,
                metric=name,
                unit=metric.unit,
                better=metric.better,
                volume=cell.volume,
                cell=cell.cell_id,
                value=metric.value,
                valid=cell.valid,
                primary=name in primary,
                rank=primary.index(name) if name in primary else 0,
                bounds=_ends(cell.bounds.get(name)),
                node=cell.node,
                block=cell.block,
                shares=cell.covariates,
                adjustable=beyond.keys() <= (ADJUSTED_FOR | {LATE} if _is_of_the_whole(name) else ADJUSTED_FOR),
                late=beyond.get(LATE, 0.0),
            )
        for entry in step_kind(cell.kind).metrics:
            if entry.better != "none" and is_beyond(entry.name, cell.metrics, cell.notes):
                yield Row(
                    step=cell.step,
                    parameters=cell.parameters,
                    metric=entry.name,
                    unit=entry.unit,
                    better=entry.better,
                    volume=cell.volume,
                    cell=cell.cell_id,
                    value=None,
                    valid=cell.valid,
                    primary=entry.name in primary,
                    rank=primary.index(entry.name) if entry.name in primary else 0,
                    node=cell.node,
                    block=cell.block,
                    is_beyond=True,
                )


def _is_of_the_whole(name: str) -> bool:
    """Return whether a delay of the step for a share of its time changes a metric by that share at most."""
    return name == "latency_ms_mean" or (name in CATALOGUE and CATALOGUE[name].span == "window")


def _primary_metrics(cell: CellRow) -> tuple[str, ...]:
    """Return the primary metrics of a step, the one that is tested first at the beginning.

    At a given rate a volume that keeps up has that throughput: its latency shows the difference.
    """
    metrics = PRIMARY_METRICS.get(cell.kind, ())
    return (*metrics[1:], *metrics[:1]) if cell.parameters.get("rate") and cell.kind == "oltp" else metrics


def _ends(bounds: tuple[float, float | None] | None) -> tuple[float, float] | None:
    return None if bounds is None else (bounds[0], math.inf if bounds[1] is None else bounds[1])
