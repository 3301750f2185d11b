"""`volbench query`: SQL over results/."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from volbench.cli import console, options
from volbench.store.query import query as run_query


def query(
    sql: Annotated[
        str,
        typer.Argument(
            help="SQL over runs, cells, metrics (valid steps only), all_metrics, comparisons, series, histograms."
        ),
    ],
    results: options.Results = Path("results"),
    json: options.Json = False,
) -> None:
    """Run SQL (DuckDB) over all runs below results/; read-only."""
    outcome = run_query(results, sql)
    for warning in outcome.warnings:
        console.say(f"skipped: {warning}")
    if json:
        console.show_json([dict(zip(outcome.columns, row, strict=True)) for row in outcome.rows])
        return
    table = Table(*outcome.columns, box=None)
    for row in outcome.rows:
        table.add_row(*("" if value is None else str(value) for value in row))
    console.out.print(table)
