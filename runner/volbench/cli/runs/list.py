"""`volbench list`: the runs below a directory."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from volbench.cli import console, options
from volbench.cli.tables import show_rows
from volbench.core.base.text import counted
from volbench.core.records.report import REPORT_SCHEMA, Report
from volbench.errors import MissingPrerequisite, RunUnreadable
from volbench.results.store.files import read_record
from volbench.results.store.run_directory import RunDirectory, find_runs

REPORT_FILE = "report.json"
COLUMNS = ("run", "suite", "target", "volumes", "cells", "verdict")


@dataclass(frozen=True, kw_only=True)
class ListedRun:
    """A run in one line. `verdict` is of its report.json, None without one."""

    run: str
    suite: str
    target: str
    volumes: tuple[str, ...]
    cells_done: int
    cells_planned: int
    verdict: str | None


def list_runs(
    results: options.Results = Path("results"),
    output: options.Output = options.OutputFormat.TABLE,
    json: options.Json = False,
) -> None:
    """List the runs below results/, oldest first: suite, target, volumes, cells, verdict."""
    listed = []
    directories = find_runs(results)
    for directory in directories:
        try:
            listed.append(_listed(directory))
        except (RunUnreadable, MissingPrerequisite) as error:
            console.say(f"skipped: {error.where}: {error.what}")
    if len(listed) < len(directories):
        console.say(f"{len(directories) - len(listed)} of {counted(len(directories), 'run')} cannot be read")
    output = options.OutputFormat.JSON if json else output
    if not listed and output == options.OutputFormat.TABLE:
        console.say(f"no runs below {results}")
        return
    rows = [
        (
            run.run,
            run.suite,
            run.target,
            ", ".join(run.volumes),
            f"{run.cells_done} of {run.cells_planned}",
            (run.verdict or "no report").replace("_", " "),
        )
        for run in listed
    ]
    show_rows(COLUMNS, rows, output, data=[asdict(run) for run in listed])


def _listed(directory: RunDirectory) -> ListedRun:
    run = directory.run
    path = directory.path / REPORT_FILE
    report = read_record(path, Report, schema=REPORT_SCHEMA) if path.is_file() else None
    done = {event.cell_id for event in directory.events() if event.event == "cell_finished"}
    return ListedRun(
        run=directory.path.name,
        suite=run.suite.name,
        target=run.target,
        volumes=tuple(volume.name for volume in run.volumes),
        cells_done=len(done),
        cells_planned=len(run.cells),
        verdict=None if report is None else report.summary.verdict,
    )
