"""What stands beside the findings as a page shows it: tables by step, small multiples of what moves with p95."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from volbench.analysis.explain.align import Floats, Grid
from volbench.analysis.explain.per_transaction import TITLES
from volbench.analysis.explain.run import LATENCY, cases_of
from volbench.errors import RunUnreadable
from volbench.records.report import AssociationRow, QueryRow, Report, TransactionRow
from volbench.report.wording import number
from volbench.sample.catalogue import SAMPLED
from volbench.store.run_directory import RunDirectory

MULTIPLES_MAX = 6
"""Charts of one volume's step; groups of them in one report."""
GROUPS_MAX = 8
POINTS_MAX = 240
_PERCENT = 100.0
RHO = "\N{GREEK SMALL LETTER RHO}"


@dataclass(frozen=True, kw_only=True)
class TransactionTable:
    """One step: a row for each cost with its cells in the order of the volumes; None where it is not known."""

    step: str
    rows: tuple[tuple[str, tuple[TransactionRow | None, ...]], ...]


@dataclass(frozen=True, kw_only=True)
class QueryTable:
    """One step: queries, each with its rows in the order of the volumes, the one with most time anywhere first."""

    step: str
    rows: tuple[tuple[str, tuple[QueryRow | None, ...]], ...]


@dataclass(frozen=True, kw_only=True)
class Multiple:
    """One metric beside p95: pieces of two lines in a box of 100 by 100, each on its own scale."""

    row: AssociationRow
    title: str
    unit: str
    latency: tuple[str, ...]
    metric: tuple[str, ...]
    top: str
    bottom: str


@dataclass(frozen=True, kw_only=True)
class Multiples:
    """Those of one volume's step, strongest first."""

    volume: str
    step: str
    cell_id: str
    latency_bottom: str
    latency_top: str
    charts: tuple[Multiple, ...]


def transaction_tables(report: Report) -> list[TransactionTable]:
    """Costs of a transaction, a table for each step."""
    volumes = [volume.name for volume in report.volumes]
    found = {(_load(row), row.metric, row.volume): row for row in report.transactions}
    tables = []
    for step in dict.fromkeys(map(_load, report.transactions)):
        metrics = [name for name in TITLES if any((step, name, volume) in found for volume in volumes)]
        rows = tuple((TITLES[name], tuple(found.get((step, name, v)) for v in volumes)) for name in metrics)
        tables.append(TransactionTable(step=step, rows=rows))
    return tables


def query_tables(report: Report) -> list[QueryTable]:
    """Queries by time, a table for each step."""
    volumes = [volume.name for volume in report.volumes]
    tables = []
    for step in dict.fromkeys(map(_load, report.queries)):
        of = [row for row in report.queries if _load(row) == step]
        ranked = dict.fromkeys(row.query for row in sorted(of, key=lambda row: -row.share))
        found = {(row.query, row.volume): row for row in of}
        rows = tuple((query, tuple(found.get((query, volume)) for volume in volumes)) for query in ranked)
        tables.append(QueryTable(step=step, rows=rows))
    return tables


def _load(row: TransactionRow | QueryRow) -> str:
    """A step by its name and threads."""
    return row.step if row.threads is None else f"{row.step}, {row.threads} thread{'s' if row.threads > 1 else ''}"


def association_sentences(rows: Sequence[AssociationRow]) -> tuple[str, ...]:
    """The strongest association of each volume's step in a sentence, with the host's CPU use for comparison."""
    first: dict[tuple[str, str], AssociationRow] = {}
    for row in rows:
        first.setdefault((row.volume, row.step), row)
    return tuple(map(_association_sentence, first.values()))


def _association_sentence(row: AssociationRow) -> str:
    metric = " of ".join(filter(None, (f"{row.source} {row.metric}", row.entity)))
    lag = f", {row.lag_s:g} s later" if row.lag_s else ""
    cells = f" over {row.cells} cells" if row.cells > 1 else ""
    cpu = f"; CPU use: {RHO} {row.cpu_rho:+.2f}" if row.cpu_rho is not None and row.source != "cpu" else ""
    return f"{row.step} on {row.volume}: p95 follows {metric} ({RHO} {row.rho:+.2f}{lag}{cells}{cpu})"


def multiples(directory: RunDirectory, rows: Sequence[AssociationRow]) -> list[Multiples]:
    """Small multiples of the associations of a report. A cell whose table is damaged is left out."""
    groups: dict[tuple[str, str, str], list[AssociationRow]] = {}
    for row in rows:
        groups.setdefault((row.cell_id, row.step, row.volume), []).append(row)
    results = {result.cell_id: result for result in directory.results()}
    drawn = []
    for (cell_id, step, volume), of in list(groups.items())[:GROUPS_MAX]:
        try:
            cases = cases_of(directory, results[cell_id]) if cell_id in results else iter(())
            grid = next((case.grid for case in cases if case.name == step), None)
        except RunUnreadable:
            continue
        latency = None if grid is None else grid.columns.get(LATENCY)
        if grid is not None and latency is not None:
            drawn.append(_group(grid, latency, volume, step, of[:MULTIPLES_MAX]))
    return drawn


def _group(grid: Grid, latency: Floats, volume: str, step: str, rows: Sequence[AssociationRow]) -> Multiples:
    charts = []
    behind = tuple(_pieces(latency))
    for row in rows:
        column = grid.column(row.source, row.metric, row.entity)
        if column is not None:
            charts.append(
                Multiple(
                    row=row,
                    title=" ".join(filter(None, (row.metric, row.entity))),
                    unit=SAMPLED[row.source][row.metric].unit,
                    latency=behind,
                    metric=tuple(_pieces(column)),
                    top=number(float(np.nanmax(column))),
                    bottom=number(float(np.nanmin(column))),
                )
            )
    return Multiples(
        volume=volume,
        step=step,
        cell_id=rows[0].cell_id,
        latency_bottom=number(float(np.nanmin(latency))),
        latency_top=number(float(np.nanmax(latency))),
        charts=tuple(charts),
    )


def _pieces(column: Floats) -> Iterator[str]:
    """Points of polylines, one for each stretch without a gap; means of buckets where there are too many."""
    step = -(-len(column) // POINTS_MAX)
    known = np.array([_mean(column[first : first + step]) for first in range(0, len(column), step)])
    low, high = float(np.nanmin(known)), float(np.nanmax(known))
    reach = high - low or 1.0
    x = np.linspace(0, _PERCENT, len(known))
    gaps = np.flatnonzero(np.isnan(known)).tolist()
    for first, last in pairwise([-1, *gaps, len(known)]):
        if last - first > 1:
            part = range(first + 1, last)
            yield " ".join(f"{x[i]:.2f},{_PERCENT * (high - known[i]) / reach:.2f}" for i in part)


def _mean(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
