"""The step `idle`: the server's own background work."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from typing_extensions import override

from volbench.core.records.base import Seconds
from volbench.core.records.steps.base import StepBase, StepCost
from volbench.core.records.steps.kind import StepKind


class IdleStep(StepBase):
    """Nothing but the server's own background work: the baseline noise of the volume."""

    kind: Literal["idle"] = "idle"
    duration_s: Seconds = Field(default=10.0, alias="duration", gt=0)

    @override
    def cost(self, data_bytes: int) -> StepCost:
        """Return the estimate."""
        return StepCost(measured_s=self.duration_s)


KIND = StepKind(model=IdleStep, metrics=())
