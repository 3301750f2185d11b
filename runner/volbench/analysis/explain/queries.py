"""Which query pays: statement time by digest, and how much of it was neither CPU nor a table lock.

No server sums waits by digest, and the history of single waits is off by default. What is left of a statement's
time without its CPU and lock time is waiting: for a SELECT above all for reads, for a COMMIT for the logs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volbench.analysis.explain.align import Floats, Grid
from volbench.records.own_statements import is_own_digest

_SOURCE = "performance_schema"


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
    """All texts of a window but our own, the one with most time first; empty where they are not told apart."""
    texts = (text for text in grid.entities(_SOURCE, "query_s_per_s") if not is_own_digest(text))
    found = [_cost(grid, query) for query in texts]
    return tuple(sorted((one for one in found if one.time_s > 0), key=lambda one: (-one.time_s, one.query)))


def together(costs: list[tuple[QueryCost, ...]]) -> tuple[QueryCost, ...]:
    """Several windows as one. CPU and lock time are known where they are known of each."""
    by_query: dict[str, list[QueryCost]] = {}
    for window in costs:
        for one in window:
            by_query.setdefault(one.query, []).append(one)
    merged = [
        QueryCost(
            query=query,
            statements=sum(one.statements for one in found),
            time_s=sum(one.time_s for one in found),
            cpu_s=_sum([one.cpu_s for one in found]),
            lock_s=_sum([one.lock_s for one in found]),
        )
        for query, found in by_query.items()
    ]
    return tuple(sorted(merged, key=lambda one: (-one.time_s, one.query)))


def _cost(grid: Grid, query: str) -> QueryCost:
    def total(metric: str) -> float | None:
        column = grid.column(_SOURCE, metric, query)
        return None if column is None else _total(column, grid.width_s)

    return QueryCost(
        query=query,
        statements=total("query_per_s") or 0.0,
        time_s=total("query_s_per_s") or 0.0,
        cpu_s=total("query_cpu_s_per_s"),
        lock_s=total("query_lock_s_per_s"),
    )


def _total(column: Floats, width_s: float) -> float:
    return float(np.nansum(column)) * width_s


def _sum(values: list[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return sum(known) if len(known) == len(values) else None
