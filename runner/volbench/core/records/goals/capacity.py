"""The highest rate that keeps an objective: what is promised, and what cells held and broke."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from volbench.core.records.base import Fraction, Record, Seconds

Percentile = Literal["p50", "p95", "p99", "p999", "max"]


class Objective(Record):
    """What is promised to users: a percentile of latency, and a share of errors."""

    percentile: Percentile = Field(default="p95", description="Of the time from when a transaction was due.")
    limit_s: Seconds = Field(alias="limit", gt=0, description="It may be so long: 20ms.")
    errors_max: Fraction = Field(default=0.001, ge=0, lt=1, description="A larger share of errors breaks it.")

    @property
    def metric(self) -> str:
        """Its metric's name."""
        return f"latency_ms_{self.percentile}"

    @property
    def text(self) -> str:
        """In words."""
        return f"{self.percentile} <= {self.limit_s * 1000:g} ms, errors <= {self.errors_max:.3g}"


class CapacityPlan(Objective):
    """What the candidate's volume has to hold, against the production's peak."""

    headroom: float = Field(default=1.0, ge=1, le=100, description="A multiple of the log's busiest second.")
    slow_log: str = Field(default="", description="The log whose peak counts; else that of `replay` or `queries`.")


class CapacityRow(Record):
    """One load on one volume. Rates are transactions per second; each cell has held one and broken one."""

    volume: str
    load: str = Field(description="Identifies the load: test, threads and options.")
    run_id: str
    cells: int
    sustained_per_s: float | None = Field(
        description="Median over cells of the highest rate that kept the objective; null: none did.",
    )
    low_per_s: float = Field(description="Low end of the interval: the lowest such rate; 0 where a cell held none.")
    high_per_s: float | None = Field(
        description="High end: the highest rate that broke it; null: a cell never broke."
    )
    confidence: float | None = Field(description="That the median capacity lies between; null without both ends.")
    queries_per_transaction: float | None = Field(description="As measured.")
    limited_by: tuple[str, ...] = Field(default=(), description="Findings where it broke, with their evidence.")
    emulated: bool = False
