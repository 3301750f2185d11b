"""Attempts at cells: place an agent, or find a placed one; wait for its end; record the end in the journal."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from volbench.core.records.cell import CellResult, CellSpec
from volbench.core.records.run import PlannedCell, RunRecord
from volbench.errors import StepFailed, VolbenchError
from volbench.machine.engine.supervisor import supervisor_script
from volbench.machine.placement.interface import Job, JobKind, Placement, StandsBy, Target
from volbench.machine.placement.layout import emulated_spec
from volbench.machine.volume.interface import OpenVolume
from volbench.measure.execute.cell.progress import JUDGING, AgentProgress, read_progress
from volbench.measure.execute.cell_spec import cell_spec
from volbench.measure.execute.interruptions import Interruptions
from volbench.measure.execute.templates import is_template
from volbench.results.store.run_directory import RunDirectory

POLL_S = 0.2
INTERRUPT_GRACE_S = 60.0
"""How long an agent may take to end cleanly; after a second Ctrl-C the agent is killed at once."""
TERMINAL_EVENTS = frozenset({"cell_finished", "cell_failed", "cell_abandoned"})


@dataclass(frozen=True, kw_only=True)
class CellState:
    """The state of a running cell. `number` 0 is the preparation of the dataset."""

    number: int
    total: int
    cell_id: str
    volume: str
    elapsed_s: float
    progress: AgentProgress | None


class Attempts:
    """The agents of one run on one target."""

    def __init__(
        self,
        directory: RunDirectory,
        target: Target,
        interruptions: Interruptions,
        watch: Callable[[CellState], None],
    ) -> None:
        self._directory = directory
        self._run: RunRecord = directory.run
        self._target = target
        self._interruptions = interruptions
        self._watch = watch

    def new(
        self,
        planned: PlannedCell,
        volume: OpenVolume | None,
        kind: JobKind,
        *,
        template_key: str = "",
        following: str = "",
    ) -> CellResult:
        """Place an agent and wait for its result; an earlier attempt is moved to a directory of its own.

        Args:
            following: id of the next cell, whose agent stands by once this one measures nothing any more.

        Raises StepFailed when the agent ended without a result or took too long.
        """
        job = self._new_job(planned, volume, kind, template_key)
        placement = self._target.find(
            job
        )  # known before the agent is placed: an interruption in between leaves nothing
        if kind == "run":
            self._directory.journal.append("cell_started", cell_id=planned.cell_id, attempt=job.cell.attempt)
        return self._await_result(job, placement, launch=True, following=following)

    def take_over(self, planned: PlannedCell, volume: OpenVolume | None) -> None:
        """Wait for the cell's agent if an earlier orchestrator left it running; the journal records its end."""
        earlier = self._earlier_attempt(planned, volume)
        if earlier is not None and earlier[1].running():
            with suppress(StepFailed):
                self._await_result(*earlier, launch=False)

    def record_abandoned(self, planned: PlannedCell, volume: OpenVolume | None) -> None:
        """Remove what the cell's ended agent left, and journal how the agent ended if no event says so yet."""
        earlier = self._earlier_attempt(planned, volume)
        if earlier is None:
            return
        job, placement = earlier
        recorded = {
            (event.cell_id, event.attempt) for event in self._directory.events() if event.event in TERMINAL_EVENTS
        }
        if job.kind == "prepare" or (job.cell.cell_id, job.cell.attempt) not in recorded:
            if job.kind == "run":
                self._end(job, placement)
            placement.remove()

    def _earlier_attempt(self, planned: PlannedCell, volume: OpenVolume | None) -> tuple[Job, Placement] | None:
        cell = self._directory.cell(planned.cell_id)
        if cell is None:
            return None
        job = self._job(cell, volume, "prepare" if is_template(planned) else "run")
        return job, self._target.find(job)

    def _await_result(self, job: Job, placement: Placement, *, launch: bool, following: str = "") -> CellResult:
        """Wait for an agent, journal how it ended, remove what it left. Raise StepFailed if there is no result."""
        try:
            if launch:
                self._target.launch(job)
            self._wait(job, placement, following)
            result = self._end(job, placement)
            if result is None:
                raise placement.termination_cause() or _without_result(job, placement.evidence())
        except BaseException:
            with self._interruptions.deferred(), suppress(VolbenchError):
                placement.remove()
            raise
        with self._interruptions.deferred():
            try:
                placement.remove()
            except VolbenchError:
                if result.status == "done":
                    raise
        return result

    def _end(self, job: Job, placement: Placement) -> CellResult | None:
        """Return the cell's result, None if there is none, and journal the agent's end."""
        cell, journal = job.cell, self._directory.journal
        result = self._directory.result(cell.cell_id)
        if job.kind == "prepare":
            return result
        if result is None:
            failure = placement.termination_cause() or _without_result(job, placement.evidence())
            journal.append("cell_abandoned", cell_id=cell.cell_id, attempt=cell.attempt, **_details(failure))
        elif result.status == "done":
            journal.append("cell_finished", cell_id=cell.cell_id, attempt=cell.attempt)
        elif result.failure is not None:
            journal.append("cell_failed", cell_id=cell.cell_id, attempt=cell.attempt, cause=result.failure.cause)
        return result

    def _wait(self, job: Job, placement: Placement, following: str) -> None:
        started_s = time.monotonic()
        try:
            while placement.running():
                elapsed_s = time.monotonic() - started_s
                state = self._state(job, elapsed_s)
                self._watch(state)
                if following and _measures_nothing(job, state.progress):
                    self._stand_by(following)
                    following = ""
                if elapsed_s > job.cell.deadline_s:
                    raise self._deadline_exceeded(job, placement)
                self._interruptions.check()
                placement.wait_for_end(POLL_S)
        except KeyboardInterrupt:
            with suppress(VolbenchError):
                placement.interrupt()
                until_s = time.monotonic() + INTERRUPT_GRACE_S
                while placement.running() and time.monotonic() < until_s:
                    if self._interruptions.forced.wait(POLL_S):
                        break
            raise

    def _stand_by(self, cell_id: str) -> None:
        if isinstance(self._target, StandsBy):
            with suppress(OSError):  # the agent is started when its turn comes
                self._target.stand_by(cell_id)

    def _state(self, job: Job, elapsed_s: float) -> CellState:
        cell_ids = [cell.cell_id for cell in self._run.cells]
        preparing = job.kind == "prepare"
        return CellState(
            number=0 if preparing else 1 + cell_ids.index(job.cell.cell_id),
            total=len(cell_ids),
            cell_id=job.cell.cell_id,
            volume="dataset" if preparing else job.cell.volume,
            elapsed_s=elapsed_s,
            progress=read_progress(job.out),
        )

    def _deadline_exceeded(self, job: Job, placement: Placement) -> StepFailed:
        cell = job.cell
        failure = StepFailed(
            f"cell {cell.cell_id} was not done after {cell.deadline_s:.0f} s; its agent was killed",
            where=f"cell {cell.cell_id}, attempt {cell.attempt}",
            evidence=placement.evidence(),
            cause="deadline",
        )
        placement.kill()
        self._directory.journal.append(
            "cell_abandoned", cell_id=cell.cell_id, attempt=cell.attempt, **_details(failure)
        )
        return failure

    def _new_job(self, planned: PlannedCell, volume: OpenVolume | None, kind: JobKind, template_key: str) -> Job:
        """Return a new attempt with its cell.json written; an earlier attempt moves to a directory of its own."""
        self._directory.set_attempt_apart(planned.cell_id)
        cell = cell_spec(
            self._run,
            planned,
            attempt=self._directory.attempts(planned.cell_id) + 1,
            template_key=template_key,
            emulated=emulated_spec(volume),
            host_volume=volume.facts if volume else None,
        )
        cell = self._target.with_server(cell, volume)
        self._directory.write_cell(cell)
        return self._job(cell, volume, kind)

    def _job(self, cell: CellSpec, volume: OpenVolume | None, kind: JobKind) -> Job:
        out = self._directory.cell_dir(cell.cell_id)
        return Job(kind=kind, cell=cell, out=out, supervisor_script=supervisor_script(), volume=volume)


def _measures_nothing(job: Job, progress: AgentProgress | None) -> bool:
    return job.kind == "prepare" or (progress is not None and progress.text == JUDGING)


def _without_result(job: Job, evidence: str) -> StepFailed:
    return StepFailed(
        "the agent ended without a result",
        where=f"cell {job.cell.cell_id}, attempt {job.cell.attempt}",
        evidence=evidence or "the agent left no log",
        next_step="see the attempt's files next to the cell's directory; `volbench resume RUN` tries again",
        cause="agent_gone",
    )


def _details(failure: VolbenchError) -> dict[str, str]:
    return {"cause": failure.cause, "message": failure.what, "evidence": failure.evidence}
