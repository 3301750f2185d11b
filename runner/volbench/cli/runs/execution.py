"""Runs a plan's cells with their progress on the terminal, and prints the report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.text import Text

from volbench.cli import console
from volbench.cli.runs.watch import progress_watcher
from volbench.core.base.text import counted, ignore_messages
from volbench.core.records.base import Scalar
from volbench.core.records.cell import AttachSpec
from volbench.core.records.report import Report
from volbench.machine.placement.attach import attach_of
from volbench.measure.execute.completion import is_finished
from volbench.measure.session.copies import copied
from volbench.measure.session.extension import may_get_cells
from volbench.measure.session.ladder import with_reached_threads
from volbench.measure.session.own_data import restore_dataset
from volbench.measure.session.planner import Planned
from volbench.measure.session.runner import Invocation, create, execute, reports_of
from volbench.measure.session.targets import changed_options
from volbench.results.report.formats.terminal import terminal_summary
from volbench.results.store.bucket import Bucket
from volbench.results.store.run_directory import RunDirectory

_COLOURS = {"candidate_better": "green", "candidate_worse": "red", "mixed": "yellow", "inconclusive": "yellow"}
"""Of the headline on a terminal; NO_COLOR leaves it bold alone."""


def begin_run(
    planned: Planned,
    results: Path,
    *,
    bucket: Bucket | None = None,
    json: bool = False,
    budget_s: float | None = None,
    ladders: Path | None = None,
) -> Report | None:
    """Run all cells of a plan in a new directory below `results`; return the report. Raise VolbenchError.

    Args:
        ladders: where the run that climbs ladders of threads before has its directory; None: below `results`, too.
    """

    def climb(ladder: Planned) -> RunDirectory:
        directory = create(ladder, ladders or results, console.say)
        console.say(f"ladder: {directory.path}")
        with progress_watcher(directory, json=json) as watch:
            ended = execute(directory, Invocation(attached=ladder.attached, watch=watch))
        if ended.error is not None:
            raise ended.error
        return directory

    planned = with_reached_threads(planned, climb, console.say)
    directory = create(planned, results, console.say)
    console.say(f"results: {directory.path}")
    with copied(directory, bucket, console.say):
        return run_cells(directory, attached=planned.attached, json=json, bucket=bucket, budget_s=budget_s)


def resume_run(
    directory: RunDirectory,
    *,
    bucket: Bucket | None = None,
    json: bool = False,
    option_files: tuple[str, ...] = (),
    target_options: tuple[str, ...] = (),
) -> Report | None:
    """Run the remaining cells of a run, or say that there are none; return its report. Raise VolbenchError."""
    changed = changed_options(directory.run, target_options)
    if is_finished(directory):
        console.say(f"nothing to do: of {counted(len(directory.results()), 'cell')} none is left")
        with copied(directory, bucket, console.say):
            report, files = reports_of(directory)
            _show_report(report, files, json=json)
        return report
    console.say(f"resuming {directory.path}")
    restore_dataset(directory.run, console.say)
    with copied(directory, bucket, console.say):
        attached = attach_of(directory.run, option_files)
        return run_cells(directory, attached=attached, json=json, bucket=bucket, target_options=changed)


def run_cells(
    directory: RunDirectory,
    *,
    attached: Mapping[str, AttachSpec],
    json: bool = False,
    bucket: Bucket | None = None,
    target_options: Mapping[str, Scalar] | None = None,
    budget_s: float | None = None,
) -> Report | None:
    """Run the remaining cells with progress on the terminal, print the report and return it.

    Raises the failure of the target or of a cell, after saying how to continue.
    """
    with progress_watcher(directory, json=json) as watch:
        invocation = Invocation(
            attached=attached,
            watch=watch,
            say=ignore_messages if json else console.say,
            bucket=bucket,
            target_options=target_options,
            budget_s=budget_s,
        )
        ended = execute(directory, invocation)
    _show_report(ended.report, ended.files, json=json)
    command = shlex.join(["volbench", "resume", str(directory.path)])
    if isinstance(ended.failure, KeyboardInterrupt):
        console.say(f"interrupted; continue with: {command}")
    elif ended.failure is not None:
        console.say(f"fix the problem, then continue with: {command}")
    elif ended.error is not None:
        console.say(f"retry the failed cells with: {command}")
    if ended.error is not None:
        raise ended.error
    if ended.report is not None and may_get_cells(directory):
        console.say(f"add cells until decided, also within a --budget: {command} --until decided")
    return ended.report


def _show_report(report: Report | None, files: Sequence[Path], *, json: bool) -> None:
    """Print what a report says, and where its files are."""
    if report is None:
        return
    if json:
        console.show_json(report.model_dump(mode="json", by_alias=True))
        return
    summary = terminal_summary(report)
    headline, *sentences = summary.verdict
    console.out.print("")
    console.out.print(Text(headline, style=f"bold {_COLOURS.get(report.summary.verdict, '')}".strip()))
    for line in (*sentences, *(f"  {text}" for text in summary.causes), "", *summary.lines):
        console.out.print(line, markup=False)
    if summary.left_out:
        console.out.print(f"  {counted(summary.left_out, 'more line')} in the report", markup=False)
    for file in files:
        console.out.print(f"report: {file}", markup=False)
