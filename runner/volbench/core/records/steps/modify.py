"""The step `modify`: a volume gets other limits while a load runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from volbench.core.records.base import Scalar, Seconds, parse_size_bytes
from volbench.core.records.metric import Metric
from volbench.core.records.steps.base import StepBase, StepCost
from volbench.core.records.steps.kind import StepKind

BEFORE_S = 5.0
"""Watched before the request, to compare with."""
TAKES_S = 5.0
WAIT_S = 900.0
_ANSWERS_S = 15.0
"""So long EC2 may take for the answers before the request, of a step whose load still runs."""
_ASSUMED = ("takes_s", "dip")
"""What nobody assumes of a real volume: it is measured."""


CLAIM = "claim"
_CLASS_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_OF_A_CLAIM = (
    "a claim gets another VolumeAttributesClass, a larger size or both: claim?attributes_class=NAME&size=200GiB"
)


@dataclass(frozen=True, kw_only=True)
class ClaimChange:
    """What the claim of a cell shall ask for.

    Args:
        attributes_class: a VolumeAttributesClass; empty: the one that it has.
        size_bytes: 0: the size that it has.
    """

    attributes_class: str = ""
    size_bytes: int = 0


def claim_change_of(to: str) -> ClaimChange | None:
    """Return what `claim?...` asks for; None for a profile. Raise ValueError."""
    kind, _, options = to.partition("?")
    if kind != CLAIM:
        return None
    values = [option.partition("=") for option in options.split("&") if option]
    names = [name for name, _, _ in values]
    if not values or len(set(names)) < len(names) or not set(names) <= {"attributes_class", "size"}:
        raise ValueError(_OF_A_CLAIM)
    chosen = {name: value for name, _, value in values}
    class_name = chosen.get("attributes_class")
    if class_name is not None and not _CLASS_NAME.fullmatch(class_name):
        raise ValueError(f"{class_name!r} is not the name of a class; {_OF_A_CLAIM}")
    return ClaimChange(
        attributes_class=class_name or "", size_bytes=parse_size_bytes(chosen["size"]) if "size" in chosen else 0
    )


class ModifyStep(StepBase):
    """Changes type, IOPS, throughput or size of an emulated volume, of a cluster's claim, or of an EBS volume.

    It belongs into `concurrent` of an `oltp` step. The rows `during` and `alone` show what the load lost meanwhile.
    At its end an emulated volume has its own limits again, since other cells are measured on it. A real one stays
    modified, so the run has one cell. The file system grows with a claim, and else not.
    """

    kind: Literal["modify"] = "modify"
    to: str = Field(
        max_length=600,
        description="The volume that it becomes: a profile with options, such as ebs-gp3?iops=6000. In a cluster"
        " also claim?attributes_class=NAME&size=200GiB, which changes the cell's claim, and so a real volume.",
    )
    takes_s: Seconds = Field(
        default=TAKES_S,
        alias="takes",
        ge=0,
        le=3600,
        description="From the request to the new limits of an emulated volume. Assumed.",
    )
    dip: float = Field(
        default=1.0,
        ge=1.0,
        le=20.0,
        description="Factor by which an emulated volume's operations take longer during the change; 1: none."
        " Assumed.",
    )
    watch_s: Seconds = Field(
        default=15.0,
        alias="watch",
        ge=5,
        le=3600,
        description="How long it is watched with the new limits.",
    )
    start_after_s: Seconds = Field(
        default=0.0, alias="start_after", ge=0, description="Delay when it runs concurrently with a load."
    )

    ebs_volume: str = Field(
        default="",
        pattern=r"^(vol-([0-9a-f]{8}|[0-9a-f]{17}))?$",
        description="The real EBS volume below the data directory, such as vol-0123456789abcdef0, which AWS then"
        " modifies and bills. It stays modified. Empty: the volume is emulated.",
    )
    region: str = Field(
        default="",
        pattern=r"^[a-z0-9-]{0,40}$",
        description="AWS region of `ebs_volume`; empty: that of AWS_REGION or of the profile of AWS' tools.",
    )
    wait_s: Seconds | None = Field(
        default=None,
        alias="wait",
        ge=30,
        le=172_800,
        description="How long EBS' answer `completed`, or the claim's status, is waited for, at most; absent:"
        " 15 minutes.",
    )

    @model_validator(mode="after")
    def _nothing_is_assumed_of_a_real_volume(self) -> Self:
        if self.ebs_volume and self.claim_change is not None:
            raise ValueError(
                "`ebs_volume` names a volume of this machine, and `to` a claim: leave out `ebs_volume`"
            )
        if not self.ebs_volume and (self.region or (self.wait_s is not None and not self.is_real)):
            raise ValueError("`region` and `wait` belong to `ebs_volume`: name the volume, or leave them out")
        if self.is_real and (self.takes_s, self.dip) != (TAKES_S, 1.0):
            raise ValueError(
                "`takes` and `dip` are assumptions about an emulated volume, and a real one is measured: leave them"
                " out; `wait` says how long the change is waited for"
            )
        return self

    @property
    def claim_change(self) -> ClaimChange | None:
        """What a claim shall ask for; None: the step is about no claim."""
        return claim_change_of(self.to)

    @property
    def is_real(self) -> bool:
        """Whether a volume changes that volbench did not emulate, and stays so."""
        return bool(self.ebs_volume) or self.claim_change is not None

    @property
    def wait_s_max(self) -> float:
        """How long EBS or the cluster may take until it has the new limits, in seconds."""
        return WAIT_S if self.wait_s is None else self.wait_s

    def parameters(self) -> dict[str, Scalar]:
        """Return the parameters as shown in results: of a real volume none that is assumed."""
        left_out = _ASSUMED if self.is_real else ()
        values = super().parameters()
        return {name: value for name, value in values.items() if name not in left_out and value != ""}

    @property
    def tool(self) -> str:
        """How rows of a concurrent step are called."""
        return "modify"

    @property
    def end_s(self) -> float:
        """When it ends, seconds after the window of the load that it runs with begins."""
        return self.start_after_s + self._watched_s

    @property
    def timeout_s(self) -> float:
        """How long it may take, in seconds."""
        return self._watched_s + 60.0

    @property
    def _watched_s(self) -> float:
        change_s = _ANSWERS_S + self.wait_s_max if self.is_real else self.takes_s
        return BEFORE_S + change_s + self.watch_s

    def cost(self, data_bytes: int) -> StepCost:
        """Return the estimate: nothing is read or written, and a real volume takes as long as is waited for."""
        del data_bytes
        return StepCost(measured_s=self._watched_s)


KIND = StepKind(
    model=ModifyStep,
    metrics=(
        Metric(
            "limits_changed_s",
            "s",
            "lower",
            "limits changed",
            "from the request until the volume (EBS: `completed`, asked every 5 s; a claim: its status, every"
            " second) says that it has the new limits",
        ),
        Metric(
            "new_limit_after_s",
            "s",
            "lower",
            "new limit holds",
            "from the request until the volume does more than 1.1 times its operations of before for three seconds,"
            " by its own count; absent where the load asks for no more",
        ),
        Metric(
            "dip_ratio",
            "1",
            "higher",
            "operations in the dip",
            "fewest operations of three seconds between the request and the new limits, over those of before",
        ),
    ),
    primary=("new_limit_after_s",),
    stream_parameters=(),
    required={"to": "ebs-gp3?iops=6000"},
)
