"""The step `restore`: the last dump, loaded."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from volbench.core.records.base import Seconds
from volbench.core.records.metric import Metric
from volbench.core.records.steps.base import StepBase, StepCost
from volbench.core.records.steps.kind import StepKind

ASSUMED_RESTORE_MIB_PER_S = 15.0


class RestoreStep(StepBase):
    """Loads the cell's last dump into an empty schema and proves it equal to the source by checksums."""

    kind: Literal["restore"] = "restore"
    tool: Literal["mysql", "myloader"] = "mysql"
    threads: int = Field(default=4, ge=1, le=256, description="myloader's threads; mysql has one.")
    timeout_s: Seconds = Field(default=4 * 3600.0, alias="timeout", gt=0)

    def cost(self, data_bytes: int) -> StepCost:
        """Return the estimate."""
        return StepCost(measured_s=data_bytes / 2**20 / ASSUMED_RESTORE_MIB_PER_S, kept_bytes=data_bytes)


KIND = StepKind(
    model=RestoreStep,
    metrics=(
        Metric(
            "restore_s",
            "s",
            "lower",
            "restore time",
            "the dump loaded into an empty schema and proven equal",
            "window",
        ),
        Metric(
            "restore_mib_per_s", "MiB/s", "higher", "restore speed", "bytes of the dump loaded per second", "window"
        ),
    ),
    primary=("restore_s",),
    explained="whole",
    stream_parameters=("threads",),
    after="dump",
)
