"""Which runs may have a step `modify` that changes a cluster's claim."""

from __future__ import annotations

from collections.abc import Sequence

from volbench.core.plan.ebs_modification import check_only_modification
from volbench.core.records.run import VolumeSpec
from volbench.core.records.steps.base import StepBase
from volbench.core.records.steps.modify import ModifyStep
from volbench.core.records.steps.snapshot import SnapshotStep
from volbench.errors import UsageError

_CLAIMS = ("pvc", "storage-class")


def check_claim_modifications(
    steps: Sequence[StepBase], volumes: Sequence[VolumeSpec], target: str, *, cells: int
) -> None:
    """Raise UsageError for a change of a claim in a run without claims, or with more than one cell.

    Args:
        steps: all of the suite, those that run with a load too.
        cells: of the whole run. The claim stays changed, so a second cell would measure another volume.
    """
    changes = [step for step in steps if isinstance(step, ModifyStep) and step.claim_change is not None]
    for step in changes:
        where = f"step {step.name or step.kind}"
        if target != "kubernetes":
            raise UsageError(
                "only a cluster has claims",
                where=where,
                evidence=f"to: {step.to}, target {target}",
                next_step="choose --target kubernetes, or say what an emulated or EBS volume becomes",
            )
        for volume in volumes:
            if volume.kind not in _CLAIMS:
                raise UsageError(
                    "a claim is to change, and this volume is none",
                    where=where,
                    evidence=f"volume {volume.name}={volume.text}",
                    next_step="name a claim or a class: v=pvc:CLAIM or v=storage-class:CLASS?size=100Gi",
                )
        if any(isinstance(snapshot, SnapshotStep) for snapshot in steps):
            raise UsageError(
                "a run that changes its claim takes no snapshot of it",
                where=where,
                next_step="measure the snapshot in a run of its own",
            )
        check_only_modification(where, cells=cells, modifications=len(changes))
