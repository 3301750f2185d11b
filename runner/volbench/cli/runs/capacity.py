"""`volbench capacity`: the highest rate that keeps an objective, by a search over ordinary runs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from volbench.analysis.capacity import capacities, ladder
from volbench.cli import console, options
from volbench.cli.runs.plan import make_plan, show_plan
from volbench.cli.runs.run import create, execute
from volbench.errors import Undecided, UsageError
from volbench.records.goals.capacity import CapacityRow, Objective, Percentile
from volbench.report.build import build_report
from volbench.report.formats.capacity import capacity_text
from volbench.suite.capacity import capacity_suite
from volbench.suite.load import read_file

RUNGS = 6
FACTOR = 2.0
SEARCHES_MAX = 4
"""Ladders of factor 2^5 each, up or down, before a search ends without a result."""

MeasureLadder = Callable[[tuple[int, ...], int], list[CapacityRow]]


def capacity(
    suite: options.SuitePath,
    limit: Annotated[str, typer.Option("--limit", help="The highest acceptable latency at the percentile: 20ms.")],
    percentile: Annotated[Percentile, typer.Option("--percentile", help="p50, p95, p99, p999 or max.")] = "p95",
    errors: Annotated[str, typer.Option("--errors", help="The highest acceptable share of errors.")] = "0.1%",
    start: Annotated[int, typer.Option("--from", min=1, help="Transactions a second to start with.")] = 50,
    step: Annotated[
        str, typer.Option("--step", help="The load: an oltp step of the suite (default: the first).")
    ] = "",
    repeats: Annotated[int, typer.Option("--repeats", min=1, max=100, help="Cells of the last, fine ladder.")] = 6,
    volume: options.Volumes = [],  # noqa: B006 - typer copies it
    target: options.TargetOption = "auto",
    settings: options.Settings = [],  # noqa: B006
    out: options.Results = Path("results"),
    json: options.Json = False,
) -> None:
    """Find the highest rate (open loop) that keeps an objective on one volume, with an interval."""
    objective = Objective.model_validate({"limit": limit, "percentile": percentile, "errors_max": errors})
    text = read_file(suite)
    runs: list[Path] = []

    def measured(rates: tuple[int, ...], cells: int) -> list[CapacityRow]:
        ladder_text = capacity_suite(
            text, name=str(suite), step=step, rates=rates, repeats=cells, settings=settings
        )
        with tempfile.TemporaryDirectory(prefix="volbench-capacity-") as scratch:
            path = Path(scratch) / "capacity.yaml"
            path.write_text(ladder_text)
            planned = make_plan(path, volume, target=target, settings=[])
        if len(planned.run.volumes) != 1:
            raise UsageError(
                "capacity takes exactly one --volume",
                where="--volume",
                evidence=f"{len(planned.run.volumes)} are given",
            )
        if not runs and not json:
            show_plan(planned)
        directory = create(planned, out)
        runs.append(directory.path)
        console.say(f"rates {', '.join(map(str, rates))}: {directory.path}")
        execute(directory, attached=planned.attached, quiet=True)
        return list(capacities([build_report(directory)], objective))

    rows = search(measured, start, repeats)
    if json:
        console.show_json([row.model_dump(mode="json") for row in rows])
        return
    for row in rows:
        console.out.print(capacity_text(row, objective), markup=False, end="")
    console.out.print(f"runs: {' '.join(map(str, runs))}", markup=False)


def search(measure_ladder: MeasureLadder, start: int, repeats: int) -> list[CapacityRow]:
    """Return the rows of a fine ladder of rates with repeats around the capacity.

    Ladders of factor two with one cell, up or down, bracket the capacity first.

    Args:
        measure_ladder: measures rates with a number of cells.
        start: lowest rate of the first ladder, transactions a second.
        repeats: cells of the fine ladder.

    Raises Undecided when no ladder brackets the capacity.
    """
    low = float(start)
    for _ in range(SEARCHES_MAX):
        row = measure_ladder(ladder(low, low * FACTOR ** (RUNGS - 1), RUNGS), 1)[0]
        kept_per_s, broken_per_s = row.sustained_per_s, row.high_per_s
        if kept_per_s is not None and broken_per_s is not None:
            # A little beyond both, since cells differ and each has to keep one rate and to break another.
            return measure_ladder(ladder(max(1.0, kept_per_s / 1.15), broken_per_s * 1.15, RUNGS), repeats)
        if broken_per_s is None and kept_per_s is None:
            raise Undecided(
                "no rate of the ladder could be judged", where="capacity", evidence=f"run {row.run_id}",
                next_step="see the run's report for why its cells are invalid",
            )  # fmt: skip
        if kept_per_s is not None:
            low = kept_per_s
        elif low > 1:
            low = max(1.0, low / FACTOR ** (RUNGS - 1))
        else:
            break
    raise Undecided(
        "no ladder of rates brackets the objective",
        where="capacity",
        evidence=f"the last ladder began at {low:g}/s",
        next_step="start nearer to the capacity with --from, or choose another --limit",
    )
