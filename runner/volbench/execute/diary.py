"""What happens in a cell, put down as it happens, so that a result can be written whatever comes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from volbench.errors import VolbenchError
from volbench.execute.volume_watch import kernel_refused
from volbench.records.cell import CellResult, CellSpec, Failure, Phase, SourceQuality, StepResult
from volbench.records.facts import HostFacts, ServerFacts, VolumeFacts
from volbench.workload.interface import Clock


class Diary:
    """Collects a cell's phases, steps, facts and failure; `result()` makes the record of them."""

    def __init__(self, cell: CellSpec, *, volume_facts: VolumeFacts, host: HostFacts) -> None:
        self.clock = Clock(zero_monotonic_ns=time.clock_gettime_ns(time.CLOCK_MONOTONIC))
        self.volume_facts = volume_facts
        self.server: ServerFacts | None = None
        self.steps: list[StepResult] = []
        self.sources: list[SourceQuality] = []
        self.notes: list[str] = []
        self.failure: Failure | None = None
        self.interrupted = False
        self._cell = cell
        self._host = host
        self._phases: list[Phase] = []
        self._zero_wall_s = time.time()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A stretch of the cell's time; kept also when it ends with an exception."""
        start_s = self.clock.now_s()
        try:
            yield
        finally:
            self.add_phase(name, start_s)

    def add_phase(self, name: str, start_s: float) -> None:
        """A stretch of the cell's time that began at `start_s` and ends now."""
        self._phases.append(Phase(name=name, t0_s=start_s, t1_s=self.clock.now_s()))

    @contextmanager
    def keeping_failure(self) -> Iterator[None]:
        """An expected failure or an interruption ends the block, and stands in the result."""
        try:
            yield
        except VolbenchError as error:
            self.failure = failure_of(error)
        except OSError as error:
            self.failure = failure_of(kernel_refused(error))
        except KeyboardInterrupt:
            self.interrupted = True

    def window_of(self, phase: str) -> tuple[float, float] | None:
        """Start and end of a phase that is over; None when there was none."""
        return next(((one.t0_s, one.t1_s) for one in self._phases if one.name == phase), None)

    def clock_step_s(self) -> float:
        """How far the wall clock has gone away from the monotonic clock since the cell's zero."""
        return time.time() - self._zero_wall_s - self.clock.now_s()

    def result(self) -> CellResult:
        """The record of all that."""
        zero_utc = datetime.fromtimestamp(self._zero_wall_s, UTC).isoformat(timespec="milliseconds")
        return CellResult(
            cell_id=self._cell.cell_id,
            attempt=self._cell.attempt,
            status="interrupted" if self.interrupted else "failed" if self.failure else "done",
            failure=self.failure,
            zero_utc=zero_utc.replace("+00:00", "Z"),
            zero_monotonic_ns=self.clock.zero_monotonic_ns,
            wall_s=self.clock.now_s(),
            clock_step_s=self.clock_step_s(),
            volume_facts=self.volume_facts,
            host=self._host,
            server=self.server,
            phases=tuple(sorted(self._phases, key=lambda phase: phase.t0_s)),
            steps=tuple(self.steps),
            sources=tuple(self.sources),
            notes=tuple(self.notes),
        )


def failure_of(error: VolbenchError) -> Failure:
    """The failure as it stands in results."""
    return Failure(
        cause=getattr(error, "cause", "") or "step_failed",
        what=error.what,
        where=error.where,
        evidence=error.evidence,
        next_step=error.next_step,
        exit_code=error.exit_code,
    )
