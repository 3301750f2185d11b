"""What a step `modify` asks of a real EBS volume, as ModifyVolume takes it, and which runs may ask for it."""

from __future__ import annotations

from collections.abc import Sequence

from volbench.core.base.text import counted
from volbench.core.base.units import GIB
from volbench.core.profile.resolve import resolve_volume
from volbench.core.profile.spec import parse_volume
from volbench.core.records.run import VolumeSpec
from volbench.core.records.steps.base import StepBase
from volbench.core.records.steps.modify import ModifyStep
from volbench.errors import UsageError

_TYPES = {"ebs-gp2": "gp2", "ebs-gp3": "gp3", "ebs-io2": "io2", "ebs-sc1": "sc1", "ebs-st1": "st1"}
"""Profile -> the volume type's name in the vendor's interface."""
_PARAMETERS = {
    "size": ("Size", GIB, "GiB"),
    "iops": ("Iops", 1, "IOPS"),
    "throughput": ("Throughput", 1, "MiB/s"),
}
"""Option of a profile -> its parameter of ModifyVolume, and the parameter's unit: its size, and its name."""


def ebs_request(step: ModifyStep) -> dict[str, str | int]:
    """Return the parameters of ModifyVolume besides the volume's id: the type, and what `to` says of it.

    What `to` leaves out is not asked for: EBS then keeps it, or takes a new type's default. Raise UsageError.
    """
    where = f"{_where(step)}: to: {step.to}"
    spec = parse_volume(step.to if step.to.startswith("emulated:") else f"emulated:{step.to}", name="modify")
    volume = resolve_volume(spec)
    if volume.profile not in _TYPES:
        raise UsageError(
            f"EBS has no volume type for the profile {volume.profile}",
            where=where,
            next_step=f"choose one of {', '.join(_TYPES)}",
        )
    request: dict[str, str | int] = {"VolumeType": _TYPES[volume.profile]}
    for option in spec.options:
        if option not in _PARAMETERS:
            raise UsageError(
                f"EBS cannot be asked for {option!r}: only emulated volumes have this option",
                where=where,
                next_step=f"leave it out; a modification has {', '.join(_PARAMETERS)}",
            )
        name, unit, unit_name = _PARAMETERS[option]
        value = float(volume.parameters[option]) / unit
        if value != int(value):
            raise UsageError(f"EBS takes whole {unit_name} for {option!r}, not {value:g}", where=where)
        request[name] = int(value)
    return request


def check_ebs_modifications(
    steps: Sequence[StepBase], volumes: Sequence[VolumeSpec], target: str, *, cells: int
) -> None:
    """Raise UsageError for a real modification in a run that has more than one cell, or none on an EBS volume.

    Args:
        steps: all of the suite, those that run with a load too.
        cells: of the whole run. The volume stays modified, so a second cell would measure another volume.
    """
    modifications = [step for step in steps if isinstance(step, ModifyStep) and step.ebs_volume]
    for step in modifications:
        where = _where(step)
        ebs_request(step)
        if target != "local":
            raise UsageError(
                "volbench modifies a real volume on the machine that it is attached to, with the target local",
                where=where,
                evidence=f"target {target}",
                next_step="run it on that machine with `--target local`",
            )
        for volume in volumes:
            if volume.kind != "path":
                raise UsageError(
                    f"`ebs_volume` names a real volume, and this run measures {volume.kind}:{volume.location}",
                    where=where,
                    evidence=f"volume {volume.name}={volume.text}",
                    next_step="name a directory on that volume, such as a=path:/mnt/ebs, or leave out `ebs_volume`",
                )
        check_only_modification(where, cells=cells, modifications=len(modifications))


def check_only_modification(where: str, *, cells: int, modifications: int) -> None:
    """Raise UsageError unless a run modifies a real volume once, in its only cell."""
    if cells != 1 or modifications != 1:
        raise UsageError(
            "a run modifies a real volume once, in its only cell: it stays modified, so that every later cell"
            " would measure another volume",
            where=where,
            evidence=f"{counted(cells, 'cell')}, {counted(modifications, 'modification')}",
            next_step="set `repeats: 1`, `underpowered: true`; name one volume, one modification and no sweep",
        )


def _where(step: ModifyStep) -> str:
    return f"step {step.name or step.kind}"
