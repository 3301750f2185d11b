"""A planned run from its directory to its reports, begun or resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Timer

from volbench.core.base.text import ignore_messages
from volbench.core.plan.ladder import ladder_steps
from volbench.core.records.base import Scalar
from volbench.core.records.cell import AttachSpec
from volbench.core.records.report import Report
from volbench.errors import StepFailed, UsageError, VolbenchError
from volbench.measure.execute.run import CellState, Orchestrator, Outcome
from volbench.measure.session.copies import copying
from volbench.measure.session.own_data import download_dataset
from volbench.measure.session.planner import Planned
from volbench.measure.session.targets import make_target
from volbench.results.report.render import write_reports
from volbench.results.report.rows.verdict.pairs import decision_of
from volbench.results.report.rows.verdict.replace import cells_to_replace
from volbench.results.store.bucket import Bucket
from volbench.results.store.run_directory import RunDirectory


@dataclass(frozen=True, kw_only=True)
class Execution:
    """What one invocation left: the reports of the cells that have results, and why the others have none.

    Args:
        report: None where no cell has a result.
        files: reports that were written.
        failure: of the target, or KeyboardInterrupt; None where every cell was tried.
        outcome: None where there is a failure.
    """

    report: Report | None
    files: tuple[Path, ...] = ()
    failure: VolbenchError | KeyboardInterrupt | None = None
    outcome: Outcome | None = None

    @property
    def error(self) -> VolbenchError | KeyboardInterrupt | None:
        """Why the run is not complete: the failure, else that of the first failed cell."""
        if self.failure is not None or self.outcome is None or not self.outcome.failures:
            return self.failure
        return self.outcome.failures[0]


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """How the remaining cells of a run are run this time.

    Args:
        attached: servers that run already, by the name of the volume that stands for them.
        watch: is called with the state of cells, also from threads.
        say: is called with a line for each message.
        bucket: gets a copy after each cell.
        target_options: instead of those of run.json.
        budget_s: seconds, of a run that begins and goes on until it is decided.
        time_limit_s: after which the run is interrupted, which is a failure then.
    """

    attached: Mapping[str, AttachSpec]
    watch: Callable[[CellState], None]
    say: Callable[[str], None] = ignore_messages
    bucket: Bucket | None = None
    target_options: Mapping[str, Scalar] | None = None
    budget_s: float | None = None
    time_limit_s: float | None = None


def create(planned: Planned, results: Path, say: Callable[[str], None] = ignore_messages) -> RunDirectory:
    """Download what the run needs, and return its new directory below `results`. Raise VolbenchError."""
    _check_ladders(planned)
    download_dataset(planned.run.suite.dataset, say)
    results.mkdir(parents=True, exist_ok=True)
    return RunDirectory.create(results.resolve(), planned.run)


def _check_ladders(planned: Planned) -> None:
    """Raise UsageError for a load whose threads a ladder has not found yet: nobody chose those that it has."""
    with_ladder = {ladder.step for ladder in planned.run.ladders}
    for step in ladder_steps(planned.run.suite.steps):
        if step.name not in with_ladder:
            raise UsageError(
                "`threads_max` needs `volbench run`, which climbs the ladder first",
                where=f"step {step.name}",
                next_step=f"use `volbench run`, or set steps.{step.name}.threads_max=null",
            )


def execute(directory: RunDirectory, invocation: Invocation) -> Execution:
    """Run the remaining cells and write the reports, also after a failure or an interruption."""
    run_record = directory.run
    if invocation.target_options is not None:
        run_record = run_record.model_copy(update={"target_options": dict(invocation.target_options)})
    outcome: Outcome | None = None
    failure: VolbenchError | KeyboardInterrupt | None = None
    try:
        target, volumes = make_target(run_record, directory.results(), attached=invocation.attached)
        orchestrator = Orchestrator(
            directory,
            target,
            volumes,
            on_state=copying(invocation.watch, directory, invocation.bucket, invocation.say),
            invalid_cells=cells_to_replace,
            decided=decision_of,
            on_message=invocation.say,
            budget_s=invocation.budget_s,
        )
        with time_limit(orchestrator, invocation.time_limit_s):
            outcome = orchestrator.run()
    except (VolbenchError, KeyboardInterrupt) as error:
        failure = error
    report, files = reports_of(directory)
    return Execution(report=report, files=files, failure=failure, outcome=outcome)


@contextmanager
def time_limit(orchestrator: Orchestrator, seconds: float | None) -> Iterator[None]:
    """Interrupt a run that does not end in time. Raise StepFailed then, after the run's cleanup."""
    if seconds is None:
        yield
        return
    expired = Event()

    def expire() -> None:
        expired.set()
        orchestrator.interrupt()

    timer = Timer(seconds, expire)
    timer.daemon = True
    timer.start()
    try:
        yield
    except KeyboardInterrupt:
        if not expired.is_set():
            raise
        raise StepFailed(f"the run did not end within {seconds:g} s", where="run") from None
    finally:
        timer.cancel()


def reports_of(directory: RunDirectory) -> tuple[Report | None, tuple[Path, ...]]:
    """Write the reports of the cells that have results; return the report and the files. Raise VolbenchError."""
    if not directory.results():
        return None, ()
    report, files = write_reports(directory)
    return report, tuple(files)
