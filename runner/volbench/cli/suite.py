"""`volbench suite`: check suite files, print their JSON Schema and their documentation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from volbench.cli import console, options
from volbench.cli.tables import show_rows
from volbench.core.plan.volume_check import suite_volume_faults
from volbench.core.suite.bundled import bundled_suites
from volbench.core.suite.docs import suite_docs
from volbench.core.suite.load import load_suite
from volbench.core.suite.schema import suite_schema

app = typer.Typer(help="Check suite files, print their schema and documentation.", no_args_is_help=True)


@app.command("check")
def check(
    suites: Annotated[list[Path], typer.Argument(help="Suite files.")],
    settings: options.Settings = [],
    json: options.Json = False,
) -> None:
    """Check suite files without running anything; every fault is shown with its line."""
    rows = []
    for path in suites:
        suite, _ = load_suite(path, settings=settings, more_faults=suite_volume_faults)
        rows.append({"path": str(path), "name": suite.name, "steps": len(suite.resolved().steps)})
        if not json:
            console.out.print(f"{path}: suite {suite.name} is well formed", markup=False)
    if json:
        console.show_json(rows)


@app.command("list")
def list_suites(output: options.Output = options.OutputFormat.TABLE, json: options.Json = False) -> None:
    """List the suites that come with volbench."""
    suites = [(path, load_suite(path)[0]) for path in bundled_suites()]
    show_rows(
        ("suite", "description"),
        [(str(path), " ".join(suite.description.split())) for path, suite in suites],
        options.OutputFormat.JSON if json else output,
        data=[{"path": str(path), "name": suite.name, "description": suite.description} for path, suite in suites],
    )


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of suite files, for editors."""
    console.show_json(suite_schema())


@app.command("docs")
def docs() -> None:
    """Print the documentation of every key of suite files, as Markdown."""
    sys.stdout.write(suite_docs())
