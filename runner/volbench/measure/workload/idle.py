"""The idle step: only the server's background work, for the volume's baseline noise."""

from __future__ import annotations

import time

from volbench.core.records.steps.idle import IdleStep
from volbench.errors import StepFailed
from volbench.measure.workload.failures import with_server_cause
from volbench.measure.workload.interface import StepContext, StepOutcome, Workload

_TICK_S = 1.0


class Idle(Workload[IdleStep]):
    """Waits; the samplers record what happens."""

    kind = "idle"

    def check(self, step: IdleStep, ctx: StepContext) -> None:
        """Needs nothing."""

    def run(self, step: IdleStep, ctx: StepContext) -> StepOutcome:
        """Wait for the step's duration. Raise StepFailed if the step is cancelled or the server dies."""
        begun_s = ctx.clock.now_s()
        until = time.monotonic() + step.duration_s
        while (left_s := until - time.monotonic()) > 0:
            ctx.progress("idle", 1 - left_s / step.duration_s)
            if ctx.cancelled.wait(min(_TICK_S, left_s)):
                raise StepFailed("the idle step was cancelled", where=f"step {step.name}")
        if not ctx.server.alive():
            raise with_server_cause(
                StepFailed("the server went away in the idle step", where=f"step {step.name}"), ctx
            )
        return StepOutcome(window_s=(begun_s, ctx.clock.now_s()), metrics={})
