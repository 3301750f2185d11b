"""The modify step: a volume gets other limits under a load, and its counters tell what came of that."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from volbench.core.plan.step_needs import check_size, modified_volume, not_modifiable
from volbench.core.records.metrics import metric
from volbench.core.records.steps.modify import BEFORE_S, ModifyStep
from volbench.errors import StepFailed
from volbench.machine.volume.emulated.control import ask_socket
from volbench.measure.workload.interface import StepContext, StepOutcome, Workload
from volbench.measure.workload.latency_model import slowed
from volbench.measure.workload.modify_claim import check_claim, run_claim
from volbench.measure.workload.modify_ebs import check_ebs, run_ebs
from volbench.measure.workload.served_rates import ServedRate, outcome_of, watch

GOES_BACK_S = 10.0
"""After the step's end the volume has its own limits by itself, should this process be killed."""


class Modify(Workload[ModifyStep]):
    """Asks for other limits, an emulated volume's daemon, the orchestrator or EC2, and counts."""

    kind = "modify"

    def check(self, step: ModifyStep, ctx: StepContext) -> None:
        """Check the volume and what it shall become. Raise UsageError, MissingPrerequisite."""
        if step.ebs_volume:
            check_ebs(step, ctx)
            return
        if step.claim_change is not None:
            check_claim(step, ctx)
            return
        modified_volume(step)
        if ctx.emulator_socket is None:
            evidence = f"the data directory is on {ctx.volume_dir}, which is not emulated"
            raise not_modifiable(step, evidence=evidence)
        size = ctx.volume_facts.emulated_parameters.get("size")
        if isinstance(size, int | float):
            check_size(step, size)

    def run(self, step: ModifyStep, ctx: StepContext) -> StepOutcome:
        """Change the limits, watch, and change those of an emulated volume back. Raises StepFailed."""
        if step.ebs_volume:
            return run_ebs(step, ctx)
        if step.claim_change is not None:
            return run_claim(step, ctx)
        if ctx.emulator_socket is None:
            raise StepFailed("the volume is not emulated", where=str(ctx.volume_dir))
        socket = ctx.emulator_socket
        own = dict(ask_socket(socket, {"do": "parameters"})["parameters"])
        target = {**dict(modified_volume(step).model), "seed": own.get("seed", 1)}
        begun_s, rates = ctx.clock.now_s(), list[ServedRate]()
        operations = partial(_operations, socket)
        try:
            watch(ctx, operations, BEFORE_S, rates)
            asked_s = ctx.clock.now_s()
            if step.takes_s > 0:
                _change(socket, slowed(own, ("read", "write"), step.dip), step.takes_s + GOES_BACK_S)
                watch(ctx, operations, step.takes_s, rates)
            _change(socket, target, step.watch_s + GOES_BACK_S)
            changed_s = _changed_at_s(ctx, socket, target)
            watch(ctx, operations, step.watch_s, rates)
        finally:
            with suppress(StepFailed):  # a daemon that does not answer goes back by itself
                ask_socket(socket, {"do": "modify", "parameters": own})
        values, notes = outcome_of(rates, asked_s, changed_s)
        return StepOutcome(
            window_s=(begun_s, ctx.clock.now_s()),
            metrics={name: metric(name, value) for name, value in values.items()},
            notes=notes,
            details={
                "asked_s": asked_s,
                "changed_s": changed_s,
                "operations_per_s": [rate.per_s for rate in rates],
            },
        )


def _change(socket: Path, parameters: Mapping[str, Any], lasts_s: float) -> None:
    ask_socket(socket, {"do": "modify", "parameters": parameters, "lasts_s": lasts_s})


def _changed_at_s(ctx: StepContext, socket: Path, target: Mapping[str, Any]) -> float:
    """Return when the daemon's own answer has the target limits. Raise StepFailed where it has others."""
    limits = ask_socket(socket, {"do": "parameters"})["parameters"]["limits"]
    rates = [[rate["name"], rate["rate_per_s"]] for rate in limits]
    expected = [[rate["name"], rate["rate_per_s"]] for rate in target["limits"]]
    if rates != expected:
        raise StepFailed(
            "the volume did not take the new limits", where=str(socket.parent), evidence=f"it has {rates}"
        )
    return ctx.clock.now_s()


def _operations(socket: Path) -> float:
    counters = ask_socket(socket, {"do": "counters"})["counters"]["nvme"]
    return float(counters["total_read_ops"]) + float(counters["total_write_ops"])
