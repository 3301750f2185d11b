"""`volbench suite`: check suite files, print their JSON Schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from volbench.cli import console, options
from volbench.suite.load import load_suite
from volbench.suite.schema import suite_schema

app = typer.Typer(help="Check suite files, print their schema.", no_args_is_help=True)


@app.command("check")
def check(
    suites: Annotated[list[Path], typer.Argument(help="Suite files.")],
    settings: options.Settings = [],  # noqa: B006 - typer copies it
) -> None:
    """Check suite files without running anything; every fault is shown with its line."""
    for path in suites:
        suite, _ = load_suite(path, settings=settings)
        console.out.print(f"{path}: suite {suite.name} is well formed", markup=False)


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of suite files, for editors."""
    console.show_json(suite_schema())
