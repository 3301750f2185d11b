"""The cases of a run: each step of a cell that can be explained, with its series and facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import mean

import numpy as np

from volbench.core.records.cell import CellResult, StepResult
from volbench.core.records.layout import Role
from volbench.core.records.metric import LATENCY_NAMES
from volbench.core.records.steps import step_kind
from volbench.results.explain.case import Case
from volbench.results.explain.case_input import ConcurrentActivity
from volbench.results.explain.components import profile_below
from volbench.results.explain.evidence.disks_below import disks_below, disks_of_stack
from volbench.results.explain.sampled_contrasts import contrasts_of_cell, contrasts_of_step
from volbench.results.stats.grid import Grid, align
from volbench.results.store.loaded_run import LoadedRun

_IN_PARTS = ("phases", "points")


def cases_of(loaded: LoadedRun, result: CellResult) -> Iterator[Case]:
    """Each step of a cell that can be explained; what ran beside a load (`load/...`) is told with it.

    Raises RunUnreadable for a damaged table.
    """
    if not loaded.has_series(result.cell_id):
        return
    alone = [step for step in result.steps if step_kind(step.kind).explained == "whole" and "/" not in step.step]
    groups = _grouped(result.steps)
    if not alone and not groups:
        return
    profile = _profile_of(loaded, result)
    cell_grid = align(loaded.series(result.cell_id), on_demand=True)
    contrasts = contrasts_of_cell(loaded, result, cell_grid)
    cases = (
        *(_case(result, step, cell_grid) for step in alone),
        *(_case_of_several(result, name, steps, cell_grid) for name, steps in groups.items()),
    )
    for case in cases:
        yield replace(case, profile=profile, size_contrasts=contrasts_of_step(contrasts, case.name))


def _profile_of(loaded: LoadedRun, result: CellResult) -> str:
    """Return the name of the profile whose limits the cell's volume has; empty where none is known."""
    if result.volume_facts.emulated_profile is not None:
        return profile_below(result.volume_facts)
    run = loaded.run
    names = (cell.volume for cell in run.cells if cell.cell_id == result.cell_id)
    return str(run.target_options.get(f"{next(names, '')}.profile", "")).partition("?")[0]


def _grouped(steps: Iterable[StepResult]) -> dict[str, list[StepResult]]:
    """Parts of steps that are explained together, by the name that their findings have."""
    groups: dict[str, list[StepResult]] = {}
    for step in steps:
        name, _, phase = step.step.partition("/")
        explained = step_kind(step.kind).explained
        if phase and explained in _IN_PARTS:
            groups.setdefault(name if explained == "phases" else step.step, []).append(step)
    return groups


def _case_of_several(result: CellResult, name: str, steps: Sequence[StepResult], cell_grid: Grid) -> Case:
    middle = cell_grid.t_s - cell_grid.width_s / 2
    inside = np.zeros(len(cell_grid), dtype=np.bool_)
    for step in steps:
        inside |= (middle > step.window_s[0]) & (middle <= step.window_s[1])
    streams = [count for step in steps if (count := step_kind(step.kind).streams(step.parameters)) is not None]
    return Case(
        name=name,
        grid=cell_grid.where(inside),
        cell_grid=cell_grid,
        kind=steps[0].kind,
        disk=result.volume_facts.disk,
        below=disks_below(result.volume_facts),
        disks=disks_of_stack(result.volume_facts),
        read_ahead_kib=result.volume_facts.read_ahead_kib,
        mount_options=tuple(result.volume_facts.mount_options),
        journal=result.volume_facts.journal_devices,
        threads=round(mean(streams)) if streams else None,  # points are equally long
        cpus=result.host.cpus,
        instance=result.host.cloud_instance_type or "",
        variables=result.server.variables if result.server is not None else {},
        elsewhere=_elsewhere(result),
        changes_load=len(set(streams)) > 1 or step_kind(steps[0].kind).explained == "phases",
    )


def _case(result: CellResult, step: StepResult, cell_grid: Grid) -> Case:
    rate = step.parameters.get("rate")
    ratio, usable = (step.details.get(name) for name in ("client_cpu_ratio", "client_cpus_usable"))
    return Case(
        name=step.step,
        grid=cell_grid.within(*step.window_s),
        cell_grid=cell_grid,
        kind=step.kind,
        disk=result.volume_facts.disk,
        below=disks_below(result.volume_facts),
        disks=disks_of_stack(result.volume_facts),
        read_ahead_kib=result.volume_facts.read_ahead_kib,
        mount_options=tuple(result.volume_facts.mount_options),
        journal=result.volume_facts.journal_devices,
        threads=step_kind(step.kind).streams(step.parameters),
        rate=float(rate) if isinstance(rate, int | float) else None,
        cpus=result.host.cpus,
        instance=result.host.cloud_instance_type or "",
        variables=result.server.variables if result.server is not None else {},
        elsewhere=_elsewhere(result),
        latency_ms={name: metric.value for name, metric in step.metrics.items() if name in LATENCY_NAMES},
        client_cpu_ratio=float(ratio) if isinstance(ratio, int | float) else None,
        client_cpus=(
            float(ratio * usable) if isinstance(ratio, int | float) and isinstance(usable, int | float) else None
        ),
        concurrent=tuple(
            ConcurrentActivity(
                name=str(second_step.parameters.get("tool", second_step.kind)),
                t0_s=second_step.window_s[0],
                t1_s=second_step.window_s[1],
            )
            for second_step in result.steps
            if second_step.step.startswith(f"{step.step}/")
            and second_step.kind != step.kind  # the load's own phases
        ),
    )


def _elsewhere(result: CellResult) -> tuple[Role, ...]:
    """Return the roles whose files are on other volumes than the data."""
    return tuple(role for component in result.layout for role in component.roles)
