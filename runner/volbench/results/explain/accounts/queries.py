"""Which query pays: statement time by digest, and how much of it was neither CPU nor a table lock.

No server sums waits by digest, and the history of single waits is off by default. What is left of a statement's
time without its CPU and lock time is waiting: for a SELECT above all for reads, for a COMMIT for the logs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volbench.core.records.named_metrics import NamedMetric, PerformanceSchema
from volbench.core.records.own_statements import is_own_digest
from volbench.results.explain.evidence.budget import ends_early
from volbench.results.stats.grid import Floats, Grid

TEXTS_MIN = 0.5
COUNTED_MIN = 0.9
"""Of the statements of a server that volbench started; each one has a text, so nearly all of them are counted."""


@dataclass(frozen=True, kw_only=True)
class QueryCost:
    """One text of a statement over a window.

    Args:
        statements: how many ended.
        time_s: of them together.
        cpu_s, lock_s: what of it was CPU and table locks; None: not kept by this server.
    """

    query: str
    statements: float
    time_s: float
    cpu_s: float | None
    lock_s: float | None

    @property
    def waited_s(self) -> float | None:
        """Neither CPU nor table locks; None without CPU times."""
        return None if self.cpu_s is None else max(0.0, self.time_s - self.cpu_s - (self.lock_s or 0.0))


def query_costs(grid: Grid) -> tuple[QueryCost, ...]:
    """All texts of a window but our own, the one with most time first; empty where they are not told apart.

    Empty, too, where texts are known of less than TEXTS_MIN of all statement time: MariaDB keeps none of what is
    executed as a prepared statement, and shares of the rest would mislead. So would those of a part of the window,
    see `ends_early`, and of a measured server those of less than COUNTED_MIN of its statements: some texts are
    counted in part then.
    """
    texts = [text for text in grid.entities(*PerformanceSchema.query_s_per_s) if not is_own_digest(text)]
    columns = [grid.column(*PerformanceSchema.query_s_per_s, text) for text in texts]
    finite = [np.isfinite(column) for column in columns if column is not None]
    if finite and ends_early(grid, np.where(np.any(finite, axis=0), 1.0, np.nan)):
        return ()
    costs = [_cost(grid, query) for query in texts]
    statements = grid.column(*PerformanceSchema.statement_s_per_s)
    if statements is not None and sum(cost.time_s for cost in costs) < TEXTS_MIN * _total(statements, grid.width_s):
        return ()
    counted = grid.column(*PerformanceSchema.statements_per_s)
    is_observed = bool(grid.entities(*PerformanceSchema.query_rows_examined_per_s))  # the texts with most time only
    if counted is not None and not is_observed:
        known_statements = sum(cost.statements for cost in costs)
        if known_statements < COUNTED_MIN * _total(counted, grid.width_s):
            return ()
    return tuple(sorted((cost for cost in costs if cost.time_s > 0), key=lambda cost: (-cost.time_s, cost.query)))


def together(costs: list[tuple[QueryCost, ...]]) -> tuple[QueryCost, ...]:
    """Several windows as one. CPU and lock time are known where they are known of each."""
    by_query: dict[str, list[QueryCost]] = {}
    for window in costs:
        for cost in window:
            by_query.setdefault(cost.query, []).append(cost)
    merged = [
        QueryCost(
            query=query,
            statements=sum(cost.statements for cost in costs_of_query),
            time_s=sum(cost.time_s for cost in costs_of_query),
            cpu_s=_sum([cost.cpu_s for cost in costs_of_query]),
            lock_s=_sum([cost.lock_s for cost in costs_of_query]),
        )
        for query, costs_of_query in by_query.items()
    ]
    return tuple(sorted(merged, key=lambda cost: (-cost.time_s, cost.query)))


def _cost(grid: Grid, query: str) -> QueryCost:
    def total(metric: NamedMetric) -> float | None:
        column = grid.column(*metric, query)
        return None if column is None else _total(column, grid.width_s)

    return QueryCost(
        query=query,
        statements=total(PerformanceSchema.query_per_s) or 0.0,
        time_s=total(PerformanceSchema.query_s_per_s) or 0.0,
        cpu_s=total(PerformanceSchema.query_cpu_s_per_s),
        lock_s=total(PerformanceSchema.query_lock_s_per_s),
    )


def _total(column: Floats, width_s: float) -> float:
    return float(np.nansum(column)) * width_s


def _sum(values: list[float | None]) -> float | None:
    finite = [cost for cost in values if cost is not None]
    return sum(finite) if len(finite) == len(values) else None
