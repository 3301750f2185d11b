"""`volbench run` and `volbench resume`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import typer

from volbench.analysis.credits.prices import load_prices
from volbench.base.text import size
from volbench.cli import console, options
from volbench.cli.runs.own_data import download_dataset
from volbench.cli.runs.plan import (
    Planned,
    command_line,
    make_plan,
    show_plan,
    storage_caveats,
    until_settings,
    volumes_share_storage,
)
from volbench.cli.runs.price import check_cost, price_run
from volbench.cli.runs.watch import progress_watcher
from volbench.cli.targets import changed_options, make_target
from volbench.errors import EXIT_NO_GO, EXIT_UNDECIDED, UsageError, VolbenchError
from volbench.execute.completion import is_finished
from volbench.execute.run import CellState, Orchestrator, Outcome, ignore_messages
from volbench.placement.attach import attach_of
from volbench.records.base import Scalar, parse_duration_s
from volbench.records.cell import AttachSpec
from volbench.records.report import Report
from volbench.report.formats.terminal import summary_lines
from volbench.report.render import write_reports
from volbench.report.rows.verdict.pairs import why_decided
from volbench.report.rows.verdict.replace import cells_to_replace
from volbench.store.bucket import Bucket
from volbench.store.run_directory import RunDirectory


def run(
    suite: options.SuitePath,
    volume: options.Volumes = [],  # noqa: B006 - typer copies it
    target: options.TargetOption = "auto",
    settings: options.Settings = [],  # noqa: B006
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
    if detach:
        from volbench.cli.k8s_runner import submit  # noqa: PLC0415 - it runs what this module has

        _check_detached(target, {"--server": server, "--budget": budget, "--json": json})
        submit(
            suite, volume, settings=until_settings(until, settings), tools=tools, target_option=target_option,
            yes=yes, results_to=results_to, cost_max=cost_max,
        )  # fmt: skip
        return
    bucket = Bucket(results_to) if results_to else None
    budget_s = _budget_s(budget, until)
    if budget_s is not None:
        until = options.UntilMode.DECIDED
    planned = make_plan(
        suite, volume, target=target, settings=until_settings(until, settings), servers=server,
        option_files=option_file, tools=tools, target_options=target_option,
    )  # fmt: skip
    if budget_s is not None and planned.run.suite.comparison.until != "decided":
        raise UsageError("--budget needs comparison.until=decided", where="--set comparison.until")
    if not json:
        show_plan(planned)
    if cost_max is not None:
        check_cost(price_run(planned.run, planned.cost, load_prices()), cost_max)
    if not yes and console.interactive() and not _confirmed(planned):
        raise typer.Exit(EXIT_NO_GO)
    directory = create(planned, out)
    console.say(f"results: {directory.path}")
    with copied(directory, bucket):
        report = execute(directory, attached=planned.attached, json=json, bucket=bucket, budget_s=budget_s)
    _exit_if_undecided(report)


def _check_detached(target: str, settings: Mapping[str, object]) -> None:
    """Raise UsageError for what a run without this machine cannot be."""
    if target != "kubernetes":
        raise UsageError(
            "--detach needs a cluster that runs the orchestrator", where="--detach", evidence=f"--target {target}",
            next_step="add --target kubernetes, or leave --detach out",
        )  # fmt: skip
    for option in (name for name, value in settings.items() if value):
        raise UsageError(
            f"{option} and --detach contradict each other", where="--detach", next_step=f"leave {option} out"
        )


def _budget_s(budget: str, until: options.UntilMode | None) -> float | None:
    """Return the seconds of `--budget`, None without it. Raise UsageError."""
    if not budget:
        return None
    if until is options.UntilMode.ALL_CELLS:
        raise UsageError("--budget needs --until decided: a run of all cells has one look at its data, at its end",
                         where="--budget")  # fmt: skip
    try:
        budget_s = parse_duration_s(budget)
    except ValueError as error:
        raise UsageError(str(error), where="--budget") from error
    if budget_s <= 0:
        raise UsageError("a budget is more than 0 s", where="--budget", evidence=budget)
    return budget_s


def _exit_if_undecided(report: Report | None) -> None:
    """End with exit code 6 where volumes were compared without a verdict."""
    if report is not None and report.summary.verdict == "inconclusive":
        console.say("no verdict: exit code 6")
        raise typer.Exit(EXIT_UNDECIDED)


def _confirmed(planned: Planned) -> bool:
    """Prompt. Where two volumes share their storage, Enter alone means no."""
    if volumes_share_storage(planned.run):
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
) -> None:
    """Continue a run after an interruption; completed cells are not repeated."""
    bucket = Bucket(results_to) if results_to else None
    directory = RunDirectory.open(path)
    changed = changed_options(directory.run, target_option)
    if is_finished(directory):
        console.say(f"nothing to do: all {len(directory.results())} cells are done")
        with copied(directory, bucket):
            report = _leave_report(directory, json=json)
        _exit_if_undecided(report)
        return
    console.say(f"resuming {directory.path}")
    dataset = directory.run.suite.dataset
    if dataset.url and not Path(dataset.path).exists():
        download_dataset(dataset, console.say)
    with copied(directory, bucket):
        attached = attach_of(directory.run, option_file)
        report = execute(directory, attached=attached, json=json, bucket=bucket, target_options=changed)
    _exit_if_undecided(report)


@contextmanager
def copied(directory: RunDirectory, bucket: Bucket | None) -> Iterator[None]:
    """Copy the run's directory when the block ends, also when a cell failed.

    The plan is copied first, so that a bucket that refuses writes fails before anything is measured.
    """
    if bucket is None:
        yield
        return
    bucket.copy(directory.path)
    try:
        yield
    except VolbenchError:
        try:
            _copy(directory, bucket)
        except VolbenchError as error:
            console.say(str(error))  # the command ends with the run's own failure
        raise
    _copy(directory, bucket)


def _copying(
    watch: Callable[[CellState], None], directory: RunDirectory, bucket: Bucket | None
) -> Callable[[CellState], None]:
    """Return a watcher that also copies the run's directory when a cell has ended and the next one begins.

    A bucket that refuses then is only reported: the measurement goes on, and the copy at the end fails with it.
    """
    if bucket is None:
        return watch
    lock = Lock()
    current = ""

    def watch_and_copy(state: CellState) -> None:
        nonlocal current
        watch(state)
        if state.cell_id == current or not lock.acquire(blocking=False):
            return
        try:
            if current:
                bucket.copy(directory.path)
        except VolbenchError as error:
            console.say(f"not copied after cell {current}: {error.what}: {error.evidence}")
        finally:
            current = state.cell_id
            lock.release()

    return watch_and_copy


def _copy(directory: RunDirectory, bucket: Bucket) -> None:
    copy = bucket.copy(directory.path)
    amounts = f"{copy.files} files, {size(copy.size_bytes)}, each read back and compared"
    console.say(f"copied to {copy.destination}: {amounts}; {copy.unchanged} already existed")


def create(planned: Planned, out: Path) -> RunDirectory:
    """Download what the run needs, and return its new directory."""
    download_dataset(planned.run.suite.dataset, console.say)
    out.mkdir(parents=True, exist_ok=True)
    return RunDirectory.create(out.resolve(), planned.run)


def execute(
    directory: RunDirectory,
    *,
    attached: Mapping[str, AttachSpec],
    json: bool = False,
    quiet: bool = False,
    bucket: Bucket | None = None,
    target_options: Mapping[str, Scalar] | None = None,
    budget_s: float | None = None,
) -> Report | None:
    """Run the remaining cells, write the reports and return the report. Raises the failure of a cell.

    Args:
        quiet: print nothing.
        bucket: gets a copy after each cell.
        target_options: instead of those of run.json.
        budget_s: seconds, of a run that begins and goes on until it is decided.
    """
    run_record = directory.run
    if target_options is not None:
        run_record = run_record.model_copy(update={"target_options": dict(target_options)})
    outcome: Outcome | None = None
    failure: VolbenchError | None = None
    try:
        target, volumes = make_target(run_record, directory.results())
        with progress_watcher(directory, json=json) as watch:
            orchestrator = Orchestrator(
                directory, target, volumes, attached=attached, on_state=_copying(watch, directory, bucket),
                invalid_cells=cells_to_replace, decided=why_decided,
                on_message=ignore_messages if quiet or json else console.say, budget_s=budget_s,
            )  # fmt: skip
            outcome = orchestrator.run()
    except VolbenchError as error:
        failure = error
    except KeyboardInterrupt:
        _leave_report(directory, json=json, quiet=quiet)
        console.say(f"interrupted; continue with: {command_line(['volbench', 'resume', str(directory.path)])}")
        raise
    report = _leave_report(directory, json=json, quiet=quiet)
    if failure is not None:
        console.say(f"fix the problem, then continue with: volbench resume {directory.path}")
        raise failure
    if outcome is not None and outcome.failures:
        console.say(f"retry the failed cells with: {command_line(['volbench', 'resume', str(directory.path)])}")
        raise outcome.failures[0]
    return report


def _leave_report(directory: RunDirectory, *, json: bool, quiet: bool = False) -> Report | None:
    """Write the reports of the cells that have results, print their paths, and return the report."""
    if not directory.results():
        return None
    report, files = write_reports(directory)
    if quiet:
        return report
    if json:
        console.show_json(report.model_dump(mode="json", by_alias=True))
        return report
    for line in summary_lines(report):
        console.out.print(line, markup=False)
    for file in files:
        console.out.print(f"report: {file}", markup=False)
    return report
