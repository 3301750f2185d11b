"""From sysbench's intervals to series rows, histogram rows and a step's metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from volbench.records.latency_bins import merge
from volbench.records.metrics import MetricValue, metric
from volbench.records.series import HistogramRow, SeriesRow
from volbench.workload.interface import Clock
from volbench.workload.sysbench import Interval

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
_BY_INTERVAL = ("p50", "p95", "p99")


@dataclass(frozen=True, kw_only=True)
class Observed:
    """An interval with the CPU seconds that sysbench had used at its end, when they could be read."""

    interval: Interval
    cpu_s: float | None


def series_rows(interval: Interval, clock: Clock) -> Iterator[SeriesRow]:
    """The client's rows of one interval. One without a finished event has no latency rows: it is a stall."""
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


def histogram_row(interval: Interval, clock: Clock, *, step: str, measured: bool) -> HistogramRow:
    """The interval's row of histograms.parquet."""
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


def load_metrics(intervals: Sequence[Interval], *, rate: float | None) -> dict[str, MetricValue]:
    """A stretch's metrics: rates over its whole time, latencies from its merged histogram.

    Args:
        intervals: at least one, consecutive or not.
        rate: transactions per second that were offered; None in a closed loop.

    Latencies are left out where none is known: no event finished, or a quantile lies beyond the histogram.
    """
    length_s = sum(one.interval_s for one in intervals)
    tps = sum(one.events for one in intervals) / length_s
    bins = merge(one.bins for one in intervals)
    values: dict[str, float | None] = {
        "tps": tps,
        "qps": sum(one.queries for one in intervals) / length_s,
        "errors_per_s": sum(one.errors for one in intervals) / length_s,
        "stalled_s": sum(one.interval_s for one in intervals if one.events == 0),
        "rate_achieved_ratio": None if rate is None else tps / rate,
    }
    if bins is not None:
        values |= {f"latency_ms_{name}": bins.quantile_ms(level) for name, level in QUANTILES.items()}
        values |= {"latency_ms_max": bins.max_ms(), "latency_ms_mean": bins.mean_ms()}
    return {name: metric(name, value) for name, value in values.items() if value is not None}


def client_cpu(observed: Sequence[Observed], *, threads: int, cpus: float) -> dict[str, Any]:
    """How much CPU sysbench used from the first reading to the last, against what its threads could use.

    Args:
        observed: readings at the window's start, then one at the end of each of its intervals.
        cpus: that sysbench may use.

    Empty when the CPU time could not be read.
    """
    known = [one for one in observed if one.cpu_s is not None]
    if len(known) < 2 or known[0].cpu_s is None or known[-1].cpu_s is None:
        return {}
    used_s = known[-1].cpu_s - known[0].cpu_s
    wall_s = (known[-1].interval.end_ns - known[0].interval.end_ns) / 1e9
    usable = min(float(threads), cpus)
    return {
        "client_cpu_s": used_s,
        "client_cpus_usable": usable,
        "client_cpu_ratio": used_s / (wall_s * usable),
    }


def offered_load(before: Interval | None, intervals: Sequence[Interval], *, rate: float) -> dict[str, Any]:
    """Whether sysbench's generator itself offered the rate: what finished plus what is waiting or in work.

    Below 1 the load generator is behind; a server that cannot keep up only makes the queue grow.
    """
    waiting_before = 0 if before is None else before.queue_length + before.concurrency
    growth = intervals[-1].queue_length + intervals[-1].concurrency - waiting_before
    length_s = sum(one.interval_s for one in intervals)
    offered = (sum(one.events for one in intervals) + growth) / length_s
    return {
        "offered_per_s": offered,
        "offered_ratio": offered / rate,
        "offered_due": rate * length_s,
        "queue_growth": growth,
    }
