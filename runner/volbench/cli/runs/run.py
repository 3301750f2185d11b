"""`volbench run` and `volbench resume`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import typer

from volbench.cli import console, options
from volbench.cli.runs.execution import begin_run, resume_run
from volbench.cli.runs.plan import show_plan
from volbench.core.records.report import Report
from volbench.errors import EXIT_NO_GO, EXIT_UNDECIDED, UsageError
from volbench.measure.session.caveats import budget_caveats, needs_consent, storage_caveats
from volbench.measure.session.extension import extend_run
from volbench.measure.session.modulated import modulate_settings
from volbench.measure.session.planner import Planned, budget_seconds, check_budget, make_plan, until_settings
from volbench.measure.session.price import check_cost, price_run
from volbench.measure.session.servers import TargetRequest
from volbench.results.credits.prices import load_prices
from volbench.results.store.bucket import Bucket
from volbench.results.store.run_directory import RunDirectory


def run(
    suite: options.SuitePath,
    volume: options.Volumes = [],
    target: options.TargetOption = "auto",
    settings: options.Settings = [],
    modulate: options.Modulate = None,
    until: options.Until = None,
    budget: options.Budget = "",
    out: options.Results = Path("results"),
    tools: options.Tools = "",
    target_option: options.TargetOptions = [],
    server: options.Servers = [],
    option_file: options.OptionFiles = [],
    yes: options.Yes = False,
    json: options.Json = False,
    results_to: options.ResultsTo = "",
    cost_max: options.CostMax = None,
    detach: options.Detach = False,
) -> None:
    """Run a suite on volumes and write a report to results/."""
    settings = modulate_settings(suite, modulate, settings, say=console.say)
    if detach:
        from volbench.cli.runs.submission import ResultsClaim, submit_suite

        _check_detached(target, {"--server": server, "--budget": budget, "--json": json})
        submit_suite(
            suite,
            volume,
            TargetRequest(target=target, options=target_option, tools=tools),
            settings=until_settings(until, settings),
            claim=ResultsClaim(bucket=results_to),
            yes=yes,
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
    check_budget(planned.run, budget_s)
    if not json:
        show_plan(planned)
    for caveat in budget_caveats(planned.run, planned.cost.wall_s, budget_s) if budget_s is not None else ():
        console.say(f"caveat: {caveat}")
    if cost_max is not None:
        check_cost(price_run(planned.run, planned.cost, load_prices()), cost_max)
    if not yes and console.interactive() and not _confirmed(planned):
        raise typer.Exit(EXIT_NO_GO)
    _exit_if_undecided(begin_run(planned, out, bucket=bucket, json=json, budget_s=budget_s))


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
    option_file: options.OptionFiles = [],
    results_to: options.ResultsTo = "",
    target_option: options.TargetOptions = [],
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
