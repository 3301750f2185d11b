"""The step `instances`: several servers under load at once on one volume."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from volbench.core.records.base import Fraction, Scalar, Seconds
from volbench.core.records.metric import ERRORS, LATENCIES, Metric
from volbench.core.records.steps.base import (
    ASSUMED_READ_MIB_PER_S,
    ASSUMED_WRITE_MIB_PER_S,
    SERVER_RESTART_S,
    StepBase,
    StepCost,
)
from volbench.core.records.steps.kind import StepKind
from volbench.core.records.steps.oltp import (
    ASSUMED_BINLOG_BYTES,
    READ_ONLY_TESTS,
    RandType,
    SysbenchTest,
)

INSTANCES_MAX = 16
ALONE = "alone"
"""Suffix of the row of the first instance alone; `alone-2` is the second one's, where its load is another."""


class InstancesStep(StepBase):
    """Several servers on one volume, each with its own copy of the data and its own load, all at once.

    `NAME/alone` is the first server under load while the others are idle, `NAME/N` is N servers under load at the
    same time. The servers have the suite's configuration, the data of the cell, and the volume in common; an index
    of fairness, the share that each keeps of what it did alone, and the slowest one's p95 are measured. The report
    says how many fit, and what the volume's limits predict from the use of one.
    """

    kind: Literal["instances"] = "instances"
    counts: tuple[int, ...] = Field(
        default=(2,),
        min_length=1,
        description="How many servers have load at once, ascending; one alone is always measured first.",
    )
    test: SysbenchTest = Field(default="oltp_read_write", description="sysbench's test, the same for every server.")
    threads: int = Field(default=4, ge=1, le=1024, description="Client threads of each server.")
    rate: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Transactions per second offered to each server (open loop); absent: closed loop.",
    )
    neighbour_threads: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Client threads of each server but the first, without a rate: noisy neighbours. Absent: all"
        " servers have the same load.",
    )
    rand_type: RandType = Field(default="uniform", description="sysbench --rand-type, always passed.")
    warmup_s: Seconds = Field(default=10.0, alias="warmup", ge=0, description="Run before measuring, discarded.")
    duration_s: Seconds = Field(default=30.0, alias="duration", ge=2, description="Measured time of each count.")
    p95_s: Seconds | None = Field(
        default=None, alias="p95", gt=0, description="p95 that every server must keep to fit; absent: none."
    )
    keeps: Fraction = Field(
        default=0.9,
        gt=0,
        le=1,
        description="Share of its transactions alone that every server must keep to fit.",
    )

    @model_validator(mode="after")
    def _counts_ascend_from_two(self) -> Self:
        if list(self.counts) != sorted(set(self.counts)):
            raise ValueError(f"`counts` ascend, each once: {', '.join(map(str, self.counts))} does not")
        if not 2 <= self.counts[0] <= self.counts[-1] <= INSTANCES_MAX:
            raise ValueError(
                f"`counts` are 2 to {INSTANCES_MAX}: one server alone is always measured, as `{ALONE}`"
            )
        return self

    def cost(self, data_bytes: int) -> StepCost:
        """Return the estimate: a copy for each further server, and a load for each count."""
        further = self.counts[-1] - 1
        loads = 1 + len(self.counts) + (self.neighbour_threads is not None)
        copied_mib = further * data_bytes / 2**20
        copies_s = copied_mib / ASSUMED_WRITE_MIB_PER_S + copied_mib / ASSUMED_READ_MIB_PER_S
        writes = self.rate is not None and self.test not in READ_ONLY_TESTS
        transactions = (
            (self.rate or 0) * (self.warmup_s + self.duration_s) * (1 + sum(self.counts)) if writes else 0
        )
        return StepCost(
            measured_s=loads * self.duration_s,
            unmeasured_s=loads * self.warmup_s + copies_s + (2 + further) * SERVER_RESTART_S,
            kept_bytes=further * data_bytes,
            binlog_bytes=round(transactions) * ASSUMED_BINLOG_BYTES,
        )

    def row_parameters(self, instances: int) -> dict[str, Scalar]:
        """Return the parameters of the row of so many servers under load."""
        return {
            **{name: value for name, value in self.parameters().items() if name != "counts"},
            "instances": instances,
        }


KIND = StepKind(
    model=InstancesStep,
    own_server="this step starts further servers on the volume",
    metrics=(
        Metric(
            "tps_of_all",
            "1/s",
            "higher",
            "transactions/s of all",
            "transactions finished per second, the sum of all servers that had load",
            "window",
        ),
        Metric(
            "retained_share_min",
            "1",
            "higher",
            "least share retained",
            "transactions/s against its own alone, of the server that kept least",
        ),
        Metric(
            "retained_share_sum",
            "1",
            "higher",
            "shares retained, sum",
            "sum of what each server kept of its transactions/s alone: 1 where they share what one had (each has"
            " the reciprocal of their number), their number where none notices the others",
        ),
        Metric(
            "fairness_index",
            "1",
            "higher",
            "fairness",
            "Jain's index of the shares kept: 1 where all kept the same, 1/N where one of N kept everything",
        ),
        Metric(
            "slowdown_max",
            "1",
            "lower",
            "largest slowdown",
            "mean latency against that of the same load alone, of the server where it rose most",
        ),
        Metric(
            "latency_ms_p95_slowest",
            "ms",
            "lower",
            "p95 of the slowest server",
            "95th percentile of transactions, of the server where it is highest; absent where that server's is"
            " beyond what was measured",
        ),
        ERRORS,
        *LATENCIES,
    ),
    primary=("retained_share_min", "latency_ms_p95_slowest"),
    stream_parameters=("threads", "instances"),
)
