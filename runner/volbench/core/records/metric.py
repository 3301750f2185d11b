"""What a metric is, and the metrics that steps of several kinds report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Better = Literal["higher", "lower", "none"]
Span = Literal["window", "part", ""]


@dataclass(frozen=True)
class Metric:
    """One number that a step may report.

    Args:
        name: with its unit last; it means the same in every file.
        unit, better: the unit, and the direction of an improvement.
        label: a few words for a table of a report.
        text: what the number is.
        span: the time that the number is about: the whole window of the step; an uninterrupted part of it; or
            neither. It bounds what a disturbance can have done to the number.
        level: of a quantile of the latency, the share of transactions that were faster.
    """

    name: str
    unit: str
    better: Better
    label: str
    text: str
    span: Span = ""
    level: float | None = None


_DONE = "of the transactions or operations were faster"
LATENCY_MEAN = Metric("latency_ms_mean", "ms", "lower", "mean latency", "shows little of what users wait for")
LATENCIES = (
    Metric("latency_ms_p50", "ms", "lower", "median latency", f"half {_DONE}, as the client saw them", level=0.5),
    Metric(
        "latency_ms_p95",
        "ms",
        "lower",
        "p95 latency",
        f"95 in 100 {_DONE}; from the merged histogram",
        level=0.95,
    ),
    Metric(
        "latency_ms_p99",
        "ms",
        "lower",
        "p99 latency",
        f"99 in 100 {_DONE}; from the merged histogram",
        level=0.99,
    ),
    Metric("latency_ms_p999", "ms", "lower", "p99.9 latency", f"999 in 1000 {_DONE}", level=0.999),
    Metric(
        "latency_ms_max",
        "ms",
        "lower",
        "highest latency",
        "the slowest transaction or operation: one event, so it varies a lot",
    ),
    LATENCY_MEAN,
)
"""The clients' latency, of steps of several kinds."""
LATENCY_NAMES = frozenset(latency.name for latency in LATENCIES)
QUERIES = Metric("qps", "1/s", "higher", "queries/s", "statements that clients finished per second", "window")
ERRORS = Metric(
    "errors_per_s", "1/s", "lower", "errors/s", "statements that the server refused, deadlocks included"
)
WARM_READ = Metric(
    "warm_read_mib_per_s",
    "MiB/s",
    "higher",
    "warm read speed",
    "the same files from the page cache: memory, not storage",
)
FIRST_QUERY = Metric(
    "first_query_ms",
    "ms",
    "lower",
    "first query",
    "the first query after a cold restart or a crash of the server",
    "part",
)
SERVER_START = Metric("server_start_s", "s", "lower", "server start", "until the server answered a query")
CPU_USER = Metric(
    "cpu_user_s", "s", "lower", "user CPU", "CPU time of the program that worked on the files, as `time` shows it"
)
CPU_SYSTEM = Metric("cpu_system_s", "s", "lower", "system CPU", "CPU time of the kernel for that program")
