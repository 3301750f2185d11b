"""The distribution of a step's transactions, rebuilt from what they did and waited for, and the recorded one."""

from __future__ import annotations

import numpy as np

from volbench.core.records.named_metrics import Client, NamedMetric, Tasks
from volbench.results.explain.case import Case
from volbench.results.explain.check.rebuild import (
    Level,
    little_ms,
    pooled_quantile,
    rebuilt_quantile,
    variation_of_waits,
)
from volbench.results.explain.evidence.layers import server_flow
from volbench.results.explain.evidence.processors import CELL
from volbench.results.explain.quantile import Quantile
from volbench.results.stats.grid import Mask, median, quantile

CPU_PART_MIN = 0.2
"""Of a transaction's time: with more of it in a CPU's queue, its waits have that queue in common, and it counts as
one wait."""
COMPLETIONS_MIN = 10.0
"""Transactions that usually end in an interval, from which one without any is no chance (Poisson: 1 in 22,000)."""
_BY_INTERVAL = {
    0.5: Client.latency_ms_p50,
    0.95: Client.latency_ms_p95,
    0.99: Client.latency_ms_p99,
    1.0: Client.latency_ms_max,
}


def distribution_of(case: Case, inside: Mask | None, level: float) -> Quantile | None:
    """A quantile as recorded and as rebuilt; None where either is not known.

    Args:
        case: the step.
        inside: intervals that a finding sets apart, shape (buckets,); None: transactions are alike all along.
        level: 0.95 for p95.
    """
    recorded = recorded_ms(case, level)
    everything = np.ones(len(case.grid), dtype=np.bool_)
    phases = [everything] if inside is None or inside.all() or not inside.any() else [inside, ~inside]
    levels = [alike for phase in phases if (alike := _level(case, phase)) is not None]
    rebuilt = rebuilt_quantile(levels, level) if len(levels) == len(phases) else None
    if recorded is None or rebuilt is None:
        return None
    return Quantile(recorded_ms=recorded, rebuilt_ms=rebuilt)


def recorded_ms(case: Case, level: float) -> float | None:
    """A quantile of all transactions: the step's own, or else of those of its intervals together."""
    of_step = case.latency_ms.get(f"latency_ms_p{100 * level:g}")
    tps = case.at(Client.tps)
    if of_step is not None or tps is None:
        return of_step
    by_level = {at: values for at, name in _BY_INTERVAL.items() if (values := case.at(name)) is not None}
    if max(by_level, default=0.0) < level:
        return None
    return pooled_quantile(tps * case.grid.width_s, by_level, level)


def slowest_of(case: Case) -> Quantile | None:
    """The slowest transaction of the step, and that of as many as the accounted pieces make; None: not known.

    Of N transactions, half of all steps have their slowest one below the quantile 1 - 1 / (2 N).
    """
    tps, slowest = (
        case.at(Client.tps),
        case.latency_ms.get("latency_ms_max", quantile(case.at(Client.latency_ms_max), 1)),
    )
    level = _level(case, np.ones(len(case.grid), dtype=np.bool_))
    if tps is None or slowest is None or level is None or level.transactions < 1:
        return None
    rebuilt = rebuilt_quantile([level], 1 - 1 / (2 * level.transactions))
    return None if rebuilt is None else Quantile(recorded_ms=slowest, rebuilt_ms=rebuilt)


def stood_still_s(case: Case) -> float:
    """Seconds in which no transaction ended, of a load of which some end in each interval."""
    tps = case.at(Client.tps)
    usual = None if tps is None else median(tps[tps > 0])
    if tps is None or usual is None or usual * case.grid.width_s < COMPLETIONS_MIN:
        return 0.0
    return float((tps == 0).sum()) * case.grid.width_s


def _level(case: Case, intervals: Mask) -> Level | None:
    """Transactions of some intervals: how many ended, how long one took, how often one waited."""
    tps = case.at(Client.tps)
    ended = 0.0 if tps is None else float(np.nansum(tps[intervals]))
    if tps is None or ended <= 0:
        return None
    queued_ms = 1000 * seconds_of(case, Tasks.run_delay_s_per_s, intervals) / ended
    mean_ms = little_ms(case.threads, tps[intervals]) if case.rate is None and case.threads else None
    if mean_ms is None and case.budget is not None:
        statements_ms = 1000 * float(np.nansum(case.budget.statement_s[intervals])) / ended
        mean_ms = statements_ms + queued_ms + 1000 * seconds_of(case, Tasks.cpus_used, intervals) / ended
    whole_ms = case.latency_ms.get("latency_ms_mean")
    if whole_ms is not None and (mean_ms is None or (intervals.all() and whole_ms < mean_ms)):
        mean_ms = whole_ms  # pieces overlap: what waits for a CPU is in a statement, or between two
    if not mean_ms:
        return None
    waits = 1.0 if queued_ms >= CPU_PART_MIN * mean_ms else operations_of(case, intervals) / ended
    return Level(transactions=ended * case.grid.width_s, mean_ms=mean_ms, variation=variation_of_waits(waits))


def waits_of_transaction(case: Case, intervals: Mask) -> float | None:
    """How often a transaction waits for files, one wait after the other; None where all share a CPU's queue.

    Args:
        case: the step.
        intervals: shape (buckets,).
    """
    tps = case.at(Client.tps)
    ended = 0.0 if tps is None else float(np.nansum(tps[intervals]))
    queued = seconds_of(case, Tasks.run_delay_s_per_s, intervals)
    if ended <= 0 or (case.threads and queued >= CPU_PART_MIN * case.threads * int(intervals.sum())):
        return None
    return operations_of(case, intervals) / ended


def seconds_of(case: Case, metric: NamedMetric, intervals: Mask) -> float:
    """Seconds a second of the cell's tasks, summed over some intervals; 0 where nobody counts them."""
    column = case.at(metric, CELL)
    return 0.0 if column is None else float(np.nansum(column[intervals]))


def operations_of(case: Case, intervals: Mask) -> float:
    """Reads and syncs of the server's files: a transaction waits for them one after the other."""
    flows = (server_flow(case.grid, "read"), server_flow(case.grid, "sync"))
    return sum(float(np.nansum(flow.rate[intervals])) for flow in flows if flow is not None)
