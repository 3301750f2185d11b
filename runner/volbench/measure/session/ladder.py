"""Climbs a plan's ladders of client threads, in a run of its own, and gives the plan the threads that it found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from volbench.core.base.text import ignore_messages
from volbench.core.plan.cost import estimate
from volbench.core.plan.ladder import (
    ladder_of,
    ladder_steps,
    ladder_suite,
    level_name,
    levels_of,
    with_ladders,
)
from volbench.core.plan.new_run import plan_run
from volbench.core.records.ladder import LadderLevel
from volbench.core.records.steps.oltp import OltpStep
from volbench.errors import StepFailed
from volbench.measure.session.planner import Planned
from volbench.results.report.rows.load_limit import ladder_sentence
from volbench.results.store.journal import utc_now
from volbench.results.store.run_directory import RunDirectory, new_run_id

ONE_AT_A_TIME = ("nodes", "parallel")
"""Options of a cluster for cells that are spread: a ladder has one cell of each volume."""


def with_reached_threads(
    planned: Planned, climb: Callable[[Planned], RunDirectory], say: Callable[[str], None] = ignore_messages
) -> Planned:
    """Return the plan as it can be run: a load with `threads_max` has the threads that its ladder found.

    Args:
        climb: runs all cells of a plan, and returns their directory or raises why they failed.
        say: is called with what each ladder found.
    """
    steps = ladder_steps(planned.run.suite.steps)
    if not steps:
        return planned
    directory = climb(_ladder_plan(planned))
    ladders = tuple(ladder_of(step, _levels(step, directory), directory.run.run_id) for step in steps)
    for ladder in ladders:
        say(ladder_sentence(ladder))
    suite = with_ladders(planned.run.suite, ladders)
    run = planned.run.model_copy(
        update={
            "run_id": new_run_id(suite.name),
            "started_at": utc_now(),
            "suite": suite,
            "ladders": ladders,
        }
    )
    return replace(planned, run=run)


def _ladder_plan(planned: Planned) -> Planned:
    run, suite = planned.run, ladder_suite(planned.run.suite)
    options = {name: value for name, value in run.target_options.items() if name not in ONE_AT_A_TIME}
    ladder_run = plan_run(
        run_id=new_run_id(suite.name),
        started_at=utc_now(),
        suite=suite,
        suite_source=run.suite_source,
        volumes=run.volumes,
        target=run.target,
        target_options=options,
        command=run.command,
        host=run.host,
    )
    return replace(planned, run=ladder_run, cost=estimate(suite, volumes=len(run.volumes)))


def _levels(step: OltpStep, directory: RunDirectory) -> list[LadderLevel]:
    """Return what each volume did at each level. Raise StepFailed where a volume has no figure."""
    run = directory.run
    volume_of = {cell.cell_id: cell.volume for cell in run.cells}
    threads_of = {level_name(step, threads): threads for threads in levels_of(step)}
    levels = [
        LadderLevel(volume=volume_of[result.cell_id], threads=threads_of[row.step], tps=row.metrics["tps"].value)
        for result in directory.results()
        for row in result.steps
        if row.step in threads_of and "tps" in row.metrics
    ]
    missing = {spec.name for spec in run.volumes} - {level.volume for level in levels}
    if missing:
        raise StepFailed(
            f"the ladder has no figure of volume {min(missing)}",
            where=f"step {step.name}",
            evidence=f"run {run.run_id}",
            next_step="see the run's journal, or set `threads` and leave `threads_max` out",
        )
    return levels
