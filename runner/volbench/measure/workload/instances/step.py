"""The instances step: one server alone, then several at once, on one volume."""

from __future__ import annotations

from collections.abc import Sequence

from volbench.core.plan.step_needs import needs_one_volume
from volbench.core.records.metric import LATENCY_NAMES
from volbench.core.records.metrics import metric
from volbench.core.records.steps.instances import ALONE, KIND, InstancesStep
from volbench.machine.engine.server import Server
from volbench.machine.volume.space import require_space
from volbench.measure.workload.files import tree_bytes
from volbench.measure.workload.further_server import own_server
from volbench.measure.workload.instances.loads import details_of, load_of, loaded, notes_of, run_loads
from volbench.measure.workload.instances.servers import require_memory, running_instances
from volbench.measure.workload.instances.sharing import Loaded, sharing_metrics
from volbench.measure.workload.interface import StepContext, StepOutcome, SubResult, Workload
from volbench.measure.workload.oltp.oltp import Oltp
from volbench.measure.workload.process import usable_cpus
from volbench.measure.workload.state import LAST_WRITE

SPARE_BYTES = 256 << 20
"""Undo, binary log and temporary files of a further server."""


class Instances(Workload[InstancesStep]):
    """Starts further servers on copies of the data, and loads one, then several."""

    kind = "instances"

    def check(self, step: InstancesStep, ctx: StepContext) -> None:
        """Check place, memory, space and loads. Raise MissingPrerequisite, UsageError."""
        where = f"step {step.name}"
        first = own_server(ctx.server, purpose=KIND.own_server, where=where)
        if ctx.layout:
            names = ", ".join(component.name for component in ctx.layout)
            raise needs_one_volume(step, evidence=f"the layout puts {names} elsewhere")
        further = step.counts[-1] - 1
        require_memory(first, further, where=where)
        needed_bytes = further * (tree_bytes(first.data_dir) + SPARE_BYTES)
        require_space(ctx.volume_dir, needed_bytes, purpose=f"the data of {further} further servers ({where})")
        for number in (1, 2):
            Oltp().check(load_of(step, number), ctx)

    def run(self, step: InstancesStep, ctx: StepContext) -> StepOutcome:
        """Run every row. Raises StepFailed, naming the server whose load failed."""
        first = own_server(ctx.server, purpose=KIND.own_server, where=f"step {step.name}")
        with running_instances(first, ctx, step.counts[-1], step_name=step.name) as servers:
            numbered = list(enumerate(servers, start=1))
            alone = [_row(step, ctx, numbered[:1], [])]
            if step.neighbour_threads is not None:
                alone.append(_row(step, ctx, numbered[1:2], []))
            own = [_loaded_alone(row) for row in alone]
            together = [_row(step, ctx, numbered[:count], own) for count in step.counts]
        ctx.state[LAST_WRITE] = ctx.clock.now_s()
        rows = (*alone, *together)
        windows = [row.outcome.window_s for row in rows]
        return StepOutcome(
            window_s=(windows[0][0], windows[-1][1]),
            warmup_s=step.warmup_s,
            metrics={},
            spans_s=tuple(windows),
            sub_results=rows,
        )


def _loaded_alone(row: SubResult) -> Loaded:
    values = {name: value.value for name, value in row.outcome.metrics.items()}
    return Loaded(
        tps=values["tps_of_all"],
        latency_ms_mean=values.get("latency_ms_mean"),
        latency_ms_p95=values.get("latency_ms_p95"),
    )


def _row(
    step: InstancesStep, ctx: StepContext, servers: Sequence[tuple[int, Server]], alone: Sequence[Loaded]
) -> SubResult:
    """Return the row of these servers under load.

    Args:
        alone: what loads do alone; empty: this is such a row.
    """
    numbers = [number for number, _ in servers]
    suffix = str(len(servers)) if alone else ALONE if numbers == [1] else f"{ALONE}-{numbers[0]}"
    ctx.progress(f"{len(servers)} of {step.counts[-1]} servers under load", None)
    loads = run_loads(step, ctx, servers, row=f"{step.name}/{suffix}")
    outcomes = list(zip(numbers, loads, strict=True))
    if alone:
        values = sharing_metrics(alone, [loaded(outcome) for outcome in loads])
        metrics = {name: metric(name, value) for name, value in values.items()}
    else:
        metrics = {name: value for name, value in loads[0].metrics.items() if name in LATENCY_NAMES}
        metrics["tps_of_all"] = metric("tps_of_all", loads[0].metrics["tps"].value)
    metrics["errors_per_s"] = metric("errors_per_s", sum(load.metrics["errors_per_s"].value for load in loads))
    parameters = step.row_parameters(len(servers))
    if numbers[0] > 1 and step.neighbour_threads is not None:
        parameters["threads"] = step.neighbour_threads
    return SubResult(
        suffix=suffix,
        kind=step.kind,
        parameters=parameters,
        outcome=StepOutcome(
            window_s=(min(load.window_s[0] for load in loads), max(load.window_s[1] for load in loads)),
            metrics=metrics,
            notes=notes_of(outcomes),
            details=details_of(outcomes, cpus=usable_cpus()),
            invalid_reasons=tuple(dict.fromkeys(reason for load in loads for reason in load.invalid_reasons)),
        ),
    )
