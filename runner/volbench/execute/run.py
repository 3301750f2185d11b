"""The orchestrator: runs a plan's cells on a target, in order, and can resume after any interruption."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from volbench.errors import EXIT_STEP_FAILED, EnvironmentLacks, StepFailed, VolbenchError, VolumeUnavailable
from volbench.execute.attempts import Attempts, CellState
from volbench.execute.budget import why_over_budget
from volbench.execute.cleanup import push_cleanup
from volbench.execute.completion import delayed_share, is_done, is_finished, pending_cells
from volbench.execute.interruptions import Interruptions
from volbench.execute.lanes import by_lane, run_lanes
from volbench.execute.templates import TemplateCell, shape_of, template_cells
from volbench.execute.volume_watch import failure_from_os_error
from volbench.execute.volumes import RunVolumes, mount_of
from volbench.placement.interface import Target
from volbench.plan.cost import replacements_max
from volbench.records.cell import AttachSpec, CellResult, PreparedTemplate
from volbench.records.run import PlannedCell, RunRecord
from volbench.store.files import read_record
from volbench.store.run_directory import TEMPLATE_FILE, RunDirectory
from volbench.volume.interface import OpenVolume, Volume
from volbench.volume.trouble import CAUSES

__all__ = ["CellState", "Orchestrator", "Outcome", "ignore_states"]

Item = TypeVar("Item")
_log = logging.getLogger(__name__)
TRIES = 2
"""How often a cell is tried in one invocation; every attempt has a directory of its own."""
DISRUPTIONS_MAX = 5
"""How often a cell may be begun again because the cluster ended its pod: no fault of the cell."""
_DISRUPTIONS = frozenset({"evicted", "node_lost", "spot_interruption"})
FAILED_CELLS_MAX = 2
"""A run with so many failed cells is stopped: the failures are not random."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended: which cells are done, and why the others are not."""

    done: tuple[str, ...]
    failures: tuple[VolbenchError, ...] = ()

    @property
    def exit_code(self) -> int:
        """0, or that of the first failure."""
        return self.failures[0].exit_code if self.failures else 0


def never_decided(directory: RunDirectory) -> str:  # noqa: ARG001 - as others of its kind
    """Return nothing: every planned cell is run."""
    return ""


def no_replacements(directory: RunDirectory) -> Sequence[str]:  # noqa: ARG001 - as others of its kind
    """Repeat no invalid cell."""
    return ()


def ignore_messages(text: str) -> None:
    """Discard messages."""


def ignore_states(state: CellState) -> None:
    """Ignore the states of cells."""


class Orchestrator:
    """Runs the cells of one run directory that have no result yet."""

    def __init__(
        self,
        directory: RunDirectory,
        target: Target,
        volumes: Mapping[str, Volume],
        *,
        attached: Mapping[str, AttachSpec] = MappingProxyType({}),
        on_state: Callable[[CellState], None] = ignore_states,
        invalid_cells: Callable[[RunDirectory], Sequence[str]] = no_replacements,
        decided: Callable[[RunDirectory], str] = never_decided,
        on_message: Callable[[str], None] = ignore_messages,
        budget_s: float | None = None,
    ) -> None:
        """Open nothing and raise nothing.

        Args:
            attached: servers that run already, by the name of the volume that stands for them.
            invalid_cells: returns ids of done but invalid cells for which another attempt may give valid figures.
            decided: called after each block of a run that goes on until it is decided; returns why the cells so
                far are enough, or nothing.
            on_message: called with a line for each cell that is repeated, with the reason.
            budget_s: of a run that goes on until it is decided: no block begins that would not end within this
                time. A resumed run keeps the budget of its start.
        """
        self._invalid_cells = invalid_cells
        self._decided = decided
        self._budget: dict[str, Any] = {} if budget_s is None else {"budget_s": budget_s}
        self._template_keys: dict[str, str] = {}
        self._say = on_message
        self._directory = directory
        self._run: RunRecord = directory.run
        self._target = target
        self._attached = attached
        self._interruptions = Interruptions()
        self._attempts = Attempts(directory, target, self._interruptions, on_state, attached=attached)
        self._volumes = RunVolumes(directory, volumes, remove=target.close_volume, on_message=on_message)

    def run(self) -> Outcome:
        """Prepare the dataset's template, run every cell that is not done, clean up.

        Raises EnvironmentLacks, Refused, StepFailed; KeyboardInterrupt (also for SIGTERM and SIGHUP) after the
        cleanup. Results of finished cells stay.
        """
        journal = self._directory.journal
        with self._interruptions.handled(), self._directory.lock():
            if is_finished(self._directory):
                return self._outcome([])
            resumed = bool(self._directory.events())
            try:
                failures = self._open_and_run(resumed=resumed)
            except KeyboardInterrupt:
                journal.append("run_interrupted")
                raise
            outcome = self._outcome(failures)
            undone = [cell.cell_id for cell in pending_cells(self._directory)]
            journal.append("run_finished", failed=undone)
        return outcome

    def _open_and_run(self, *, resumed: bool) -> list[VolbenchError]:
        with ExitStack() as stack:
            self._target.check()
            self._at_end(stack, self._target.clean_up)
            for attach in self._attached.values():
                self._check_attached_server(stack, attach)
            opened = self._volumes.open_all(partial(self._at_end, stack))
            self._volumes.check_mounts(opened)
            mounts = {name: mount_of(volume) for name, volume in opened.items()}
            if resumed:
                self._directory.journal.append("run_resumed", mounts=mounts)
            else:
                self._directory.journal.append("run_started", mounts=mounts, **self._budget)
            if resumed:
                self._recover_previous_run(opened)
            failures = self._run_blocks(opened)
            # A decided run has its figures: other values in place of some would be another look at the data.
            while not failures and not self._is_decided():
                repeated_cells = self._choose_replacements()
                if not repeated_cells:
                    break
                failures = self._run_cells(opened, self._run.cells, repeated_cells)
                for cell_id in repeated_cells:
                    self._select_less_disturbed(cell_id)
            return [*failures, *self._volumes.unavailable.values()]

    def _run_blocks(self, opened: Mapping[str, OpenVolume]) -> list[VolbenchError]:
        """Run the planned cells; of a run that goes on until it is decided, block by block, and skip the rest."""
        cells = self._run.cells
        if self._run.suite.comparison.until != "decided":
            return self._run_cells(opened, cells)
        failures: list[VolbenchError] = []
        for block in sorted({cell.block for cell in pending_cells(self._directory)}):
            block_cells = [cell for cell in pending_cells(self._directory) if cell.block == block]
            reason = why_over_budget(self._directory.events(), block_cells, parallel=self._target.parallel)
            if reason:
                self._skip_pending(reason, f"not decided after {block} cells of each volume", over_budget=True)
                break
            failures += self._run_cells(opened, [cell for cell in cells if cell.block == block])
            reason = "" if failures else self._decided(self._directory)
            if reason:
                self._skip_pending(reason, f"decided after {block + 1} cells of each volume")
            if reason or failures:
                break
        return failures

    def _skip_pending(self, reason: str, outcome: str, **details: Any) -> None:
        """Skip the cells that are left, and record why."""
        unneeded = [cell.cell_id for cell in pending_cells(self._directory)]
        self._directory.journal.append("run_decided", reason=reason, skipped=unneeded, **details)
        self._say(f"{outcome}: {reason}; {len(unneeded)} are skipped")

    def _is_decided(self) -> bool:
        return any(event.event == "run_decided" for event in self._directory.events())

    def _select_less_disturbed(self, cell_id: str) -> None:
        """Of a cell that was repeated and is invalid again, use the attempt that was disturbed less.

        Only the extent of the disturbance decides, never the figures.
        """
        current, previous = self._directory.result(cell_id), self._directory.last_attempt(cell_id)
        if current is None or previous is None or previous.status != "done":
            return
        if current.status == "done" and delayed_share(previous) < delayed_share(current):
            self._directory.put_back(cell_id)

    def _choose_replacements(self) -> set[str]:
        """Return cells to repeat, as many as the run's budget leaves; the journal counts them across a resume."""
        events = self._directory.events()
        budget = replacements_max(self._run) - sum(event.event == "cell_replaced" for event in events)
        candidates = list(self._invalid_cells(self._directory))
        chosen = candidates[: max(0, budget)]
        for cell_id in chosen:
            self._directory.journal.append("cell_replaced", cell_id=cell_id)
            self._say(f"cell {cell_id} is invalid and is repeated: {self._why_invalid(cell_id)}")
        if len(candidates) > len(chosen):
            more = " more" if chosen else ""
            self._say(
                f"{len(candidates) - len(chosen)}{more} invalid cells are not repeated: the plan allows"
                f" {replacements_max(self._run)} repeats"
            )
        return set(chosen)

    def _why_invalid(self, cell_id: str) -> str:
        result = self._directory.result(cell_id)
        steps = result.steps if result is not None else ()
        return "; ".join(dict.fromkeys(reason for step in steps for reason in step.invalid_reasons))

    def _check_attached_server(self, stack: ExitStack, attach: AttachSpec) -> None:
        """Check the connection to the server before anything begins; remove volbench's tables at the end."""
        # Imported here: the connector is an extra, which a run in containers or pods does without.
        from volbench.engine.attached import AttachedServer  # noqa: PLC0415
        from volbench.engine.attached_dataset import remove_from_server  # noqa: PLC0415

        with AttachedServer(attach):
            self._at_end(stack, lambda: remove_from_server(attach, run_id=self._run.run_id))

    def _at_end(self, stack: ExitStack, action: Callable[[], object]) -> None:
        def uninterruptible() -> None:
            with self._interruptions.deferred():
                action()

        push_cleanup(stack, uninterruptible)

    def _recover_previous_run(self, volumes: Mapping[str, OpenVolume]) -> None:
        """Take over from an earlier orchestrator: first wait for running agents, then clean up after ended ones."""
        cells = [(cell, volumes.get(cell.volume)) for cell in self._run.cells]
        cells += [(cell.planned, self._volume_for_template(cell, volumes)) for cell in self._template_cells()]
        for cell, volume in cells:
            try:
                self._attempts.take_over(cell, volume)
            except VolumeUnavailable as error:
                self._volumes.give_up(volume.name if volume else cell.volume, error)
        for cell, volume in cells:
            self._attempts.record_abandoned(cell, volume)

    def _run_cells(
        self, volumes: Mapping[str, OpenVolume], cells: Sequence[PlannedCell], to_repeat: Collection[str] = ()
    ) -> list[VolbenchError]:
        """Run cells that are not done or to be repeated; return failures of cells, raise one that stops the run."""
        cell_ids = {*to_repeat, *(cell.cell_id for cell in pending_cells(self._directory))}
        waiting = [
            cell for cell in cells if cell.cell_id in cell_ids and cell.volume not in self._volumes.unavailable
        ]
        keys = self._prepare_templates(volumes, waiting) if not self._attached else {}
        failures: list[VolbenchError] = []

        def do(cell: PlannedCell) -> None:
            if cell.volume in self._volumes.unavailable:
                return
            template_key = keys.get(shape_of(self._run, cell), "")
            failure = self._run_cell(cell, volumes.get(cell.volume), template_key)
            if failure is None:
                return
            if isinstance(failure, VolumeUnavailable):
                self._volumes.give_up(cell.volume, failure)
                return
            failures.append(failure)
            if not _is_retryable(failure) or len(failures) >= FAILED_CELLS_MAX:
                raise failure

        run_lanes(self._in_lanes(waiting, lambda cell: cell.volume), do, at_once=self._target.parallel)
        return failures

    def _in_lanes(self, items: Sequence[Item], volume_of: Callable[[Item], str]) -> list[list[Item]]:
        """Return one lane in the plan's order; if the target runs cells in parallel, one lane for each volume."""
        return by_lane(items, volume_of) if self._target.parallel > 1 else [list(items)]

    def _template_cells(self) -> list[TemplateCell]:
        return template_cells(self._run, on_volumes=self._target.template_on_volume)

    @staticmethod
    def _volume_for_template(cell: TemplateCell, volumes: Mapping[str, OpenVolume]) -> OpenVolume | None:
        """Return the volume whose server prepares a template; any volume if the template is not prepared on one."""
        return volumes.get(cell.volume) or next(iter(volumes.values()), None)

    def _prepare_templates(
        self, volumes: Mapping[str, OpenVolume], waiting: Sequence[PlannedCell]
    ) -> dict[str, str]:
        """Return shape of a cell -> key of its template; the agent answers at once if the template is cached."""
        keys = self._template_keys
        shapes = {shape_of(self._run, cell) for cell in waiting} - keys.keys()

        def do(cell: TemplateCell) -> None:
            if cell.volume in self._volumes.unavailable:
                return
            try:
                result = self._attempts.new(cell.planned, self._volume_for_template(cell, volumes), "prepare")
            except VolumeUnavailable as error:
                self._volumes.give_up(cell.volume, error)
                return
            if result.status != "done":
                raise _failure(result)
            directory = self._directory.cell_dir(cell.planned.cell_id)
            template = read_record(directory / TEMPLATE_FILE, PreparedTemplate)
            self._directory.journal.append("template_ready", **template.model_dump())
            keys[cell.shape] = template.key

        cells = [cell for cell in self._template_cells() if cell.shape in shapes]
        run_lanes(self._in_lanes(cells, lambda cell: cell.volume), do, at_once=self._target.parallel)
        return keys

    def _run_cell(self, planned: PlannedCell, volume: OpenVolume | None, template_key: str) -> VolbenchError | None:
        """Try the cell until it is done; return its failure after TRIES attempts, or one that is not retryable.

        Attempts that the cluster ended are not counted, up to DISRUPTIONS_MAX.
        """
        failure: VolbenchError | None = None
        tries, disruptions = 0, 0
        while tries < TRIES:
            failure = self._attempt(planned, volume, template_key)
            if failure is None or not _is_retryable(failure):
                break
            if failure.cause in _DISRUPTIONS and disruptions < DISRUPTIONS_MAX:
                disruptions += 1
            else:
                tries += 1
            _log.info("cell %s failed, tried at most %d times: %s", planned.cell_id, TRIES, failure.what)
        return failure

    def _attempt(self, planned: PlannedCell, volume: OpenVolume | None, template_key: str) -> VolbenchError | None:
        """Make one attempt; return its failure, or the volume's if that caused it."""
        try:
            self._volumes.check(planned.volume)
            result = self._attempts.new(planned, volume, "run", template_key=template_key)
        except (EnvironmentLacks, StepFailed) as error:
            if isinstance(error, VolumeUnavailable):
                return error
            if isinstance(error, EnvironmentLacks) and error.cause not in CAUSES:
                raise
            return error
        except OSError as error:
            return failure_from_os_error(error)
        return None if result.status == "done" else _failure(result)

    def _outcome(self, failures: list[VolbenchError]) -> Outcome:
        done = tuple(cell.cell_id for cell in self._run.cells if is_done(self._directory, cell))
        return Outcome(done=done, failures=tuple(failures))


def _is_retryable(failure: VolbenchError) -> bool:
    """Return whether another attempt, or another cell, may succeed."""
    return failure.exit_code == EXIT_STEP_FAILED and failure.cause not in CAUSES


def _failure(result: CellResult) -> VolbenchError:
    """Return a result's failure as an error with its exit code."""
    failure = result.failure
    if failure is None:
        return StepFailed(f"the cell was {result.status}", where=f"cell {result.cell_id}")
    error = StepFailed(
        failure.message,
        where=f"cell {result.cell_id}: {failure.where}" if failure.where else f"cell {result.cell_id}",
        evidence=failure.evidence,
        next_step=failure.next_step,
        cause=failure.cause,
    )
    error.exit_code = failure.exit_code
    return error
