"""From sysbench's intervals to series rows, histogram rows and a step's metrics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from volbench.core.records.latency_bins import merge
from volbench.core.records.metrics import MetricValue, metric
from volbench.core.records.series import HistogramRow, SeriesRow
from volbench.measure.workload.interface import Clock
from volbench.measure.workload.oltp.sysbench import ReportInterval

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
_BY_INTERVAL = ("p50", "p95", "p99")
UNFINISHED_MIN, UNFINISHED_SHARE_MIN = 0.5, 0.05
"""Sessions in transactions that did not end, and their share of all, from which on a step says so."""

EMPTY_BY_CHANCE_MAX = 0.01
"""Share of intervals that an offered rate leaves without a transaction, up to which such an interval is a stall."""
UNANSWERED_SHARE_MIN = 0.001
"""Share of transactions without an answer from which on they can move p99.9."""


@dataclass(frozen=True, kw_only=True)
class Observed:
    """An interval with sysbench's CPU seconds at its end; None: not readable."""

    interval: ReportInterval
    cpu_s: float | None


def series_rows(interval: ReportInterval, clock: Clock) -> Iterator[SeriesRow]:
    """Yield the client's rows of one interval. An interval without events has no latency rows: it is a stall."""
    t_s, length_s = clock.at_s(interval.end_ns), interval.interval_s
    values: dict[str, float | None] = {
        "tps": interval.events / length_s,
        "qps": interval.queries / length_s,
        "errors_per_s": interval.errors / length_s,
        "threads_running": interval.threads_running,
        "queue_length": interval.queue_length,
        **{f"latency_ms_{name}": interval.bins.quantile_ms(QUANTILES[name]) for name in _BY_INTERVAL},
        "latency_ms_max": interval.bins.max_ms(),
    }
    for name, value in values.items():
        if value is not None:
            yield SeriesRow(t_s=t_s, source="client", metric=name, value=value)


def histogram_row(interval: ReportInterval, clock: Clock, *, step: str, measured: bool) -> HistogramRow:
    """Return the interval's row of histograms.parquet."""
    numbers = sorted(interval.bins.counts)
    return HistogramRow(
        t_s=clock.at_s(interval.end_ns),
        interval_s=interval.interval_s,
        step=step,
        source="client",
        events=interval.events,
        errors=interval.errors,
        edge_mult=interval.bins.edge_mult,
        edge_deduct=interval.bins.edge_deduct,
        bin=tuple(numbers),
        count=tuple(interval.bins.counts[number] for number in numbers),
        below=interval.bins.below,
        above=interval.bins.above,
        measured=measured,
    )


def unanswered(intervals: Sequence[ReportInterval], *, threads: int) -> int:
    """Return how many transactions of an open loop waited at its end; 0 where they cannot move a percentile.

    A queue of fewer transactions than threads, or of less than a thousandth of all, is one of the moment.
    """
    waiting, answered = intervals[-1].queue_length, sum(interval.events for interval in intervals)
    return waiting if waiting >= max(UNANSWERED_SHARE_MIN * (waiting + answered), threads) else 0


def load_metrics(
    intervals: Sequence[ReportInterval], *, rate: float | None, waiting: int = 0
) -> dict[str, MetricValue]:
    """Return metrics over the intervals: rates over their whole time, latencies from the merged histogram.

    Args:
        intervals: at least one, consecutive or not.
        rate: offered transactions per second; None in a closed loop.
        waiting: transactions without an answer at the end, see `unanswered`. Percentiles take them as slower than
            all others: who came last would have waited longest. Mean and maximum are of the answered ones.

    Unknown latencies are absent: no event finished, or a quantile lies beyond the histogram or is one of those that
    wait.
    """
    length_s = sum(interval.interval_s for interval in intervals)
    tps = sum(interval.events for interval in intervals) / length_s
    bins = merge(interval.bins for interval in intervals)
    stalled_s = sum(interval.interval_s for interval in intervals if interval.events == 0)
    values: dict[str, float | None] = {
        "tps": tps,
        "qps": sum(interval.queries for interval in intervals) / length_s,
        "errors_per_s": sum(interval.errors for interval in intervals) / length_s,
        "stalled_s": None if _empty_by_chance(rate, length_s / len(intervals)) else stalled_s,
        "rate_achieved_ratio": None if rate is None else tps / rate,
    }
    if bins is not None:
        all_bins = replace(bins, above=bins.above + waiting)
        values |= {f"latency_ms_{name}": all_bins.quantile_ms(level) for name, level in QUANTILES.items()}
        values |= {"latency_ms_max": bins.max_ms(), "latency_ms_mean": bins.mean_ms()}
    return {name: metric(name, value) for name, value in values.items() if value is not None}


def _empty_by_chance(rate: float | None, interval_s: float) -> bool:
    """Return whether intervals without a transaction are usual at an offered rate: no such second is a stall.

    Arrivals are by chance (Poisson): of intervals of w seconds at r a second, exp(-r * w) have none.
    """
    return rate is not None and math.exp(-rate * interval_s) > EMPTY_BY_CHANCE_MAX


def unfinished_sessions(intervals: Sequence[ReportInterval], *, threads: int) -> float:
    """Return how many sessions of a closed loop were in transactions that did not end, on average.

    Little's law: the sessions in those that ended are their rate times their mean latency, and a closed loop leaves
    no session without a transaction. In 62 recorded runs of the laboratory, at most 1.0 of 14 remained.
    """
    length_s = sum(interval.interval_s for interval in intervals)
    bins = merge(interval.bins for interval in intervals)
    mean_ms = bins.mean_ms() if bins is not None else None
    busy = sum(interval.events for interval in intervals) / length_s * (mean_ms or 0.0) / 1000
    return max(0.0, threads - busy)


def concurrency(
    intervals: Sequence[tuple[float, float]], windows: Sequence[tuple[float, float]]
) -> tuple[Literal["during", "alone", ""], ...]:
    """Return for each interval whether other steps ran in it: `during`, `alone`, or empty for a small part of it.

    Args:
        intervals: begins and ends in seconds.
        windows: begins and ends of the other steps, on the same clock.

    A step is in an interval if it ran for half of it, or in no other interval for longer: so that a short step has
    an interval too.
    """
    overlaps = [[max(0.0, min(end, t1) - max(begin, t0)) for begin, end in intervals] for t0, t1 in windows]
    longest = [max(row, default=0.0) for row in overlaps]
    phases: list[Literal["during", "alone", ""]] = []
    for index, (begin, end) in enumerate(intervals):
        shares = [(row[index], most) for row, most in zip(overlaps, longest, strict=True) if row[index] > 0]
        if any(overlap >= min((end - begin) / 2, most) for overlap, most in shares):
            phases.append("during")
        else:
            phases.append("" if shares else "alone")
    return tuple(phases)


def losses(during: Sequence[ReportInterval], alone: Sequence[ReportInterval]) -> dict[str, MetricValue]:
    """Return what the load lost while another step ran, against its rate alone; the longest stall only without it.

    Args:
        during, alone: intervals with and without the other step; either may be empty.
    """
    longest_s = stalled_s = 0.0
    for interval in during:
        stalled_s = 0.0 if interval.events else stalled_s + interval.interval_s
        longest_s = max(longest_s, stalled_s)
    values = {"stall_s_max": longest_s}
    if alone:
        rate = sum(interval.events for interval in alone) / sum(interval.interval_s for interval in alone)
        expected = rate * sum(interval.interval_s for interval in during)
        values["transactions_lost"] = max(0.0, expected - sum(interval.events for interval in during))
    return {name: metric(name, value) for name, value in values.items()}


def client_cpu(observed: Sequence[Observed], *, threads: int, cpus: float) -> dict[str, Any]:
    """Return sysbench's CPU time from the first reading to the last, and its ratio to the usable CPU time.

    Args:
        observed: readings at the window's start, then one at the end of each of its intervals.
        cpus: that sysbench may use.

    Empty if the CPU time could not be read.
    """
    readings = [reading for reading in observed if reading.cpu_s is not None]
    if len(readings) < 2 or readings[0].cpu_s is None or readings[-1].cpu_s is None:
        return {}
    used_s = readings[-1].cpu_s - readings[0].cpu_s
    wall_s = (readings[-1].interval.end_ns - readings[0].interval.end_ns) / 1e9
    usable = min(float(threads), cpus)
    return {
        "client_cpu_s": used_s,
        "client_cpus_usable": usable,
        "client_cpu_ratio": used_s / (wall_s * usable),
    }


def offered_load(
    before: ReportInterval | None, intervals: Sequence[ReportInterval], *, rate: float
) -> dict[str, Any]:
    """Return the rate that sysbench really offered: finished transactions plus the growth of its queue.

    A ratio below 1 means that the load generator was too slow; a slow server only makes the queue grow.
    """
    waiting_before = 0 if before is None else before.queue_length + before.concurrency
    growth = intervals[-1].queue_length + intervals[-1].concurrency - waiting_before
    length_s = sum(interval.interval_s for interval in intervals)
    offered = (sum(interval.events for interval in intervals) + growth) / length_s
    return {
        "offered_per_s": offered,
        "offered_ratio": offered / rate,
        "offered_due": rate * length_s,
        "queue_growth": growth,
    }
