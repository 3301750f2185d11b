"""Steps that run at the same time as the load: started with its measured window, and told apart in it."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from volbench.errors import StepFailed
from volbench.records.steps import BesideStep, parameters_of
from volbench.workload.interface import StepContext, StepOutcome, StepPart, Workload

_TICK_S = 0.2


class Beside:
    """The steps beside a load; `begin` once the window opens, `check` now and then, `finish` after the load."""

    def __init__(
        self,
        steps: Sequence[BesideStep],
        workload: Workload[BesideStep],
        ctx: StepContext,
        pool: ThreadPoolExecutor,
    ) -> None:
        self.ctx = dataclasses.replace(ctx, cancelled=threading.Event(), progress=_quiet)
        self._steps = steps
        self._workload = workload
        self._pool = pool
        self._futures: list[Future[StepOutcome]] = []

    def begin(self) -> None:
        """Start all of them, each after its own delay. Nothing happens when they are started already."""
        if not self._futures:
            self._futures = [self._pool.submit(self._run, step) for step in self._steps]

    def check(self) -> None:
        """Raise the failure of a step that has failed."""
        for future in self._futures:
            if future.done():
                future.result()

    def finish(self) -> tuple[StepPart, ...]:
        """Wait for all (each has a timeout of its own) and return their outcomes. Raises StepFailed."""
        return tuple(
            StepPart(
                suffix=f"beside-{number}-{step.tool}" if len(self._steps) > 1 else f"beside-{step.tool}",
                kind=step.kind,
                parameters=parameters_of(step),
                outcome=future.result(timeout=step.start_after_s + step.timeout_s + 60),
            )
            for number, (step, future) in enumerate(zip(self._steps, self._futures, strict=True), start=1)
        )

    def _run(self, step: BesideStep) -> StepOutcome:
        if self.ctx.cancelled.wait(step.start_after_s):
            raise StepFailed(f"{step.tool} beside the load was cancelled before it began")
        return self._workload.run(step, self.ctx)


@contextmanager
def beside(steps: Sequence[BesideStep], workload: Workload[BesideStep], ctx: StepContext) -> Iterator[Beside]:
    """Steps beside a load; those still running when the block ends are cancelled and waited for."""
    with ThreadPoolExecutor(max_workers=max(1, len(steps)), thread_name_prefix="beside") as pool:
        running = Beside(steps, workload, ctx, pool)
        try:
            yield running
        finally:
            running.ctx.cancelled.set()


def _quiet(text: str, fraction: float | None) -> None:
    """The load tells how far the step is; what runs beside it would only flicker."""
