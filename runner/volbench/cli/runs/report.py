"""`volbench report` and `volbench compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from volbench.cli import console, options
from volbench.cli.tables import show_rows
from volbench.core.base.text import counted
from volbench.errors import UsageError
from volbench.results.explain.accounts.what_if import other_volume
from volbench.results.report.build import build_report
from volbench.results.report.cross_run import compare_runs
from volbench.results.report.formats.terminal import COMPARISON_COLUMNS, comparison_cells
from volbench.results.report.render import render, write_reports
from volbench.results.report.rows.verdict.comparisons import comparison_rows
from volbench.results.report.run_blocks import compare_run_blocks
from volbench.results.store.run_directory import RunDirectory

Format = Literal["html", "md", "json", "junit", "csv"]


def report(
    path: options.RunPath,
    format: Annotated[
        Format | None, typer.Option("--format", help="Print this format on stdout instead of writing the files.")
    ] = None,
    what_if: options.WhatIf = [],
    json: options.Json = False,
) -> None:
    """Rebuild the reports of a run from its directory, or print one format."""
    format = "json" if json else format
    other_volumes = [other_volume(spec) for spec in what_if]
    directory = RunDirectory.open(path)
    if format is None:
        _, files = write_reports(directory, what_if=other_volumes)
        for file in files:
            console.out.print(f"report: {file}", markup=False)
        return
    console.show_text(render(build_report(directory, what_if=other_volumes), directory, format))


def compare(
    paths: options.RunPaths,
    by: Annotated[str, typer.Option("--by", help="volume, run, or a fact such as engine.version.")] = "volume",
    against: Annotated[
        str,
        typer.Option(
            "--against",
            metavar="GROUP",
            help="The baseline: a volume, RUN/VOLUME with --by run, or a value of the fact. Default: by run each "
            "volume of the first run for itself, else the first group.",
        ),
    ] = "",
    metric: Annotated[list[str], typer.Option("--metric", help="Only these metrics.")] = [],
    blocks: Annotated[
        bool,
        typer.Option(
            "--blocks",
            help="One verdict of three runs or more on several days, hosts or copies of the volumes: each is one "
            "repeat.",
        ),
    ] = False,
    output: options.Output = options.OutputFormat.TABLE,
    json: options.Json = False,
) -> None:
    """Compare volumes within a run or across runs; refuse runs that are not comparable."""
    if blocks:
        _compare_blocks(paths, by=by, against=against, metrics=metric, output=output, json=json)
        return
    comparison = compare_runs([RunDirectory.open(path) for path in paths], by=by, metrics=metric, against=against)
    rows = comparison_rows(comparison.comparisons)
    listed = [row for row in rows if row.primary or metric]
    data = {
        "groups": comparison.groups,
        "comparisons": [row.model_dump(mode="json") for row in rows],
        "noted": comparison.context,
    }
    output = options.OutputFormat.JSON if json else output
    show_rows(COMPARISON_COLUMNS, [comparison_cells(row) for row in listed], output, data=data)
    if output == options.OutputFormat.JSON:
        return
    if not listed:
        console.say("no primary metric is compared: --metric names others")
    _say_context(comparison.context)


def _compare_blocks(
    paths: Sequence[Path],
    *,
    by: str,
    against: str,
    metrics: Sequence[str],
    output: options.OutputFormat,
    json: bool,
) -> None:
    """Print one verdict of several runs, and what it is about."""
    if by != "volume":
        raise UsageError(
            "--blocks compares volumes over runs", where="--by", evidence=f"--by {by}", next_step="leave --by out"
        )
    verdicts = compare_run_blocks([RunDirectory.open(path) for path in paths], metrics=metrics, against=against)
    rows = comparison_rows(verdicts.comparisons)
    data = {
        "groups": verdicts.groups,
        "pairs": [asdict(pair) for pair in verdicts.pairs],
        "comparisons": [row.model_dump(mode="json") for row in rows],
        "noted": verdicts.context,
    }
    output = options.OutputFormat.JSON if json else output
    columns = tuple("repeats" if name == "cells" else name for name in COMPARISON_COLUMNS)
    listed = [comparison_cells(row) for row in rows if row.primary or metrics]
    show_rows(columns, listed, output, data=data)
    if output == options.OutputFormat.JSON:
        return
    if not rows:
        console.say("no verdict: no run has a block with a valid cell of both volumes")
    for pair in verdicts.pairs:
        scope = f"about {'their classes' if pair.about == 'classes' else 'these volumes'}"
        copies = f"{pair.copies[0]} and {counted(pair.copies[1], 'copy', 'copies')}"
        repeats = counted(len(pair.repeats), "repeat")
        console.say(f"{pair.candidate} against {pair.baseline}: {scope}, {repeats}, {copies}")
        for note in pair.notes:
            console.say(f"note: {note}")
    _say_context(verdicts.context)


def _say_context(context: Mapping[str, Mapping[str, str]]) -> None:
    for name, values in context.items():
        values_text = ", ".join(f"{run}: {value}" for run, value in values.items())
        console.say(f"note: {name} differs: {values_text}")
