"""`volbench report` and `volbench compare`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from volbench.cli import console, options
from volbench.report.build import build_report
from volbench.report.render import render, write_reports
from volbench.store.run_directory import RunDirectory

Format = Literal["html", "md", "json", "junit", "csv"]


def report(
    path: options.RunPath,
    format: Annotated[  # noqa: A002 - it is the option's name
        Format | None, typer.Option("--format", help="Print this format on stdout instead of writing the files.")
    ] = None,
) -> None:
    """Rebuild a run's reports from its directory, or print one of them."""
    directory = RunDirectory.open(path)
    if format is None:
        _, files = write_reports(directory)
        for file in files:
            console.out.print(f"report: {file}", markup=False)
        return
    sys.stdout.write(render(build_report(directory), directory, format))


def compare(
    paths: Annotated[list[Path], typer.Argument(help="Runs' directories.")],
    by: Annotated[str, typer.Option("--by", help="volume, or a fact such as engine.version.")] = "volume",
    metric: Annotated[list[str], typer.Option("--metric", help="Only these metrics.")] = [],  # noqa: B006
    json: options.Json = False,
) -> None:
    """Compare volumes within a run or across runs; what must not be compared is refused."""
    raise NotImplementedError
