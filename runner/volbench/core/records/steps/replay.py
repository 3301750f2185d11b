"""The step `replay`: the statements of a slow query log or of a general log on own data."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from typing_extensions import override

from volbench.core.records.base import Fraction, Scalar, Seconds
from volbench.core.records.metric import LATENCIES, QUERIES
from volbench.core.records.own_places import outside
from volbench.core.records.steps.base import StepBase, StepCost
from volbench.core.records.steps.kind import StepKind


class ReplayStep(StepBase):
    """The statements of a slow or a general query log again, on their connections, when they came: an open loop.

    Each of the heaviest classes of statements has a row of its own, named by its verb and table.
    """

    kind: Literal["replay"] = "replay"
    log: str = Field(
        min_length=1,
        description="Path of a slow query log (long_query_time = 0 for all statements), or of a general log.",
    )
    speed: float = Field(default=1.0, ge=0.01, le=100, description="2: twice as fast as they came.")
    connections: int = Field(default=128, ge=1, le=1000, description="Connections at most, at one time.")
    warmup_s: Seconds = Field(default=0.0, alias="warmup", ge=0, description="Sent before measuring, discarded.")
    duration_s: Seconds = Field(
        default=600.0,
        alias="duration",
        gt=0,
        le=24 * 3600,
        description="Measured at most; the log may be shorter.",
    )
    classes: int = Field(
        default=5,
        ge=1,
        le=50,
        description="Statement classes with a row of their own: with most time in the log; of one without "
        "times, with most statements.",
    )
    errors_max: Fraction = Field(default=0.01, description="A larger share of failed statements is invalid.")
    late_max: Fraction = Field(
        default=0.05, description="A larger share sent late by the client's own fault is invalid."
    )

    @override
    def parameters(self) -> dict[str, Scalar]:
        """Return the parameters as shown in results: the log's path on the user's machine."""
        return {**super().parameters(), "log": outside(self.log)}

    @override
    def cost(self, data_bytes: int) -> StepCost:
        """Return the estimate."""
        return StepCost(measured_s=self.duration_s, unmeasured_s=self.warmup_s)


KIND = StepKind(
    model=ReplayStep,
    metrics=(QUERIES, *(metric for metric in LATENCIES if metric.name != "latency_ms_p999")),
    primary=("latency_ms_p95",),
    explained="whole",
    required={"log": "slow.log"},
)
