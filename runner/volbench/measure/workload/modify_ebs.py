"""The modify step on a real EBS volume: asked of EC2, watched by the kernel's counters, and not undone.

Nobody has run it on AWS: tests hold it against botocore's description of EC2.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from volbench.core.plan.ebs_modification import ebs_request
from volbench.core.records.metrics import metric
from volbench.core.records.steps.modify import BEFORE_S, ModifyStep
from volbench.errors import MissingPrerequisite, StepFailed, UsageError, VolbenchError
from volbench.machine.host.blockstats import disk_operations
from volbench.machine.volume.ebs import EbsVolume, Modification, ebs_volume
from volbench.machine.volume.facts.ebs_csi import ebs_volume_id
from volbench.measure.workload.interface import StepContext, StepOutcome
from volbench.measure.workload.served_rates import ServedRate, outcome_of, watch

POLL_S = 5.0
"""How often EC2 is asked for the state."""
_UNITS = {"VolumeType": "", "Size": " GiB", "Iops": " IOPS", "Throughput": " MiB/s"}


@dataclass(frozen=True, kw_only=True)
class ReachedState:
    """A state of the modification, and when an answer first had it."""

    state: str
    t_s: float


def check_ebs(step: ModifyStep, ctx: StepContext) -> None:
    """Ask EC2, before any load, whether this volume can be modified. Raise UsageError, MissingPrerequisite."""
    where = _where(step)
    disk = _disk(step, ctx)
    if disk_operations(disk) is None:
        raise MissingPrerequisite("the kernel counts no operations of this disk", where=where, evidence=disk)
    request = ebs_request(step)
    with _opened(step) as volume:
        _check_change(volume.describe(), request, where=where)
        last = volume.last_modification()
        if last is not None and last.is_under_way:
            percent = "" if last.percent is None else f", {last.percent} %"
            raise MissingPrerequisite(
                "an earlier modification of the volume is not completed",
                where=where,
                evidence=f"{step.ebs_volume}: {last.state}{percent}, begun at {last.begin}",
                next_step="wait until it is, which can take hours, then run it again",
            )
        volume.check_right(request)


def run_ebs(step: ModifyStep, ctx: StepContext) -> StepOutcome:
    """Modify the volume, and watch it until EC2 calls that completed, or the time is over.

    Raises UsageError, MissingPrerequisite; what fails after the request says that it was made.
    """
    run = _Run(step, ctx, _disk(step, ctx))
    with _opened(step) as volume:
        earlier = volume.last_modification()
        run.watch(BEFORE_S)
        run.requested_s = ctx.clock.now_s()
        volume.modify(run.request)
        try:
            run.follow(volume, earlier)
        except VolbenchError as error:
            raise MissingPrerequisite(  # no StepFailed, after which the cell would be tried again
                f"{error.what}, after EC2 was asked to modify the volume",
                where=_where(step),
                evidence=error.evidence,
                next_step=f"see its state: aws ec2 describe-volumes-modifications --volume-ids {step.ebs_volume}",
            ) from error
    return run.outcome()


class _Run:
    """One modification: its request, its states, and what the disk did at that time."""

    def __init__(self, step: ModifyStep, ctx: StepContext, disk: str) -> None:
        self.request = ebs_request(step)
        self.requested_s = 0.0
        self._step = step
        self._ctx = ctx
        self._disk = disk
        self._begun_s = ctx.clock.now_s()
        self._rates: list[ServedRate] = []
        self._states: list[ReachedState] = []
        self._completed_s: float | None = None

    def watch(self, seconds: float) -> None:
        """Count the disk's operations for some seconds. Raise StepFailed if cancelled."""
        watch(self._ctx, self._operations, seconds, self._rates)

    def follow(self, volume: EbsVolume, earlier: Modification | None) -> None:
        """Ask for the state until it is completed, then watch the new limits. Raise StepFailed for a failed one.

        Args:
            earlier: the last modification before the request, which EC2 may go on to describe for a while.
        """
        until_s = self.requested_s + self._step.wait_s_max
        while (left_s := until_s - self._ctx.clock.now_s()) > 0:
            self.watch(min(POLL_S, left_s))
            last = volume.last_modification()
            if last is None or (earlier is not None and last.begin == earlier.begin):
                continue
            if not self._states or self._states[-1].state != last.state:
                self._states.append(ReachedState(state=last.state, t_s=self._ctx.clock.now_s()))
            if last.state == "failed":
                raise StepFailed("EC2 could not modify the volume", evidence=last.message or "EC2 does not say why")
            if last.state == "completed":
                self._completed_s = self._states[-1].t_s
                self.watch(self._step.watch_s)
                return

    def outcome(self) -> StepOutcome:
        """Return what was measured, and what the volume is now."""
        end_s = self._begun_s + self._step.cost(0).measured_s  # a later second may be of no load
        rates = [rate for rate in self._rates if rate.t_s <= end_s]
        values, notes = outcome_of(rates, self.requested_s, self._completed_s)
        return StepOutcome(
            window_s=(self._begun_s, self._ctx.clock.now_s()),
            metrics={name: metric(name, value) for name, value in values.items()},
            notes=(self._states_note(), f"{self._step.ebs_volume} stays {_limits(self.request)}", *notes),
            details={
                "asked_s": self.requested_s,
                "changed_s": self._completed_s,
                "states": [[reached.state, reached.t_s - self.requested_s] for reached in self._states],
                "operations_per_s": [rate.per_s for rate in rates],
            },
        )

    def _states_note(self) -> str:
        reached = ", ".join(f"{state.state} after {state.t_s - self.requested_s:.0f} s" for state in self._states)
        answers = f"EC2's answers, every {POLL_S:g} s: {reached or 'none of this modification'}"
        if self._completed_s is not None:
            return answers
        return f"{answers}; not completed within {self._step.wait_s_max:g} s: when the limits changed is unknown"

    def _operations(self) -> float:
        count = disk_operations(self._disk)
        if count is None:
            raise StepFailed("the kernel counts no operations of this disk any more", evidence=self._disk)
        return float(count)


def _opened(step: ModifyStep) -> AbstractContextManager[EbsVolume]:
    return ebs_volume(step.ebs_volume, region=step.region, where=_where(step))


def _disk(step: ModifyStep, ctx: StepContext) -> str:
    """Return the kernel's name of the one disk below the data directory. Raise UsageError for another volume."""
    disks = ctx.volume_facts.physical_disks
    volumes = [ebs_volume_id(disk) for disk in disks]
    if ctx.emulator_socket is None and volumes == [step.ebs_volume]:
        return disks[0]
    if ctx.emulator_socket is not None:
        evidence = f"{ctx.volume_dir} is on an emulated volume"
    elif not disks:
        evidence = f"{ctx.volume_dir} is on no disk that this machine shows"
    else:
        described = [
            f"{disk} ({volume or 'its serial number is of no EBS volume'})"
            for disk, volume in zip(disks, volumes, strict=True)
        ]
        evidence = f"{ctx.volume_dir} is on {', '.join(described)}"
    raise UsageError(
        f"the data directory is not on {step.ebs_volume} alone",
        where=_where(step),
        evidence=evidence,
        next_step="compare with `lsblk -o +SERIAL`, which has the id of an EBS volume on NVMe; volumes of Xen"
        " instances (/dev/xvd...) and stripes of several cannot be modified by this step",
    )


def _check_change(described: Mapping[str, Any], request: Mapping[str, str | int], *, where: str) -> None:
    """Raise UsageError for a smaller volume, and for one that has the limits already."""
    now = {name: described[name] for name in _UNITS if name in described}
    size = request.get("Size")
    if isinstance(size, int) and size < int(described.get("Size", 0)):
        raise UsageError(
            "EBS makes no volume smaller",
            where=where,
            evidence=f"the volume has {_limits(now)}",
            next_step="give a size that is at least as large, or none",
        )
    if all(now.get(name) == value for name, value in request.items()):
        raise UsageError(
            "the volume has these limits already: nothing would change",
            where=where,
            evidence=f"the volume has {_limits(now)}",
            next_step="give other limits in `to`",
        )


def _limits(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{values[name]}{unit}" for name, unit in _UNITS.items() if name in values)


def _where(step: ModifyStep) -> str:
    return f"step {step.name or step.kind}"
