"""Power cuts that a target cannot recover from, refused before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from volbench.core.profile.resolve import resolve_volume
from volbench.core.records.base import Record
from volbench.core.records.run import VolumeSpec
from volbench.core.records.steps.crash import CrashStep
from volbench.errors import MissingPrerequisite

EMULATED = "emulated"
RECOVERING_TARGET = "local"
"""Where the agent may mount a file system again."""


def check_power_cuts(steps: Iterable[Record], volumes: Sequence[VolumeSpec], target: str) -> None:
    """Raise MissingPrerequisite for a power cut of a block device by an agent in a container.

    Its file system has to be mounted again afterwards, which takes root in sight of the volume.

    Args:
        steps: of the suite.
        volumes: of the run, with the components of their layouts.
        target: of the run.
    """
    cuts = [step for step in steps if isinstance(step, CrashStep) and step.fault != "kill_server"]
    for step in cuts if target != RECOVERING_TARGET else ():
        is_asked = step.fault == "power_cut"
        blocks = [name for volume in volumes for name in _cut_blocks(volume, is_asked=is_asked)]
        if blocks:
            raise MissingPrerequisite(
                "after a power cut the file system of an emulated block volume is mounted again, which an agent in"
                " a container cannot do",
                where=f"step {step.name}, target {target}",
                evidence=f"block volumes: {', '.join(blocks)}",
                next_step="--target local, volumes of files (fsx-openzfs, efs-...), or"
                f" --set steps.{step.name}.fault=kill_server",
            )


def _cut_blocks(volume: VolumeSpec, *, is_asked: bool) -> Iterator[str]:
    """Yield the block devices of a volume whose power is cut: of `auto` where all its components are emulated."""
    components = (volume, *volume.layout)
    if is_asked or all(component.kind == EMULATED for component in components):
        emulated = (component for component in components if component.kind == EMULATED)
        yield from (component.name for component in emulated if resolve_volume(component).mode == "block")
