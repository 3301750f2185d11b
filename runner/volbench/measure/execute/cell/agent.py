"""The agent: runs one cell, from the seeding of the data directory to result.json."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from volbench.core.base.programs import Popen
from volbench.core.records.cell import CellResult, CellSpec, StepResult
from volbench.core.records.steps import Step
from volbench.measure.execute.cell.attached_cell import AttachedCell
from volbench.measure.execute.cell.cell_run import CellRun
from volbench.measure.execute.cell.handshake import require_version
from volbench.measure.execute.cell.owned_cell import OwnedCell
from volbench.measure.execute.cell.progress import JUDGING
from volbench.measure.execute.cell.recorder import CellRecorder, recording
from volbench.measure.execute.cell.sampling import sampling
from volbench.measure.workload.interface import StepContext, StepOutcome
from volbench.measure.workload.registry import workload_for
from volbench.results.store.files import write_record
from volbench.results.store.run_directory import RESULT_FILE


def run_cell(cell: CellSpec, out: Path, *, sampling_process: Popen | None = None) -> CellResult:
    """Run a cell and write its result. A failure is part of the result; it is not raised.

    Args:
        cell: with `places` (volbench starts the server) or `attach` (the server runs already).
        out: the cell's directory; receives result.json, series.parquet, histograms.parquet and raw/.
        sampling_process: started by `sample.controller.launch`; None: it is started when it is needed.
    """
    with recording(out) as record:
        run = cell_run(cell, out, record)
        with run.builder.capturing_failure():
            require_version(cell)
            with run.serving(), sampling(run, sampling_process):
                run.start()
                run.builder.server = run.server.facts()
                record.open()  # not while a load runs
                run_steps(run)
                run.end()
                run.progress.report(JUDGING)
    return finish(run)


def cell_run(cell: CellSpec, out: Path, record: CellRecorder) -> CellRun:
    """Return the run of a cell: the only place that asks who starts its server. Raise MissingPrerequisite."""
    if cell.attach is not None:
        return AttachedCell(cell, cell.attach, out, record)
    return OwnedCell(cell, cell.own_places, out, record)


def run_steps(run: CellRun) -> None:
    """Check all steps, then run one after the other. Raise MissingPrerequisite, UsageError, StepFailed."""
    context = run.context()
    for step in run.cell.steps:
        workload_for(step).check(step, context)
    for step in run.cell.steps:
        is_last, before_load = run.is_discarded_after(step), run.is_before_load(step)
        ended = _run_step(run, step, replace(context, is_last=is_last, before_load=before_load))
        if ended:
            run.builder.notes.append(f"no step was run after {step.name}: {ended}")
            break


def finish(run: CellRun) -> CellResult:
    """Judge the steps, and write the cell's result."""
    from volbench.measure.execute.cell.judging import judge  # noqa: PLC0415 - see owned_cell.LATER_MODULES

    run.progress.report(JUDGING)
    judge(run)
    result = run.builder.result()
    write_record(run.out / RESULT_FILE, result)
    return result


def _run_step(run: CellRun, step: Step, context: StepContext) -> str:
    """Run a step and record its result. Return why no other step can follow, or an empty text."""
    with run.builder.phase(f"step:{step.name}"):
        outcome = workload_for(step).run(step, context)
    run.builder.steps.append(_result(step.name, step.kind, step.parameters(), outcome))
    run.builder.size_contrasts += outcome.size_contrasts
    for sub_result in outcome.sub_results:
        run.builder.steps.append(
            _result(f"{step.name}/{sub_result.suffix}", sub_result.kind, sub_result.parameters, sub_result.outcome)
        )
    return outcome.ends_cell


def _result(
    name: str, kind: str, parameters: dict[str, bool | int | float | str], outcome: StepOutcome
) -> StepResult:
    return StepResult(
        step=name,
        kind=kind,
        parameters=parameters,
        window_s=outcome.window_s,
        metrics=outcome.metrics,
        spans_s=outcome.spans_s,
        valid=not outcome.invalid_reasons,
        invalid_reasons=outcome.invalid_reasons,
        notes=outcome.notes,
        details=outcome.details,
    )
