"""`volbench validate`: compares a candidate server with its source before a move."""

from __future__ import annotations

import resource
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from volbench.cli import console, options
from volbench.core.suite.validation import load_validation_plan
from volbench.errors import Refused, StepFailed
from volbench.results.gate.gate import EXIT_CODES
from volbench.results.report.build import build_report
from volbench.results.report.formats.validation import (
    validation_html,
    validation_junit,
    validation_markdown,
    validation_text,
)
from volbench.results.store.files import write_atomically
from volbench.results.store.run_directory import RunDirectory
from volbench.validation.capture.mask import redact_error
from volbench.validation.dry_run import planned_statements
from volbench.validation.forecast.move import RunCells
from volbench.validation.run import Runs
from volbench.validation.run import validate as run_validation


def validate(
    plan: Annotated[Path, typer.Argument(help="The plan: suites/validation/README.md.")],
    out: Annotated[
        Path,
        typer.Option("--out", help="Directory for validation.json, .md, .html, .junit.xml; never overwritten."),
    ] = Path("results/validation"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the statements that the source would receive; do not connect.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Compare a candidate server with its source: exit code 0 is go, 1 no-go, 6 undecided."""
    loaded = load_validation_plan(plan)
    if dry_run:
        for statement in planned_statements(loaded.plan):
            console.out.print(statement, markup=False)
        return
    files = [out / f"validation.{kind}" for kind in ("json", "md", "html", "junit.xml")]
    if loaded.plan.at_rest != "plain":
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would have all values that were read
    existing_files = [str(file) for file in files if file.exists()]
    if existing_files:
        raise Refused(
            "the directory already has a validation",
            where="--out",
            evidence=existing_files[0],
            next_step="choose another directory",
        )
    runs = _runs(RunDirectory.open(Path(run)) for run in loaded.plan.runs)
    with Progress(console=console.err, transient=True) as bar:
        task = bar.add_task("reading both servers", total=1.0)
        try:
            outcome = run_validation(
                loaded, runs, lambda activity, share: bar.update(task, description=activity[:60], completed=share)
            )
        except StepFailed as error:
            if loaded.plan.at_rest != "plain":  # a server's message may quote a row, and pipelines store it
                error.evidence = redact_error(error.evidence)
            raise
    out.mkdir(parents=True, exist_ok=True)
    record = outcome.model_dump_json(indent=1, by_alias=True) + "\n"
    written = (record, validation_markdown(outcome), validation_html(outcome), validation_junit(outcome))
    for file, content in zip(files, written, strict=True):
        write_atomically(file, content, mode=0o600)
    if json:
        console.show_json(outcome.model_dump(mode="json", by_alias=True))
    else:
        console.out.print(validation_text(outcome), markup=False, end="")
        console.out.print(f"report: {files[2]}", markup=False)
    raise typer.Exit(EXIT_CODES[outcome.decision])


def _runs(directories: Iterable[RunDirectory]) -> Runs:
    """Return the measurements of the runs, each read once. Raises RunUnreadable."""
    reports, run_cells = [], []
    for directory in directories:
        report = build_report(directory)
        reports.append(report)
        run_cells.append(
            RunCells(
                run_id=report.run_id,
                results=tuple(directory.results()),
                volume_of={cell.cell_id: cell.volume for cell in directory.run.cells},
                emulated=[volume.name for volume in report.volumes if volume.emulated],
            )
        )
    return Runs(reports=tuple(reports), cells=tuple(run_cells))
