"""The modify step: an emulated volume gets other limits under a load, and its counters tell what came of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from volbench.core.plan.step_needs import check_size, modified_volume, not_modifiable
from volbench.core.records.metrics import metric
from volbench.core.records.steps.modify import BEFORE_S, ModifyStep
from volbench.errors import StepFailed
from volbench.machine.volume.emulated.control import ask_socket
from volbench.measure.workload.interface import StepContext, StepOutcome, Workload
from volbench.measure.workload.oltp.modulation import slowed

TICK_S = 1.0
MORE = 1.1
"""Times the operations of before, from which on the new limit holds: a limit that is met varies by far less."""
SECONDS = 3
GOES_BACK_S = 10.0
"""After the step's end the volume has its own limits by itself, should this process be killed."""


@dataclass(frozen=True, kw_only=True)
class ServedRate:
    """What the volume did in the seconds up to `t_s`: operations a second."""

    t_s: float
    per_s: float


class Modify(Workload[ModifyStep]):
    """Asks the emulated volume's daemon for other limits, and counts."""

    kind = "modify"

    def check(self, step: ModifyStep, ctx: StepContext) -> None:
        """Check the volume and what it shall become. Raise UsageError."""
        modified_volume(step)
        if ctx.emulator_socket is None:
            evidence = f"the data directory is on {ctx.volume_dir}, which is not emulated"
            raise not_modifiable(step, evidence=evidence)
        size = ctx.volume_facts.emulated_parameters.get("size")
        if isinstance(size, int | float):
            check_size(step, size)

    def run(self, step: ModifyStep, ctx: StepContext) -> StepOutcome:
        """Change the limits, watch, and change them back. Raises StepFailed."""
        if ctx.emulator_socket is None:
            raise StepFailed("the volume is not emulated", where=str(ctx.volume_dir))
        socket = ctx.emulator_socket
        own = dict(ask_socket(socket, {"do": "parameters"})["parameters"])
        target = {**dict(modified_volume(step).model), "seed": own.get("seed", 1)}
        begun_s, rates = ctx.clock.now_s(), list[ServedRate]()
        try:
            _watch(ctx, socket, BEFORE_S, rates)
            asked_s = ctx.clock.now_s()
            if step.takes_s > 0:
                _change(socket, slowed(own, ("read", "write"), step.dip), step.takes_s + GOES_BACK_S)
                _watch(ctx, socket, step.takes_s, rates)
            _change(socket, target, step.watch_s + GOES_BACK_S)
            changed_s = _changed_at_s(ctx, socket, target)
            _watch(ctx, socket, step.watch_s, rates)
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


def outcome_of(
    rates: Sequence[ServedRate], asked_s: float, changed_s: float
) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the step's metrics and notes.

    Args:
        rates: what the volume did, in order of time.
        asked_s, changed_s: when the change was asked for, and when the volume had the new limits.
    """
    values = {"limits_changed_s": changed_s - asked_s}
    before = [rate.per_s for rate in rates if rate.t_s <= asked_s]
    usual = float(np.median(before)) if before else 0.0
    if usual <= 0:
        return values, ("the volume did nothing before the request: nothing is compared with it",)
    meanwhile = [rate.per_s for rate in rates if asked_s < rate.t_s <= changed_s]
    if len(meanwhile) >= SECONDS:
        values["dip_ratio"] = float(np.convolve(meanwhile, np.ones(SECONDS) / SECONDS, "valid").min()) / usual
    after = [rate for rate in rates if rate.t_s > asked_s]
    for first in range(len(after) - SECONDS + 1):
        if all(rate.per_s > MORE * usual for rate in after[first : first + SECONDS]):
            values["new_limit_after_s"] = after[first].t_s - asked_s
            return values, ()
    return values, ("the load did no more operations with the new limits: it met no limit, or meets another",)


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


def _watch(ctx: StepContext, socket: Path, seconds: float, rates: list[ServedRate]) -> None:
    """Append what the volume does in each second. Raise StepFailed if cancelled."""
    until_s = ctx.clock.now_s() + seconds
    t_s, count = ctx.clock.now_s(), _operations(socket)
    while (left_s := until_s - ctx.clock.now_s()) > 0:
        if ctx.cancelled.wait(min(TICK_S, left_s)):
            raise StepFailed("the modification was cancelled", where="modify")
        now_s, now = ctx.clock.now_s(), _operations(socket)
        if now_s - t_s >= TICK_S / 2:
            rates.append(ServedRate(t_s=now_s, per_s=(now - count) / (now_s - t_s)))
            t_s, count = now_s, now


def _operations(socket: Path) -> float:
    counters = ask_socket(socket, {"do": "counters"})["counters"]["nvme"]
    return float(counters["total_read_ops"]) + float(counters["total_write_ops"])
