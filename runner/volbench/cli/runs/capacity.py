"""`volbench capacity`: the highest rate that keeps an objective, by a search over ordinary runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from volbench.cli import console, options
from volbench.cli.runs.plan import show_plan
from volbench.cli.runs.watch import progress_watcher
from volbench.core.base.text import counted
from volbench.core.records.goals.capacity import CapacityRow, Objective, Percentile
from volbench.core.suite.bundled import bundled_path
from volbench.core.suite.capacity import capacity_suite
from volbench.core.suite.load import check_suite, read_file
from volbench.core.suite.own_files import with_absolute_paths
from volbench.errors import UsageError
from volbench.measure.session.capacity_search import search
from volbench.measure.session.planner import SuiteSource, plan_suite
from volbench.measure.session.runner import Invocation, create, execute
from volbench.measure.session.servers import TargetRequest
from volbench.results.compare.capacity import capacities
from volbench.results.report.build import build_report
from volbench.results.report.formats.capacity import capacity_text


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
    volume: options.Volumes = [],
    target: options.TargetOption = "auto",
    settings: options.Settings = [],
    out: options.Results = Path("results"),
    json: options.Json = False,
) -> None:
    """Find the highest rate (open loop) that keeps an objective on one volume, with an interval."""
    objective = Objective.model_validate({"limit": limit, "percentile": percentile, "errors_max": errors})
    text = read_file(suite)
    runs: list[Path] = []
    request = TargetRequest(target=target)

    def measured(rates: tuple[int, ...], cells: int) -> list[CapacityRow]:
        ladder_text = capacity_suite(
            text, name=str(suite), step=step, rates=rates, repeats=cells, settings=settings
        )
        source = SuiteSource(
            suite=with_absolute_paths(check_suite(ladder_text, name=str(suite)), bundled_path(suite).parent),
            text=ladder_text,
            path=suite,
        )
        planned = plan_suite(source, volume, request, command=console.typed_command(), say=console.say)
        if len(planned.run.volumes) != 1:
            raise UsageError(
                "capacity takes exactly one --volume",
                where="--volume",
                evidence=f"{counted(len(planned.run.volumes), 'is given', 'are given')}",
            )
        if not runs and not json:
            show_plan(planned)
        directory = create(planned, out, console.say)
        runs.append(directory.path)
        console.say(f"rates {', '.join(map(str, rates))}: {directory.path}")
        with progress_watcher(directory, json=False) as watch:
            ended = execute(directory, Invocation(attached=planned.attached, watch=watch))
        if ended.error is not None:
            raise ended.error
        return list(capacities([build_report(directory)], objective))

    rows = search(measured, start, repeats)
    if json:
        console.show_json([row.model_dump(mode="json") for row in rows])
        return
    for row in rows:
        console.out.print(capacity_text(row, objective), markup=False, end="")
    console.out.print(f"runs: {' '.join(map(str, runs))}", markup=False)
