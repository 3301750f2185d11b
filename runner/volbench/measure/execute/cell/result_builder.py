"""Collects what happens in a cell as it happens, so that a result can be written however the cell ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from volbench.core.records.cell import CellResult, CellSpec, Failure, Phase, SourceQuality, StepResult
from volbench.core.records.facts import HostFacts, ServerFacts, VolumeFacts
from volbench.core.records.failures import failure_of
from volbench.core.records.layout import ComponentFacts
from volbench.core.records.size_contrast import SizeContrast
from volbench.errors import VolbenchError
from volbench.measure.execute.volume_watch import failure_from_os_error
from volbench.measure.workload.interface import Clock


class CellResultBuilder:
    """Collects a cell's phases, steps, facts and failure; `result()` returns the record."""

    def __init__(
        self,
        cell: CellSpec,
        *,
        volume_facts: VolumeFacts,
        host: HostFacts,
        components: tuple[ComponentFacts, ...] = (),
    ) -> None:
        self.clock = Clock(zero_monotonic_ns=time.clock_gettime_ns(time.CLOCK_MONOTONIC))
        self.volume_facts = volume_facts
        self.components = components
        self.server: ServerFacts | None = None
        self.steps: list[StepResult] = []
        self.sources: list[SourceQuality] = []
        self.notes: list[str] = []
        self.size_contrasts: list[SizeContrast] = []
        self.failure: Failure | None = None
        self.interrupted = False
        self._cell = cell
        self._host = host
        self._phases: list[Phase] = []
        self._zero_wall_s = time.time()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Record the block as a phase of the cell, also if the block ends with an exception."""
        t0_s = self.clock.now_s()
        try:
            yield
        finally:
            self.add_phase(name, t0_s)

    def add_phase(self, name: str, t0_s: float) -> None:
        """Record a phase that began at `start_s` and ends now."""
        self._phases.append(Phase(name=name, t0_s=t0_s, t1_s=self.clock.now_s()))

    @contextmanager
    def capturing_failure(self) -> Iterator[None]:
        """Put an expected failure or an interruption of the block into the result instead of raising it."""
        try:
            yield
        except VolbenchError as error:
            self.failure = failure_of(error)
        except OSError as error:
            self.failure = failure_of(failure_from_os_error(error))
        except KeyboardInterrupt:
            self.interrupted = True

    def window_of(self, phase: str) -> tuple[float, float] | None:
        """Return start and end of a phase that is over, or None."""
        return next(
            ((candidate.t0_s, candidate.t1_s) for candidate in self._phases if candidate.name == phase), None
        )

    def clock_step_s(self) -> float:
        """Return how far the wall clock has drifted from the monotonic clock since the cell's zero."""
        return time.time() - self._zero_wall_s - self.clock.now_s()

    def result(self) -> CellResult:
        """Return the cell's record."""
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
            layout=self.components,
            host=self._host,
            server=self.server,
            phases=tuple(sorted(self._phases, key=lambda phase: phase.t0_s)),
            steps=tuple(self.steps),
            sources=tuple(self.sources),
            notes=tuple(self.notes),
            size_contrasts=tuple(self.size_contrasts),
        )
