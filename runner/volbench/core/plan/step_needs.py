"""What steps need of a run's servers and volumes: refused with the plan where SPECs tell it, else in the cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from volbench.core.plan.claim_modification import check_claim_modifications
from volbench.core.plan.ebs_modification import check_ebs_modifications
from volbench.core.profile.layout import component_word
from volbench.core.profile.resolve import ResolvedVolume, resolve_spec, resolve_volume
from volbench.core.records.run import VolumeSpec
from volbench.core.records.steps import step_kind
from volbench.core.records.steps.base import StepBase
from volbench.core.records.steps.instances import InstancesStep
from volbench.core.records.steps.kind import no_further_server, not_own_server
from volbench.core.records.steps.modify import ModifyStep
from volbench.core.records.steps.oltp import all_steps
from volbench.core.records.steps.replica import ReplicaStep
from volbench.core.records.steps.restored import RestoredStep
from volbench.errors import UsageError

_NEVER_EMULATED = ("nfs", "docker-volume")
"""A directory or a claim may be on an emulated volume, which only the machine or cluster tells."""
_EMULATED = "emulated"
_ATTACH = "attach"


def check_needs(steps: Iterable[StepBase], volumes: Sequence[VolumeSpec], target: str, *, cells: int = 1) -> None:
    """Raise UsageError or MissingPrerequisite for a step that the run's servers or volumes do not allow.

    Without it, the first cell would find that out: after the dataset is made, on an attached server in that server.

    Args:
        steps: of the suite.
        volumes: of the run, those of a sweep too, or what stands for servers that it attaches to.
        target: of the run.
        cells: of the whole run.
    """
    every_step = tuple(all_steps(steps))
    for step in every_step:
        purpose = step_kind(step.kind).own_server
        if purpose and target == _ATTACH:
            raise not_own_server(purpose, where=_where(step), evidence="target attach")
        if isinstance(step, ModifyStep) and step.claim_change is None:
            modified_volume(step)
        for volume in volumes:
            _check_volume(step, volume, target)
    check_ebs_modifications(every_step, volumes, target, cells=cells)
    check_claim_modifications(every_step, volumes, target, cells=cells)


def _check_volume(step: StepBase, volume: VolumeSpec, target: str) -> None:
    named = f"volume {volume.name}={volume.text}"
    is_plain = volume.kind in _NEVER_EMULATED or target == _ATTACH
    resolved = resolve_volume(volume) if volume.kind == _EMULATED else None
    if isinstance(step, InstancesStep) and volume.layout:
        raise needs_one_volume(step, evidence=f"{named}: {', '.join(map(component_word, volume.layout))} elsewhere")
    if isinstance(step, InstancesStep | ReplicaStep) and "control" in volume.options:
        evidence = f"{named}: volbench did not start the server's container"
        raise no_further_server(step_kind(step.kind).own_server, where=_where(step), evidence=evidence)
    if isinstance(step, ModifyStep) and not step.is_real:
        if is_plain:
            raise not_modifiable(step, evidence=f"{named} is not emulated")
        if resolved is not None:
            _check_mode(step, resolved, evidence=named)
            check_size(step, resolved.size_bytes)
    if isinstance(step, RestoredStep) and (
        is_plain or (resolved is not None and not resolved.model.get("first_touch"))
    ):
        raise not_from_snapshot(step, evidence=f"{named} has all its blocks")


def modified_volume(step: ModifyStep) -> ResolvedVolume:
    """Return what a volume becomes by the step. Raise UsageError for an unknown one, and for no block volume."""
    target = resolve_spec(step.to, name="modify")
    _check_mode(step, target, evidence="")
    return target


def _check_mode(step: ModifyStep, volume: ResolvedVolume, *, evidence: str) -> None:
    if volume.mode != "block":
        raise UsageError(
            "a volume becomes another block volume, and no file system of a network",
            where=f"{_where(step)}: to: {step.to}",
            evidence=evidence,
            next_step="choose a type such as ebs-gp3",
        )


def check_size(step: ModifyStep, size_bytes: float) -> None:
    """Raise UsageError for a modification that makes a volume of this size smaller."""
    target = modified_volume(step)
    if "size=" in step.to and target.size_bytes < size_bytes:
        raise UsageError(
            "no vendor makes a volume smaller",
            where=f"{_where(step)}: to: {step.to}",
            evidence=f"the volume has {size_bytes / 2**30:g} GiB, and is to have {target.size_bytes / 2**30:g} GiB",
            next_step="give a size that is at least as large",
        )


def not_modifiable(step: ModifyStep, *, evidence: str) -> UsageError:
    """Return the refusal to modify a volume that is neither emulated nor named."""
    return UsageError(
        "volbench modifies emulated volumes, and no real one but a claim or the EBS volume that the step names",
        where=_where(step),
        evidence=evidence,
        next_step="use v=emulated:ebs-gp2, or name the volume: `ebs_volume: vol-...`, in a cluster `to: claim?...`;"
        " any other is modified by hand under `volbench observe`",
    )


def not_from_snapshot(step: RestoredStep, *, evidence: str) -> UsageError:
    """Return the refusal of a volume whose blocks are all there."""
    return UsageError(
        "this volume is none that was made from a snapshot",
        where=_where(step),
        evidence=evidence,
        next_step="use a volume such as v=emulated:snapshot-lazy-load?base=ebs-gp3",
    )


def needs_one_volume(step: InstancesStep, *, evidence: str) -> UsageError:
    """Return the refusal of a layout."""
    return UsageError(
        "this step needs one volume for all files of a server",
        where=_where(step),
        evidence=evidence,
        next_step="name a volume without a layout, such as a=path:/mnt/a",
    )


def _where(step: StepBase) -> str:
    return f"step {step.name or step.kind}"
