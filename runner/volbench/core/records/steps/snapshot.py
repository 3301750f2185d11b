"""The step `snapshot`: a backup by the snapshot API of a Kubernetes cluster."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from volbench.core.records.base import Seconds
from volbench.core.records.metric import Metric
from volbench.core.records.steps.base import ASSUMED_READ_MIB_PER_S, StepBase, StepCost
from volbench.core.records.steps.kind import StepKind

ASSUMED_READY_S = 60.0
ANSWER_LATE_S = 300.0
"""Beyond the step's own limits: an orchestrator that was away for a moment asks the cluster again."""
TIMEOUT_S_MAX = 7 * 86400.0
_CLASS = r"^[a-z0-9.-]{0,253}$"


class SnapshotStep(StepBase):
    """Takes a VolumeSnapshot of the server's volume while the server runs; for the target kubernetes.

    It restores the snapshot to a new claim, reads the server's files there twice, and removes snapshot and claim.
    In `concurrent` of an `oltp` step it runs under load, with `restore: false`, and the rows `during` and `alone`
    show what the load lost. The volume has the dataset's template, too, so a snapshot has about twice the data.
    """

    kind: Literal["snapshot"] = "snapshot"
    restore: bool = Field(
        default=True, description="Restore it to a new claim, and read the server's files there; a second volume."
    )
    snapshot_class: str = Field(
        default="", pattern=_CLASS, description="VolumeSnapshotClass; empty: the default class of the driver."
    )
    storage_class: str = Field(
        default="", pattern=_CLASS, description="StorageClass of the restored claim; empty: that of the volume."
    )
    timeout_s: Seconds = Field(
        default=3600.0,
        alias="timeout",
        gt=0,
        le=TIMEOUT_S_MAX,
        description="Of the snapshot, and again of restore and reads.",
    )
    start_after_s: Seconds = Field(
        default=0.0, alias="start_after", ge=0, description="Delay when it runs concurrently with a load."
    )
    window_s: Seconds | None = Field(
        default=None, alias="window", gt=0, description="The time that the backup may take; reports say if it fits."
    )

    @property
    def answer_s_max(self) -> float:
        """How long the agent waits for the orchestrator's answer, in seconds."""
        return self.timeout_s * (2 if self.restore else 1) + ANSWER_LATE_S

    @property
    def tool(self) -> str:
        """How rows of a concurrent step are called."""
        return "snapshot"

    def cost(self, data_bytes: int) -> StepCost:
        """Return the estimate: a driver's own time cannot be known."""
        read_s = 2 * data_bytes / 2**20 / ASSUMED_READ_MIB_PER_S if self.restore else 0.0
        return StepCost(measured_s=ASSUMED_READY_S * (2 if self.restore else 1) + read_s)


KIND = StepKind(
    model=SnapshotStep,
    metrics=(
        Metric(
            "snapshot_ready_s",
            "s",
            "lower",
            "snapshot time",
            "from the request until the snapshot can be restored, as volbench saw it by asking once a second",
        ),
        Metric(
            "snapshot_cut_s",
            "s",
            "none",
            "snapshot cut",
            "from the request to the moment that the data is of, by the cluster's clocks, in whole seconds",
        ),
        Metric(
            "snapshot_restore_s",
            "s",
            "lower",
            "snapshot restore",
            "from the request of a claim with the data until a pod that mounts it runs, by the cluster's clocks, in"
            " whole seconds",
        ),
        Metric(
            "first_touch_mib_per_s",
            "MiB/s",
            "higher",
            "first read after restore",
            "the server's files on the restored volume, one after the other, without the page cache",
            "part",
        ),
        Metric(
            "second_touch_mib_per_s",
            "MiB/s",
            "none",
            "second read after restore",
            "the same files again: what the volume does once its blocks are loaded",
            "part",
        ),
    ),
    primary=("snapshot_ready_s",),
    file_io="step",
    stream_parameters=(),
    is_remote=True,
)
