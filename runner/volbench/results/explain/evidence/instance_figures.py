"""What instances give their volumes, as the vendor states it, and whether a level lies at it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from volbench.core.base.nearest import suggestion
from volbench.core.profile.files import INSTANCES, load_profile
from volbench.core.profile.instances import TABLE, ec2_type
from volbench.errors import UsageError
from volbench.results.explain.evidence.device import Device, Resource

NEAR = 0.03
"""How far a level may be from a figure: rates of EC2's meters were within 2 % of what the vendor states (FACTS of
gp2, gp3 and io2 in suites/volumes), and a level is a median."""
_MB_PER_MIB = 1.048576
_FIGURES: dict[Resource, tuple[tuple[str, Literal["baseline", "maximum"]], ...]] = {
    "iops": (("instance_iops", "baseline"), ("instance_iops_max", "maximum")),
    "throughput": (("instance_throughput", "baseline"), ("instance_throughput_max", "maximum")),
}
_EC2_DEVICE = re.compile(r"nvme[0-9]+n[0-9]+|xvd[a-z]+")
_EC2_SOURCES = ("cloudwatch", "ebs_nvme", "ebs_csi")


@dataclass(frozen=True, kw_only=True)
class InstanceFigure:
    """A limit of a type of instance: `value` in operations/s, or in MB/s as the vendor counts them."""

    instance: str
    resource: Resource
    value: float
    kind: Literal["baseline", "maximum"]

    def is_near(self, level: float) -> bool:
        """Whether a level (operations/s or MiB/s) lies at it; the vendor's MB may be MiB."""
        low = self.value if self.resource == "iops" else self.value / _MB_PER_MIB
        return (1 - NEAR) * low <= level <= (1 + NEAR) * self.value

    @property
    def text(self) -> str:
        """`850 IOPS` or `106.25 MB/s`, with what it is."""
        unit = "IOPS" if self.resource == "iops" else "MB/s"
        return f"{self.kind} of {self.value:,.6g} {unit}"


def check_instance(instance: str) -> None:
    """Raise UsageError for a type that the vendor's table does not have."""
    if instance and not figures_of(instance):
        raise UsageError(
            f"the table of instances has no {instance}",
            where="--instance",
            evidence=f"{TABLE}: types that were announced later are not in it",
            next_step=suggestion(ec2_type(instance), _table()),
        )


def figures_of(instance: str) -> tuple[InstanceFigure, ...]:
    """Return the limits of a type of EC2 or a class of RDS; none for one that is not in the table."""
    return _table().get(ec2_type(instance), ())


def near_figure(instance: str, resource: Resource, level: float) -> InstanceFigure | None:
    """Return the limit of a type that a level lies at; None: it lies at none."""
    named = (figure for figure in figures_of(instance) if figure.resource == resource)
    return next((figure for figure in named if figure.is_near(level)), None)


def types_near(resource: Resource, level: float) -> Iterator[InstanceFigure]:
    """Yield a limit of each type that a level lies at, types of the general families first."""
    names = sorted(_table(), key=lambda name: (not name.startswith(("m", "r", "t")), name))
    for name in names:
        figure = near_figure(name, resource, level)
        if figure is not None:
            yield figure


def may_be_ec2(device: Device) -> bool:
    """Whether a device is named as EC2 names volumes, or the vendor counts it."""
    return device.source in _EC2_SOURCES or _EC2_DEVICE.fullmatch(device.entity) is not None


@cache
def _table() -> dict[str, tuple[InstanceFigure, ...]]:
    """The vendor's table by type; a type whose baseline is its maximum has one figure of it."""
    table = {}
    for name, figures in load_profile(INSTANCES).table.items():
        by_level: dict[tuple[Resource, float], InstanceFigure] = {}
        for resource, columns in _FIGURES.items():
            for column, kind in columns:
                value = float(figures[column].value) / (1.0 if resource == "iops" else 1e6)
                figure = InstanceFigure(instance=name, resource=resource, value=value, kind=kind)
                by_level.setdefault((resource, value), figure)
        table[name] = tuple(by_level.values())
    return table
