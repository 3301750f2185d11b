"""`volbench query`: SQL over results/."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from volbench.cli import console, options
from volbench.cli.tables import FORMATS, TableFormat, table_text
from volbench.core.base.text import counted
from volbench.results.store.query import query as run_query
from volbench.results.store.run_directory import has_runs


def query(
    sql: Annotated[
        str,
        typer.Argument(
            help="SQL over runs, cells, metrics (valid steps only), all_metrics, comparisons, time_budgets, "
            "time_differences, series, histograms."
        ),
    ],
    results: options.Results = Path("results"),
    format: Annotated[
        TableFormat,
        typer.Option("--format", help="table (vertical where the terminal is too narrow), vertical, csv or md."),
    ] = "table",
    output: options.Output = options.OutputFormat.TABLE,
    json: options.Json = False,
) -> None:
    """Run SQL (DuckDB) over all runs below results/; read-only."""
    outcome = run_query(results, sql)
    for warning in outcome.warnings:
        console.say(f"skipped: {warning}")
    if outcome.warnings:
        console.say(f"unreadable: {counted(len(outcome.warnings), 'part')} of runs; the answer is of the others")
    if not has_runs(results):
        console.say(f"note: there is no run below {results}; --out names another directory of results")
    elif not outcome.rows and re.search(r"\bmetrics\b", sql):
        console.say(
            "note: no row; `metrics` has valid steps only, `all_metrics` also the invalid ones with reasons"
        )
    if json or output == options.OutputFormat.JSON:
        console.show_json([dict(zip(outcome.columns, row, strict=True)) for row in outcome.rows])
        return
    if output != options.OutputFormat.TABLE:
        format = FORMATS[output]
    width = console.out.width if console.out.is_terminal else None
    console.show_text(table_text(outcome.columns, outcome.rows, format, width=width))
