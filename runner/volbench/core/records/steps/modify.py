"""The step `modify`: a volume gets other limits while a load runs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from volbench.core.records.base import Seconds
from volbench.core.records.metric import Metric
from volbench.core.records.steps.base import StepBase, StepCost
from volbench.core.records.steps.kind import StepKind

BEFORE_S = 5.0
"""Watched before the request, to compare with."""


class ModifyStep(StepBase):
    """Changes type, IOPS, throughput or size of an emulated volume, as a vendor's ModifyVolume does.

    It belongs into `concurrent` of an `oltp` step. The rows `during` and `alone` show what the load lost meanwhile.
    At its end the volume has its own limits again, since other cells are measured on it. The file system does not
    grow.
    """

    kind: Literal["modify"] = "modify"
    to: str = Field(
        max_length=200, description="The volume that it becomes: a profile with options, such as ebs-gp3?iops=6000."
    )
    takes_s: Seconds = Field(
        default=5.0,
        alias="takes",
        ge=0,
        le=3600,
        description="From the request to the new limits. Assumed.",
    )
    dip: float = Field(
        default=1.0,
        ge=1.0,
        le=20.0,
        description="Factor by which operations take longer during the change. Assumed; 1: none.",
    )
    watch_s: Seconds = Field(
        default=15.0,
        alias="watch",
        ge=5,
        le=3600,
        description="How long it is watched with the new limits.",
    )
    start_after_s: Seconds = Field(
        default=0.0, alias="start_after", ge=0, description="Delay when it runs concurrently with a load."
    )

    @property
    def tool(self) -> str:
        """How rows of a concurrent step are called."""
        return "modify"

    @property
    def end_s(self) -> float:
        """When it ends, seconds after the window of the load that it runs with begins."""
        return self.start_after_s + self._watched_s

    @property
    def timeout_s(self) -> float:
        """How long it may take, in seconds."""
        return self._watched_s + 60.0

    @property
    def _watched_s(self) -> float:
        return BEFORE_S + self.takes_s + self.watch_s

    def cost(self, data_bytes: int) -> StepCost:
        """Return the estimate: nothing is read or written."""
        del data_bytes
        return StepCost(measured_s=self._watched_s)


KIND = StepKind(
    model=ModifyStep,
    metrics=(
        Metric(
            "limits_changed_s",
            "s",
            "lower",
            "limits changed",
            "from the request until the volume says that it has the new limits",
        ),
        Metric(
            "new_limit_after_s",
            "s",
            "lower",
            "new limit holds",
            "from the request until the volume does more than 1.1 times its operations of before for three seconds,"
            " by its own count; absent where the load asks for no more",
        ),
        Metric(
            "dip_ratio",
            "1",
            "higher",
            "operations in the dip",
            "fewest operations of three seconds between the request and the new limits, over those of before",
        ),
    ),
    primary=("new_limit_after_s",),
    stream_parameters=(),
    required={"to": "ebs-gp3?iops=6000"},
)
