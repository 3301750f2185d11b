"""The step `replica`: the measured server replicates from a source that is not on the volume."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from volbench.core.records.base import Seconds
from volbench.core.records.metric import Metric
from volbench.core.records.steps.base import (
    ASSUMED_READ_MIB_PER_S,
    ASSUMED_WRITE_MIB_PER_S,
    SERVER_RESTART_S,
    StepBase,
    StepCost,
)
from volbench.core.records.steps.kind import StepKind

ASSUMED_TRANSACTION_BYTES = 8 * 2**10
"""Of one transaction in the relay log and in the replica's own binary log, together."""
PAUSE_S_MIN = 2.0
"""A replica that lags by 1 s has caught up."""
ReplicatedTest = Literal[
    "oltp_read_write",
    "oltp_write_only",
    "oltp_insert",
    "oltp_delete",
    "oltp_update_index",
    "oltp_update_non_index",
]


class ReplicaStep(StepBase):
    """The server on the volume as a replica: its lag under a load of the source, and its catch-up after a pause.

    `NAME/load` is the time under load, `NAME/catch_up` the time from START REPLICA after the pause; the row `NAME`
    has the rate of the source. The source is a second server with a copy of the data, off the volume and without
    syncs; sysbench writes to it. Rows and checksums of all tables prove source and replica equal at the end, unless
    the replica is still behind then. One that does not keep up with the load is not paused.
    """

    kind: Literal["replica"] = "replica"
    test: ReplicatedTest = Field(
        default="oltp_write_only", description="The test of sysbench that writes to the source."
    )
    threads: int = Field(default=8, ge=1, le=4096, description="Client threads of the source.")
    rate: int = Field(
        default=200, ge=1, le=1_000_000, description="Transactions per second offered to the source (open loop)."
    )
    workers: int = Field(
        default=4,
        ge=1,
        le=1024,
        description="Applier threads: replica_parallel_workers; slave_parallel_threads of MariaDB.",
    )
    warmup_s: Seconds = Field(default=10.0, alias="warmup", ge=0, description="Load before measuring, discarded.")
    duration_s: Seconds = Field(default=60.0, alias="duration", ge=2, description="Measured time under load.")
    pause_s: Seconds = Field(
        default=30.0,
        alias="pause",
        ge=0,
        description="How long replication is stopped under load; 0 skips the pause and the catch-up.",
    )
    timeout_s: Seconds = Field(
        default=600.0,
        alias="timeout",
        gt=0,
        description="Time for the catch-up, and for what is left at the end; what is not there by then has no lag.",
    )

    @model_validator(mode="after")
    def _a_pause_is_longer_than_a_caught_up_lag(self) -> ReplicaStep:
        if 0 < self.pause_s < PAUSE_S_MIN:
            raise ValueError(f"a pause has at least {PAUSE_S_MIN:g} s; 0 is none")
        return self

    def cost(self, data_bytes: int) -> StepCost:
        """Return the estimate: copies and checksums of the data, three starts; a catch-up as long as the pause."""
        data_mib = data_bytes / 2**20
        copies_s = data_mib / ASSUMED_WRITE_MIB_PER_S + 2 * data_mib / ASSUMED_READ_MIB_PER_S
        loaded_s = self.duration_s + 2 * self.pause_s
        slow_s = self.duration_s + max(2 * self.pause_s, min(self.timeout_s, self.duration_s))
        return StepCost(
            measured_s=loaded_s,
            unmeasured_s=self.warmup_s + copies_s + 3 * SERVER_RESTART_S,
            kept_bytes=round(self.rate * (self.warmup_s + slow_s)) * ASSUMED_TRANSACTION_BYTES,
        )


_LAG = "from the commit on the source until the replica showed it"
KIND = StepKind(
    model=ReplicaStep,
    own_server="this step starts a second server, the source",
    metrics=(
        Metric(
            "source_tps",
            "1/s",
            "none",
            "source's transactions/s",
            "sysbench transactions that the source committed per second of the time under load",
            "window",
        ),
        Metric("lag_ms_p50", "ms", "lower", "median lag", f"half of the heartbeats: {_LAG}"),
        Metric("lag_ms_p95", "ms", "lower", "p95 lag", f"95 in 100 heartbeats: {_LAG}"),
        Metric("lag_ms_max", "ms", "lower", "highest lag", f"the slowest heartbeat: {_LAG}"),
        Metric(
            "catch_up_s",
            "s",
            "lower",
            "catch-up",
            "from START REPLICA until the replica lagged by 1 s or less; absent if it did not",
            "window",
        ),
        Metric(
            "applied_per_s",
            "1/s",
            "higher",
            "applied transactions/s",
            "transactions that the replica applied per second of the load or the catch-up, by GTIDs; one that keeps"
            " up with a load applies what the source commits",
            "window",
        ),
        Metric(
            "catch_up_ratio",
            "1",
            "higher",
            "catch-up speed",
            "transactions applied during the catch-up against those that the source committed in that time",
            "window",
        ),
    ),
    primary=("lag_ms_p95", "applied_per_s"),
    explained="points",
    stream_parameters=("workers",),
    choices={
        "test": {
            "oltp_read_write": "point and range reads, updates, a delete and an insert in one transaction",
            "oltp_write_only": "the writes of `oltp_read_write`",
            "oltp_insert": "one row",
            "oltp_delete": "one row by its key",
            "oltp_update_index": "an indexed column of one row",
            "oltp_update_non_index": "another column of one row",
        }
    },
)
