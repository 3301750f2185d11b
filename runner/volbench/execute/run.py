"""The orchestrator: runs a plan's cells on a target, one after the other, and goes on after any interruption."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from volbench.engine.supervisor import supervisor_script
from volbench.errors import EXIT_STEP_FAILED, StepFailed, VolbenchError
from volbench.execute.progress import Progress, read_progress
from volbench.records.cell import AttachSpec, CellResult, CellSpec, EmulatedSpec, PreparedTemplate
from volbench.records.run import PlannedCell, RunRecord
from volbench.store.files import read_record
from volbench.store.run_directory import TEMPLATE_FILE, RunDirectory
from volbench.target.interface import Job, JobKind, Placement, Target
from volbench.volume.interface import OpenVolume, Volume

POLL_S = 0.2
INTERRUPT_GRACE_S = 120.0
TRIES = 2
"""How often a cell is tried in one invocation; every attempt is kept apart."""
FAILED_CELLS_MAX = 2
"""A run with so many cells that failed for good is stopped: the fault is not chance."""
TEMPLATE_CELL = PlannedCell(cell_id="template", volume="-", block=0, repeat=1, seed=1)


@dataclass(frozen=True, kw_only=True)
class CellState:
    """A moment of a run, for whoever watches it. `number` 0 is the preparation of the dataset."""

    number: int
    of: int
    cell_id: str
    volume: str
    elapsed_s: float
    progress: Progress | None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended: which cells have a result, and which failed for good."""

    done: tuple[str, ...]
    failed: tuple[CellResult, ...]

    @property
    def exit_code(self) -> int:
        """0, or that of the first failure."""
        if not self.failed:
            return 0
        failure = self.failed[0].failure
        return failure.exit_code if failure else EXIT_STEP_FAILED


def watch_nothing(state: CellState) -> None:
    """For runs that nobody watches."""


class Orchestrator:
    """Runs the cells of one run directory that have no result yet."""

    def __init__(
        self,
        directory: RunDirectory,
        target: Target,
        volumes: Mapping[str, Volume],
        *,
        attach: AttachSpec | None = None,
        watch: Callable[[CellState], None] = watch_nothing,
    ) -> None:
        self._directory = directory
        self._run: RunRecord = directory.run
        self._target = target
        self._volumes = volumes
        self._attach = attach
        self._watch = watch

    def run(self) -> Outcome:
        """Prepare the dataset's template, run every cell that is not done, clean up.

        Raises EnvironmentLacks, Refused, StepFailed. KeyboardInterrupt is passed on after cleaning up; what is
        done is kept.
        """
        journal = self._directory.journal
        with self._directory.lock(), ExitStack() as stack:
            journal.append("run_resumed" if self._directory.events() else "run_started")
            self._target.check()
            stack.callback(self._target.clean_up)
            opened = {}
            for name, volume in self._volumes.items():
                opened[name] = stack.enter_context(volume)
                stack.callback(self._target.close_volume, opened[name])
            try:
                self._run_cells(opened)
            except KeyboardInterrupt:
                journal.append("run_interrupted")
                raise
        outcome = self._outcome()
        journal.append("run_finished", failed=[result.cell_id for result in outcome.failed])
        return outcome

    def _run_cells(self, volumes: Mapping[str, OpenVolume]) -> None:
        waiting = [cell for cell in self._run.cells if not self._done(cell)]
        template_key = self._prepare_template(volumes) if waiting and self._attach is None else ""
        failures: list[VolbenchError] = []
        for cell in waiting:
            try:
                number = 1 + self._run.cells.index(cell)
                self._run_cell(cell, number, volumes.get(cell.volume), template_key)
            except VolbenchError as error:
                failures.append(error)
                if error.exit_code != EXIT_STEP_FAILED or len(failures) >= FAILED_CELLS_MAX:
                    raise

    def _prepare_template(self, volumes: Mapping[str, OpenVolume]) -> str:
        """The template's key; the agent answers at once when the template is in the cache.

        The server beside the first volume makes it; the volume itself is not used.
        """
        job, placement = self._placed(TEMPLATE_CELL, next(iter(volumes.values())), "prepare", "")
        result = self._attempt(job, placement, 0, "dataset")
        if result.status != "done":
            raise _failure(result)
        template = read_record(job.out / TEMPLATE_FILE, PreparedTemplate)
        self._directory.journal.append("template_ready", **template.model_dump())
        return template.key

    def _run_cell(self, planned: PlannedCell, number: int, volume: OpenVolume | None, template_key: str) -> None:
        """Run the cell until it is done; raises its failure after TRIES attempts that failed."""
        failed: VolbenchError | None = None
        for _ in range(TRIES):
            job, placement = self._placed(planned, volume, "run", template_key)
            try:
                result = self._attempt(job, placement, number, planned.volume)
            except StepFailed as error:
                failed = error
                continue
            if result.status == "done":
                return
            failed = _failure(result)
            if failed.exit_code != EXIT_STEP_FAILED:
                break
        if failed is not None:
            raise failed

    def _placed(
        self, planned: PlannedCell, volume: OpenVolume | None, kind: JobKind, template_key: str
    ) -> tuple[Job, Placement]:
        """An agent for the cell: one that an earlier orchestrator left running or done, else a new one."""
        earlier = self._directory.cell(planned.cell_id)
        if earlier is not None:
            job = self._job(earlier, volume, kind)
            placement = self._target.find(job)
            if placement.running():
                return job, placement
            if self._directory.result(planned.cell_id) is None:
                self._abandoned(job, placement)
            placement.remove()
        job = self._new_job(planned, volume, kind, template_key)
        if kind == "run":
            self._directory.journal.append("cell_started", cell_id=planned.cell_id, attempt=job.cell.attempt)
        return job, self._target.place(job)

    def _attempt(self, job: Job, placement: Placement, number: int, volume: str) -> CellResult:
        """Wait for an agent, journal how it ended, and remove what it left. Raises StepFailed without a result."""
        cell = job.cell
        with _removing(placement):
            self._wait(job, placement, number, volume)
            result = self._directory.result(cell.cell_id)
            if result is None:
                raise self._abandoned(job, placement)
        if job.kind == "run":
            event = "cell_finished" if result.status == "done" else "cell_failed"
            cause = {"cause": result.failure.cause} if result.failure else {}
            self._directory.journal.append(event, cell_id=cell.cell_id, attempt=cell.attempt, **cause)
        return result

    def _wait(self, job: Job, placement: Placement, number: int, volume: str) -> None:
        started_s = time.monotonic()
        try:
            while placement.running():
                self._watch(
                    CellState(
                        number=number,
                        of=len(self._run.cells),
                        cell_id=job.cell.cell_id,
                        volume=volume,
                        elapsed_s=time.monotonic() - started_s,
                        progress=read_progress(job.out),
                    )
                )
                if time.monotonic() - started_s > job.cell.deadline_s:
                    raise StepFailed(
                        f"cell {job.cell.cell_id} is not done after {job.cell.deadline_s:.0f} s",
                        where=f"cell {job.cell.cell_id}",
                        evidence=placement.evidence(),
                    )
                time.sleep(POLL_S)
        except KeyboardInterrupt:
            placement.interrupt()
            until = time.monotonic() + INTERRUPT_GRACE_S
            while placement.running() and time.monotonic() < until:
                time.sleep(POLL_S)
            raise

    def _abandoned(self, job: Job, placement: Placement) -> StepFailed:
        """The failure of an agent that ended without a result; journalled."""
        evidence = placement.evidence()
        self._directory.journal.append(
            "cell_abandoned", cell_id=job.cell.cell_id, attempt=job.cell.attempt, evidence=evidence
        )
        return StepFailed(
            "the agent ended without a result",
            where=f"cell {job.cell.cell_id}, attempt {job.cell.attempt}",
            evidence=evidence or "it left no log",
            next_step="its files are kept beside the cell's; `volbench resume` tries again",
        )

    def _new_job(self, planned: PlannedCell, volume: OpenVolume | None, kind: JobKind, template_key: str) -> Job:
        """A new attempt, the cell's earlier one set apart, with its cell.json written."""
        self._directory.set_attempt_apart(planned.cell_id)
        suite = self._run.suite
        cell = CellSpec(
            run_id=self._run.run_id,
            cell_id=planned.cell_id,
            attempt=self._directory.attempts(planned.cell_id) + 1,
            suite=suite.name,
            volume=planned.volume,
            block=planned.block,
            repeat=planned.repeat,
            parameters=planned.parameters,
            seed=planned.seed,
            server=suite.server,
            dataset=suite.dataset,
            steps=suite.steps,
            sampling=suite.sampling,
            limits=suite.limits,
            template_key=template_key,
            places=None if self._attach else self._target.places(planned.cell_id, volume),
            attach=self._attach,
            emulated=_emulated(volume),
        )
        self._directory.write_cell(cell)
        return self._job(cell, volume, kind)

    def _job(self, cell: CellSpec, volume: OpenVolume | None, kind: JobKind) -> Job:
        out = self._directory.cell_dir(cell.cell_id)
        return Job(kind=kind, cell=cell, out=out, supervisor_script=supervisor_script(), volume=volume)

    def _done(self, planned: PlannedCell) -> bool:
        result = self._directory.result(planned.cell_id)
        return result is not None and result.status == "done"

    def _outcome(self) -> Outcome:
        results = self._directory.results()
        return Outcome(
            done=tuple(result.cell_id for result in results if result.status == "done"),
            failed=tuple(result for result in results if result.status != "done"),
        )


def _emulated(volume: OpenVolume | None) -> EmulatedSpec | None:
    facts = volume.facts if volume else None
    if facts is None or facts.emulated_profile is None:
        return None
    return EmulatedSpec(profile=facts.emulated_profile, parameters=facts.emulated_parameters)


@contextmanager
def _removing(placement: Placement) -> Iterator[None]:
    """Remove the placement at the end; a fault while doing so does not hide the block's own."""
    try:
        yield
    except BaseException:
        with suppress(VolbenchError):
            placement.remove()
        raise
    placement.remove()


def _failure(result: CellResult) -> VolbenchError:
    """The failure that a result tells of, as an error with its exit code."""
    failure = result.failure
    if failure is None:
        return StepFailed(f"the cell was {result.status}", where=f"cell {result.cell_id}")
    error = StepFailed(
        failure.what,
        where=f"cell {result.cell_id}: {failure.where}" if failure.where else f"cell {result.cell_id}",
        evidence=failure.evidence,
        next_step=failure.next_step,
    )
    error.exit_code = failure.exit_code
    return error
