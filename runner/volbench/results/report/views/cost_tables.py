"""Costs of transactions and queries as tables by step, and small multiples of metrics that correlate with p95."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from volbench.core.base.text import MINUS, counted, number
from volbench.core.records.report import AssociationRow, FindingRow, QueryRow, Report, TransactionRow
from volbench.core.records.sources import unit_of
from volbench.errors import RunUnreadable
from volbench.results.explain.accounts.per_transaction import TITLES
from volbench.results.explain.evidence.association import implausible_reason
from volbench.results.explain.run import LATENCY
from volbench.results.explain.run_cases import cases_of
from volbench.results.report.views.cause_clause import cause_clause, related
from volbench.results.stats.grid import Floats, Grid
from volbench.results.store.loaded_run import LoadedRun

QUERY_SHARE_MIN = 0.0005
"""Share of all statements' time below which a query has no row; of several volumes the largest share counts."""
MULTIPLES_MAX = 6
"""Charts of one volume's step; groups of them in one report."""
GROUPS_MAX = 8
POINTS_MAX = 240
_PERCENT = 100.0
_NONE_HOLDS = (
    "No metric is shown to move with p95: a steady load and short cells show none. The times of a transaction do"
    " not rest on that."
)
RHO = "\N{GREEK SMALL LETTER RHO}"


@dataclass(frozen=True, kw_only=True)
class TransactionTable:
    """One step: a row for each cost, its cells in the order of the volumes; None where the cost is not known.

    `nothing`: titles of costs that are 0 on every volume, which have no row.
    """

    step: str
    rows: tuple[tuple[str, tuple[TransactionRow | None, ...]], ...]
    nothing: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class QueryTable:
    """One step: queries, each with its rows in the order of the volumes; the query with most time comes first."""

    step: str
    rows: tuple[tuple[str, tuple[QueryRow | None, ...]], ...]


@dataclass(frozen=True, kw_only=True)
class SmallMultiple:
    """One metric and p95 (on a logarithmic scale): pieces of two lines in a box of 100 by 100."""

    row: AssociationRow
    title: str
    unit: str
    latency: tuple[str, ...]
    metric: tuple[str, ...]
    top: str
    bottom: str


@dataclass(frozen=True, kw_only=True)
class SmallMultiples:
    """The charts of one volume's step, the strongest association first."""

    volume: str
    step: str
    cell_id: str
    latency_bottom: str
    latency_top: str
    charts: tuple[SmallMultiple, ...]


def transaction_tables(report: Report) -> list[TransactionTable]:
    """Return the costs of a transaction, a table for each step."""
    volumes = [volume.name for volume in report.volumes]
    by_key = {(_step_label(row), row.metric, row.volume): row for row in report.transactions}
    tables = []
    for step in dict.fromkeys(map(_step_label, report.transactions)):
        metrics = [name for name in TITLES if any((step, name, volume) in by_key for volume in volumes)]
        rows = [(TITLES[name], tuple(by_key.get((step, name, v)) for v in volumes)) for name in metrics]
        nothing = tuple(title for title, cells in rows if all(cell and not cell.value for cell in cells))
        rows = [(title, cells) for title, cells in rows if title not in nothing]
        tables.append(TransactionTable(step=step, rows=tuple(rows), nothing=nothing))
    return tables


def query_tables(report: Report) -> list[QueryTable]:
    """Return the queries by time, a table for each step."""
    volumes = [volume.name for volume in report.volumes]
    tables = []
    for step in dict.fromkeys(map(_step_label, report.queries)):
        queries = [row for row in report.queries if _step_label(row) == step]
        ranked = dict.fromkeys(
            row.query for row in sorted(queries, key=lambda row: -row.share) if row.share >= QUERY_SHARE_MIN
        )
        by_key = {(row.query, row.volume): row for row in queries}
        rows = tuple((query, tuple(by_key.get((query, volume)) for volume in volumes)) for query in ranked)
        tables.append(QueryTable(step=step, rows=rows))
    return tables


def nothing_text(titles: Sequence[str]) -> str:
    """Return which costs are 0 on every volume: `0 on every volume: fsyncs, KiB read by InnoDB`."""
    return f"0 on every volume: {', '.join(titles)}." if titles else ""


def _step_label(row: TransactionRow | QueryRow) -> str:
    """Return a step's name with its threads."""
    return row.step if row.threads is None else f"{row.step}, {row.threads} thread{'s' if row.threads > 1 else ''}"


def association_sentences(
    rows: Sequence[AssociationRow], findings: Sequence[FindingRow] | None = None
) -> tuple[str, ...]:
    """Return the strongest association of each volume's step in a sentence, beside that of the host's CPU use.

    With findings it is held against the first cause of the step: a page does not tell two stories. What cannot
    have raised p95, such as a rate that falls as p95 rises or credits that rise with it, is shown where nothing
    else is.
    """
    first: dict[tuple[str, str], AssociationRow] = {}
    for row in sorted(rows, key=lambda row: bool(remark_on(row))):  # otherwise in their order
        first.setdefault((row.volume, row.step), row)
    order = dict.fromkeys((row.volume, row.step) for row in rows)
    return tuple(_association_sentence(first[key], findings) for key in order)


def remark_on(row: AssociationRow) -> str:
    """Return `; no cause: ` and why, of a metric whose sign says that it did not raise p95; empty of others.

    It is computed, so that a row of an older version has it, too.
    """
    reason = implausible_reason(row.source, row.metric, row.rho)
    return f"; no cause: {reason}" if reason else ""


def correlation_sentences(report: Report) -> tuple[str, ...]:
    """Return what moves with p95; where there is a time budget, also that nothing does."""
    if not report.associations and report.time_budgets:
        return (_NONE_HOLDS,)
    return association_sentences(report.associations, report.findings)


def _association_sentence(row: AssociationRow, findings: Sequence[FindingRow] | None) -> str:
    metric = " of ".join(filter(None, (f"{row.source} {row.metric}", row.entity)))
    lag = f", p95 {number(float(f'{row.lag_s:.3g}'))} s after it" if row.lag_s else ""
    cells = f", over {counted(row.samples, 'interval')}" + (f" of {row.cells} cells" if row.cells > 1 else "")
    has_cpu = row.cpu_rho is not None and row.source != "cpu"
    cpu = f"; for comparison, CPU use: {RHO} {signed(row.cpu_rho)}" if row.cpu_rho is not None and has_cpu else ""
    verb = "follows" if row.rho > 0 else "rises when there is less"
    strength = f"{RHO} {signed(row.rho)}{lag}{cells}{cpu}{remark_on(row)}"
    clause = "" if findings is None else cause_clause(related(row, findings))
    return f"{row.step} on {row.volume}: p95 {verb} {metric} ({strength}){clause}"


def signed(rho: float) -> str:
    """Return a correlation with its sign and two decimals."""
    return f"{rho:+.2f}".replace("-", MINUS)


def small_multiples(loaded: LoadedRun, rows: Sequence[AssociationRow]) -> list[SmallMultiples]:
    """Return small multiples of a report's associations. A cell with a damaged table is omitted."""
    groups: dict[tuple[str, str, str], list[AssociationRow]] = {}
    for row in rows:
        groups.setdefault((row.cell_id, row.step, row.volume), []).append(row)
    results = {result.cell_id: result for result in loaded.results}
    drawn = []
    for (cell_id, step, volume), associations in list(groups.items())[:GROUPS_MAX]:
        try:
            cases = cases_of(loaded, results[cell_id]) if cell_id in results else iter(())
            grid = next((case.grid for case in cases if case.name == step), None)
        except RunUnreadable:
            continue
        latency = None if grid is None else grid.columns.get(LATENCY)
        if grid is not None and latency is not None:
            drawn.append(_group(grid, latency, volume, step, associations[:MULTIPLES_MAX]))
    return drawn


def _group(grid: Grid, latency: Floats, volume: str, step: str, rows: Sequence[AssociationRow]) -> SmallMultiples:
    charts = []
    latency_lines = tuple(_pieces(np.log10(np.where(latency > 0, latency, np.nan))))
    for row in rows:
        column = grid.column(row.source, row.metric, row.entity)
        if column is not None:
            charts.append(
                SmallMultiple(
                    row=row,
                    title=" ".join(filter(None, (row.metric, row.entity))),
                    unit=unit_of(row.source, row.metric),
                    latency=latency_lines,
                    metric=tuple(_pieces(column)),
                    top=number(float(np.nanmax(column))),
                    bottom=number(float(np.nanmin(column))),
                )
            )
    return SmallMultiples(
        volume=volume,
        step=step,
        cell_id=rows[0].cell_id,
        latency_bottom=number(float(np.nanmin(latency))),
        latency_top=number(float(np.nanmax(latency))),
        charts=tuple(charts),
    )


def _pieces(column: Floats) -> Iterator[str]:
    """Yield the points of polylines, one for each run of values without a gap; bucket means of long columns."""
    step = -(-len(column) // POINTS_MAX)
    means = np.array([_mean_of_finite(column[first : first + step]) for first in range(0, len(column), step)])
    low, high = float(np.nanmin(means)), float(np.nanmax(means))
    span = high - low or 1.0
    x = np.linspace(0, _PERCENT, len(means))
    gaps = np.flatnonzero(np.isnan(means)).tolist()
    for first, last in pairwise([-1, *gaps, len(means)]):
        if last - first > 1:
            indices = range(first + 1, last)
            yield " ".join(f"{x[i]:.2f},{_PERCENT * (high - means[i]) / span:.2f}" for i in indices)


def _mean_of_finite(values: Floats) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else float("nan")
