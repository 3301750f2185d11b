"""The orchestrator: runs a plan's cells on a target, in order, and can resume after any interruption."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from volbench.core.base.text import counted, ignore_messages
from volbench.core.records.cell import CellResult, PreparedTemplate
from volbench.core.records.run import PlannedCell, RunRecord
from volbench.errors import EXIT_STEP_FAILED, MissingPrerequisite, StepFailed, VolbenchError, VolumeUnavailable
from volbench.machine.placement.interface import Target
from volbench.machine.volume.interface import OpenVolume, Volume
from volbench.machine.volume.trouble import CAUSES
from volbench.measure.execute.attempts import Attempts, CellState
from volbench.measure.execute.budget import why_over_budget
from volbench.measure.execute.cleanup import push_cleanup
from volbench.measure.execute.completion import is_done, is_finished, open_cells, pending_cells
from volbench.measure.execute.decisions import Decide, Decisions, never_decided
from volbench.measure.execute.failures import FailureCount
from volbench.measure.execute.interruptions import Interruptions
from volbench.measure.execute.lanes import by_lane, run_lanes
from volbench.measure.execute.replacements import Replacements
from volbench.measure.execute.templates import TemplateCell, shape_of, template_cells
from volbench.measure.execute.volume_watch import failure_from_os_error
from volbench.measure.execute.volumes import RunVolumes, mount_of
from volbench.results.store.files import read_record
from volbench.results.store.run_directory import TEMPLATE_FILE, RunDirectory

__all__ = ["CellState", "Orchestrator", "Outcome", "ignore_states"]

Item = TypeVar("Item")
_log = logging.getLogger(__name__)
TRIES = 2
"""How often a cell is tried in one invocation; every attempt has a directory of its own."""
DISRUPTIONS_MAX = 5
"""How often a cell may be begun again because the cluster ended its pod: no fault of the cell."""
_DISRUPTIONS = frozenset({"evicted", "node_lost", "spot_interruption"})


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended: which cells are done, and why the others are not."""

    done: tuple[str, ...]
    failures: tuple[VolbenchError, ...] = ()

    @property
    def exit_code(self) -> int:
        """0, or that of the first failure."""
        return self.failures[0].exit_code if self.failures else 0


def no_replacements(directory: RunDirectory) -> Sequence[str]:  # noqa: ARG001 - as others of its kind
    """Repeat no invalid cell."""
    return ()


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
        on_state: Callable[[CellState], None] = ignore_states,
        invalid_cells: Callable[[RunDirectory], Sequence[str]] = no_replacements,
        decided: Decide = never_decided,
        on_message: Callable[[str], None] = ignore_messages,
        budget_s: float | None = None,
    ) -> None:
        """Open nothing and raise nothing.

        Args:
            invalid_cells: returns ids of done but invalid cells for which another attempt may give valid figures.
            decided: called after each block of a run that goes on until it is decided; returns what the cells
                so far decide: a decided volume gets no further ones.
            on_message: called with a line for each cell that is repeated, with the reason.
            budget_s: of a run that goes on until it is decided: no block begins that would not end within this
                time. A resumed run keeps the budget of its start.
        """
        self._replacements = Replacements(directory, invalid_cells, on_message)
        self._decisions = Decisions(directory, decided, on_message)
        self._budget: dict[str, Any] = {} if budget_s is None else {"budget_s": budget_s}
        self._template_keys: dict[str, str] = {}
        self._prepared: set[tuple[str, str]] = set()
        self._say = on_message
        self._directory = directory
        self._run: RunRecord = directory.run
        self._target = target
        self._interruptions = Interruptions()
        self._attempts = Attempts(directory, target, self._interruptions, on_state)
        self._has_lanes = any(map(target.lane_of, self._run.cells))
        self._volumes = RunVolumes(
            directory, volumes, lane_of=target.lane_of, remove=target.close_volume, on_message=on_message
        )

    def run(self) -> Outcome:
        """Prepare the dataset's template, run every cell that is not done, clean up.

        Raises MissingPrerequisite, Refused, StepFailed; KeyboardInterrupt (also for SIGTERM and SIGHUP) after the
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

    def interrupt(self) -> None:
        """End the run as Ctrl-C does, from another thread; `run` raises KeyboardInterrupt after its cleanup."""
        self._interruptions.interrupt()

    def _open_and_run(self, *, resumed: bool) -> list[VolbenchError]:
        with ExitStack() as stack:
            self._target.check()
            self._at_end(stack, self._target.clean_up)
            self._volumes.open_all(partial(self._at_end, stack))
            self._volumes.check_mounts()
            mounts = {name: mount_of(volume) for name, volume in self._volumes.opened.items()}
            if resumed:
                self._directory.journal.append("run_resumed", mounts=mounts)
                self._recover_previous_run()
                self._replacements.settle(self._run.cells)
            else:
                self._directory.journal.append("run_started", mounts=mounts, **self._budget)
            failures = self._run_by_lane() if self._has_lanes and not self._until_decided else self._run_in_order()
            return [*failures, *self._volumes.unavailable.values()]

    @property
    def _until_decided(self) -> bool:
        return self._run.suite.comparison.until == "decided"

    def _run_in_order(self) -> list[VolbenchError]:
        failures = self._run_blocks()
        # A decided run has its figures: other values in place of some would be another look at the data.
        return (
            failures
            if failures or self._decisions.is_decided
            else self._replace_invalid(open_cells(self._directory))
        )

    def _replace_invalid(self, cells: Sequence[PlannedCell]) -> list[VolbenchError]:
        """Repeat those of the cells that are invalid, as often as the plan allows."""
        failures: list[VolbenchError] = []
        while not failures and (
            repeated_cells := self._replacements.choose([cell for cell in cells if self._is_available(cell)])
        ):
            try:
                failures = self._run_cells(cells, [cell.cell_id for cell in repeated_cells])
            finally:
                with self._interruptions.deferred():
                    self._replacements.settle(repeated_cells)
        return failures

    def _run_by_lane(self) -> list[VolbenchError]:
        """Run lane after lane, or several at once; a lane's volumes are there from its first cell to its last."""
        failures: list[VolbenchError] = []
        pending = {self._target.lane_of(cell) for cell in pending_cells(self._directory)}
        lanes_failed = FailureCount()

        def do(cells: list[PlannedCell]) -> None:
            lane_failures: list[VolbenchError] = []
            try:
                lane_failures = self._run_cells(cells) or self._replace_invalid(cells)
            except VolbenchError as error:  # its node may be broken, which is no reason to end the others
                if not _is_retryable(error) or lanes_failed.add(failed=True):
                    raise
                lane_failures = [error]
                self._say(f"lane {self._target.lane_of(cells[0])} is given up: {error.what}")
            else:
                lanes_failed.add(failed=False)
            failures.extend(lane_failures)
            if not lane_failures:
                with self._interruptions.deferred():
                    self._volumes.close_lane(self._target.lane_of(cells[0]))

        lanes = by_lane(self._run.cells, self._target.lane_of)
        run_lanes(
            [[lane] for lane in lanes if self._target.lane_of(lane[0]) in pending],
            do,
            at_once=self._target.parallel,
        )
        return failures

    def _run_blocks(self) -> list[VolbenchError]:
        """Run the planned cells; of a run that goes on until it is decided, block by block, and skip the rest."""
        cells = self._run.cells
        if not self._until_decided:
            return self._run_cells(cells)
        failures: list[VolbenchError] = []
        for block in sorted({cell.block for cell in pending_cells(self._directory)}):
            block_cells = [cell for cell in pending_cells(self._directory) if cell.block == block]
            reason = why_over_budget(self._directory.events(), block_cells, parallel=self._target.parallel)
            if reason:
                self._decisions.skip_pending(
                    reason, f"not decided after {counted(block, 'cell')} of each volume", over_budget=True
                )
                break
            failures += self._run_cells([cell for cell in cells if cell.block == block])
            if failures:
                break
            if self._decisions.after_block(block):
                break
        return failures

    def _at_end(self, stack: ExitStack, action: Callable[[], object]) -> None:
        def uninterruptible() -> None:
            with self._interruptions.deferred():
                action()

        push_cleanup(stack, uninterruptible)

    def _recover_previous_run(self) -> None:
        """Take over from an earlier orchestrator: first wait for running agents, then clean up after ended ones."""
        for cell in pending_cells(self._directory):
            if self._directory.cell(cell.cell_id) is not None:
                self._volumes.open_lane(self._target.lane_of(cell))
        cells = [(cell, self._volumes.key_of(cell), self._volumes.get(cell)) for cell in self._run.cells]
        templates = self._template_cells()
        cells += [(cell.planned, cell.volume, self._volume_for_template(cell)) for cell in templates]
        for cell, key, volume in cells:
            try:
                self._attempts.take_over(cell, volume)
            except VolumeUnavailable as error:
                self._volumes.give_up(key, error)
        for cell, _, volume in cells:
            self._attempts.record_abandoned(cell, volume)

    def _run_cells(self, cells: Sequence[PlannedCell], to_repeat: Collection[str] = ()) -> list[VolbenchError]:
        """Run cells that are not done or to be repeated; return failures of cells, raise one that stops the run."""
        cell_ids = {*to_repeat, *(cell.cell_id for cell in pending_cells(self._directory, cells))}
        waiting = [cell for cell in cells if cell.cell_id in cell_ids]
        for lane in dict.fromkeys(map(self._target.lane_of, waiting)):
            self._volumes.open_lane(lane)
        waiting = [cell for cell in waiting if self._is_available(cell)]
        keys = self._prepare_templates(waiting)
        failures: list[VolbenchError] = []
        cells_failed = FailureCount()

        def do(cell: PlannedCell) -> None:
            if not self._is_available(cell):
                return
            template_key = keys.get(shape_of(self._run, cell), "")
            failure = self._run_cell(cell, self._volumes.get(cell), template_key)
            self._volumes.free_unused(cell)
            if failure is None:
                cells_failed.add(failed=False)
                return
            if isinstance(failure, VolumeUnavailable):
                self._volumes.give_up(self._volumes.key_of(cell), failure)
                return
            failures.append(failure)
            if not _is_retryable(failure) or cells_failed.add(failed=True):
                raise failure

        self._run_volumes(waiting, lambda cell: cell.volume, do)
        return failures

    def _is_available(self, cell: PlannedCell) -> bool:
        return self._volumes.key_of(cell) not in self._volumes.unavailable

    def _run_volumes(
        self, items: Sequence[Item], volume_of: Callable[[Item], str], do: Callable[[Item], None]
    ) -> None:
        """Do all items in the plan's order; if the target runs cells of volumes at once, those of each in order."""
        at_once = 1 if self._has_lanes else self._target.parallel
        run_lanes(by_lane(items, volume_of) if at_once > 1 else [list(items)], do, at_once=at_once)

    def _template_cells(self) -> list[TemplateCell]:
        return template_cells(self._run, scope=self._target.templates, key_of=self._volumes.key_of)

    def _volume_for_template(self, cell: TemplateCell) -> OpenVolume | None:
        """Return the volume whose server prepares a template; any volume if the template is not prepared on one."""
        opened = self._volumes.opened
        return opened.get(cell.volume) if cell.volume else next(iter(opened.values()), None)

    def _prepare_templates(self, waiting: Sequence[PlannedCell]) -> dict[str, str]:
        """Return shape of a cell -> key of its template; the agent answers at once if the template is cached."""
        on_volumes, keys = self._target.templates == "volume", self._template_keys
        needed = {
            (shape_of(self._run, cell), self._volumes.key_of(cell) if on_volumes else "") for cell in waiting
        } - self._prepared

        def do(cell: TemplateCell) -> None:
            if cell.volume in self._volumes.unavailable:
                return
            try:
                self._prepare(cell)
            except VolumeUnavailable as error:
                self._volumes.give_up(cell.volume, error)
                return
            directory = self._directory.cell_dir(cell.planned.cell_id)
            template = read_record(directory / TEMPLATE_FILE, PreparedTemplate)
            self._directory.journal.append("template_ready", **template.model_dump())
            keys[cell.shape] = template.key
            self._prepared.add((cell.shape, cell.volume))

        cells = [cell for cell in self._template_cells() if (cell.shape, cell.volume) in needed]
        self._run_volumes(cells, lambda cell: cell.volume, do)
        return keys

    def _prepare(self, cell: TemplateCell) -> None:
        """Prepare a template; begin again, up to DISRUPTIONS_MAX times, where the cluster ended the pod."""
        disruptions = 0
        while True:
            try:
                result = self._attempts.new(
                    cell.planned, self._volume_for_template(cell), "prepare", following=self._following()
                )
                if result.status == "done":
                    return
                raise _failure(result)
            except StepFailed as failure:
                if failure.cause not in _DISRUPTIONS or disruptions == DISRUPTIONS_MAX:
                    raise
                disruptions += 1
                _log.info("%s is prepared again: %s", cell.planned.cell_id, failure.what)

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
            self._volumes.check(planned)
            following = self._following(planned)
            result = self._attempts.new(planned, volume, "run", template_key=template_key, following=following)
        except (MissingPrerequisite, StepFailed) as error:
            if isinstance(error, VolumeUnavailable):
                return error
            if isinstance(error, MissingPrerequisite) and error.cause not in CAUSES:
                raise
            return error
        except OSError as error:
            return failure_from_os_error(error)
        return None if result.status == "done" else _failure(result)

    def _following(self, planned: PlannedCell | None = None) -> str:
        """Return the id of the pending cell after this one, of the first one for None; empty if that is not known.

        A run that this cell decides does not get to it.
        """
        if self._has_lanes or self._target.parallel > 1:
            return ""
        pending = [cell.cell_id for cell in pending_cells(self._directory)]
        if planned is not None:
            if planned.cell_id not in pending:  # it is repeated
                return ""
            pending = pending[pending.index(planned.cell_id) + 1 :]
        return pending[0] if pending else ""

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
