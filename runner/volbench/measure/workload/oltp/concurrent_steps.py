"""Steps that run concurrently with the load: they start with its measured window."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from volbench.core.records.steps.oltp import ConcurrentStep
from volbench.core.records.steps.snapshot import SnapshotStep
from volbench.errors import StepFailed
from volbench.measure.workload.interface import StepContext, StepOutcome, SubResult
from volbench.measure.workload.process import Tool
from volbench.measure.workload.registry import workload_for

SPARE_S = 60.0


class ConcurrentSteps:
    """Steps concurrent with a load: `begin` when the window opens, `check` regularly, `finish` after the load."""

    def __init__(
        self,
        steps: Sequence[ConcurrentStep],
        ctx: StepContext,
        pool: ThreadPoolExecutor,
    ) -> None:
        self.ctx = dataclasses.replace(ctx, cancelled=threading.Event(), progress=_quiet)
        self._steps = steps
        self._pool = pool
        self._futures: list[Future[StepOutcome]] = []

    def begin(self) -> None:
        """Start all steps, each after its own delay; do nothing if they are started already."""
        if not self._futures:
            self._futures = [self._pool.submit(self._run, step) for step in self._steps]

    def check(self, load: Tool, patience_s: float) -> None:
        """Raise the failure of a failed step. While one runs, allow `load` that many seconds from now."""
        for future in self._futures:
            if future.done():
                future.result()
            else:
                load.allow(patience_s)

    def finish(self) -> tuple[SubResult, ...]:
        """Wait for all steps (each has a timeout of its own) and return their outcomes. Raise StepFailed."""
        return tuple(
            SubResult(
                suffix=f"beside-{number}-{step.tool}" if len(self._steps) > 1 else f"beside-{step.tool}",
                kind=step.kind,
                parameters=step.parameters(),
                outcome=_outcome(future, step),
            )
            for number, (step, future) in enumerate(zip(self._steps, self._futures, strict=True), start=1)
        )

    def _run(self, step: ConcurrentStep) -> StepOutcome:
        if self.ctx.cancelled.wait(step.start_after_s):
            raise StepFailed(f"the concurrent {step.tool} was cancelled before it began")
        return workload_for(step).run(step, self.ctx)


def _outcome(future: Future[StepOutcome], step: ConcurrentStep) -> StepOutcome:
    """Wait for a step, which has a timeout of its own. Raise StepFailed."""
    limit_s = step.answer_s_max if isinstance(step, SnapshotStep) else step.timeout_s
    try:
        return future.result(timeout=step.start_after_s + limit_s + SPARE_S)
    except TimeoutError as error:
        message = f"the concurrent {step.tool} did not end"
        raise StepFailed(message, evidence=f"{limit_s + SPARE_S:.0f} s after the load") from error


@contextmanager
def running_alongside(steps: Sequence[ConcurrentStep], ctx: StepContext) -> Iterator[ConcurrentSteps]:
    """Run steps concurrently with the block; at its end, cancel running ones and wait for them."""
    with ThreadPoolExecutor(max_workers=max(1, len(steps)), thread_name_prefix="concurrent-step") as pool:
        running = ConcurrentSteps(steps, ctx, pool)
        try:
            yield running
        finally:
            running.ctx.cancelled.set()


def _quiet(text: str, fraction: float | None) -> None:
    """Discard the progress of concurrent steps: the load reports the step's progress."""
