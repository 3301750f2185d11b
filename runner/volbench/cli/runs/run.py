"""`volbench run` and `volbench resume`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer
from rich.text import Text

from volbench.cli import console, options
from volbench.cli.runs.plan import show_plan
from volbench.cli.runs.watch import progress_watcher
from volbench.core.base.text import counted, ignore_messages
from volbench.core.records.base import Scalar
from volbench.core.records.cell import AttachSpec
from volbench.core.records.report import Report
from volbench.errors import EXIT_NO_GO, EXIT_UNDECIDED, UsageError
from volbench.machine.placement.attach import attach_of
from volbench.measure.execute.completion import is_finished
from volbench.measure.session.caveats import budget_caveats, needs_consent, storage_caveats
from volbench.measure.session.copies import copied
from volbench.measure.session.extension import extend_run, may_get_cells
from volbench.measure.session.modulated import modulate_settings
from volbench.measure.session.own_data import restore_dataset
from volbench.measure.session.planner import Planned, budget_seconds, make_plan, until_settings
from volbench.measure.session.price import check_cost, price_run
from volbench.measure.session.runner import Invocation, create, execute, reports_of
from volbench.measure.session.servers import TargetRequest
from volbench.measure.session.targets import changed_options
from volbench.results.credits.prices import load_prices
from volbench.results.report.formats.terminal import terminal_summary
from volbench.results.store.bucket import Bucket
from volbench.results.store.run_directory import RunDirectory

_COLOURS = {"candidate_better": "green", "candidate_worse": "red", "mixed": "yellow", "inconclusive": "yellow"}
"""Of the headline on a terminal; NO_COLOR leaves it bold alone."""


def run(
    suite: options.SuitePath,
    volume: options.Volumes = [],  # noqa: B006 - typer copies it
    target: options.TargetOption = "auto",
    settings: options.Settings = [],  # noqa: B006
    modulate: options.Modulate = None,
    until: options.Until = None,
    budget: options.Budget = "",
    out: options.Results = Path("results"),
    tools: options.Tools = "",
    target_option: options.TargetOptions = [],  # noqa: B006
    server: options.Servers = [],  # noqa: B006
    option_file: options.OptionFiles = [],  # noqa: B006
    yes: options.Yes = False,
    json: options.Json = False,
    results_to: options.ResultsTo = "",
    cost_max: options.CostMax = None,
    detach: options.Detach = False,
) -> None:
    """Run a suite on volumes and write a report to results/."""
    settings = modulate_settings(suite, modulate, settings, say=console.say)
    if detach:
        from volbench.cli.cluster.k8s_runner import submit  # noqa: PLC0415 - it runs what this module has

        _check_detached(target, {"--server": server, "--budget": budget, "--json": json})
        submit(
            suite,
            volume,
            settings=until_settings(until, settings),
            tools=tools,
            target_option=target_option,
            yes=yes,
            results_to=results_to,
            cost_max=cost_max,
        )
        return
    bucket = Bucket(results_to) if results_to else None
    budget_s = budget_seconds(budget, until)
    if budget_s is not None:
        until = options.UntilMode.DECIDED
    request = TargetRequest(
        target=target, servers=server, option_files=option_file, tools=tools, options=target_option
    )
    settings = until_settings(until, settings)
    planned = make_plan(suite, volume, request, settings=settings, command=console.typed_command(), say=console.say)
    if budget_s is not None and planned.run.suite.comparison.until != "decided":
        raise UsageError("--budget needs comparison.until=decided", where="--set comparison.until")
    if not json:
        show_plan(planned)
    for caveat in budget_caveats(planned.run, planned.cost.wall_s, budget_s) if budget_s is not None else ():
        console.say(f"caveat: {caveat}")
    if cost_max is not None:
        check_cost(price_run(planned.run, planned.cost, load_prices()), cost_max)
    if not yes and console.interactive() and not _confirmed(planned):
        raise typer.Exit(EXIT_NO_GO)
    _exit_if_undecided(begin_run(planned, out, bucket=bucket, json=json, budget_s=budget_s))


def begin_run(
    planned: Planned,
    results: Path,
    *,
    bucket: Bucket | None = None,
    json: bool = False,
    budget_s: float | None = None,
) -> Report | None:
    """Run all cells of a plan in a new directory below `results`; return the report. Raise VolbenchError."""
    directory = create(planned, results, console.say)
    console.say(f"results: {directory.path}")
    with copied(directory, bucket, console.say):
        return run_cells(directory, attached=planned.attached, json=json, bucket=bucket, budget_s=budget_s)


def _check_detached(target: str, settings: Mapping[str, object]) -> None:
    """Raise UsageError for what a run without this machine cannot be."""
    if target != "kubernetes":
        raise UsageError(
            "--detach needs a cluster that runs the orchestrator",
            where="--detach",
            evidence=f"--target {target}",
            next_step="add --target kubernetes, or leave --detach out",
        )
    for option in (name for name, value in settings.items() if value):
        raise UsageError(
            f"{option} and --detach contradict each other", where="--detach", next_step=f"leave {option} out"
        )


def _exit_if_undecided(report: Report | None) -> None:
    """End with exit code 6 where volumes were compared without a verdict, or where no cell is valid."""
    if report is None:
        return
    if report.summary.verdict == "inconclusive":
        console.say("no verdict: exit code 6")
        raise typer.Exit(EXIT_UNDECIDED)
    if report.cells and not any(cell.valid or cell.used_within_bounds for cell in report.cells):
        console.say("no valid cell: exit code 6")
        raise typer.Exit(EXIT_UNDECIDED)


def _confirmed(planned: Planned) -> bool:
    """Prompt. Where two volumes share their storage, or one may be mistyped, Enter alone means no."""
    if needs_consent(planned.run):
        for caveat in storage_caveats(planned.run):
            console.say(caveat)
        return typer.confirm("Run anyway?", default=False, err=True)
    return typer.confirm("Run?", default=True, err=True)


def resume(
    path: options.RunPath,
    json: options.Json = False,
    option_file: options.OptionFiles = [],  # noqa: B006
    results_to: options.ResultsTo = "",
    target_option: options.TargetOptions = [],  # noqa: B006
    until: options.ResumeUntil = None,
    budget: options.Budget = "",
) -> None:
    """Continue a run after an interruption, or add cells to one without a verdict; completed ones are kept."""
    directory = RunDirectory.open(path)
    budget_s = budget_seconds(budget, "decided")
    if until is not None or budget_s is not None:
        directory = extend_run(directory, console.say, budget_s=budget_s)
    report = resume_run(
        directory,
        bucket=Bucket(results_to) if results_to else None,
        json=json,
        option_files=tuple(option_file),
        target_options=tuple(target_option),
    )
    _exit_if_undecided(report)


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
