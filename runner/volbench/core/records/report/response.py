"""Rows of what a millisecond of the volume costs a transaction or a query."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from volbench.core.records.base import Record


class ResponseRow(Record):
    """What one more millisecond of one waiting time costs a load, over all volumes and thread levels of the run."""

    step: str
    query: str = Field(default="", description="Text of a class of statements; empty: the whole transaction.")
    statistic: Literal["mean", "p50", "p95", "p99"] = "mean"
    term: str = Field(description="What is waited for: read, redo_sync, binlog_sync, log_sync, write.")
    title: str
    slope: float = Field(description="ms of latency per ms of waiting time, that is waits of a transaction.")
    ci: tuple[float, float] | None = Field(
        default=None,
        description="95 % interval; null: the run does not tell this slope from another's, it is the count.",
    )
    counted: tuple[float, float] | None = Field(
        default=None, description="Waits by the server's count, at least and at most; null: it counts none."
    )
    agreement: Literal["agrees", "below", "above", "open"] = Field(
        default="open", description="Of the count with the slope, less the wait for CPUs where that is known."
    )
    less_cpu_wait: float | None = Field(
        default=None,
        description="The slope of the latency less what tasks of server and client wait for CPUs; null: not known.",
    )
    less_cpu_wait_ci: tuple[float, float] | None = Field(default=None, description="Its 95 % interval.")
    await_ms: float = Field(description="Mean waiting time.")
    moved_ms: tuple[float, float] = Field(description="Its 10th and 90th percentile over the intervals.")
    latency_ms: float = Field(description="Mean of what was estimated, over the same intervals.")
    intercept_ms: float = Field(description="What none of the waiting times explains.")
    method: Literal["signal", "within", "between"] = Field(
        description="signal: by a known modulation; within: inside cells; between: between volumes and threads."
    )
    intervals: int
    cells: int
    variance_share: float = Field(description="Of the latency's variance, that this waiting time explains.")
    notes: tuple[str, ...] = ()
    valid: bool = Field(default=True, description="False: a volume has no valid cell; its disturbed ones are in.")


class NoResponseRow(Record):
    """A load of which the run does not tell what a millisecond of the volume costs, and what would."""

    step: str
    reason: str
    advice: str


class ResponsePointRow(Record):
    """One point of a response's chart: the mean over one stretch of a cell's time."""

    step: str
    term: str
    volume: str
    await_ms: float
    latency_ms: float
