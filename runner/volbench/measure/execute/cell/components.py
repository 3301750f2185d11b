"""The volumes of a cell, its layout's included: what backs them, their emulation, whether the server uses them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from volbench.core.base import ownership
from volbench.core.base.text import counted
from volbench.core.records.cell import CellPlaces, CellSpec
from volbench.core.records.facts import VolumeFacts
from volbench.core.records.layout import ROLE_TEXTS, ComponentFacts, EmulatedSpec
from volbench.errors import StepFailed
from volbench.machine.engine.roles import role_directory
from volbench.machine.volume.emulated.control import keeps_no_state, reset, without_delays
from volbench.machine.volume.facts.discovery import discover, with_host_facts
from volbench.machine.volume.facts.ebs_csi import nvme_devices
from volbench.measure.sample.config import ComponentConfig

CREDITS = "credits"
"""The parameter of profiles with burst credits, and the daemon's word for setting them."""
_EMPTY_ROLES = ("tmp",)
"""A server may have no file of it for a while."""


def volume_facts(cell: CellSpec, paths: CellPlaces) -> VolumeFacts:
    """Return what backs the data directory. The agent cannot see that a volume is emulated: cell.json names it."""
    return _facts(paths.volume_dir, cell.run_id, host_volume=cell.host_volume, emulated=cell.emulated)


def component_facts(cell: CellSpec, paths: CellPlaces) -> tuple[ComponentFacts, ...]:
    """Return what backs each component of a cell's layout, as this process sees it."""
    return tuple(
        ComponentFacts(
            name=component.name,
            roles=component.roles,
            volume_facts=_facts(
                component.volume_dir,
                cell.run_id,
                host_volume=component.host_volume,
                emulated=component.emulated,
            ),
        )
        for component in paths.layout
    )


def _facts(
    volume_dir: str, run_id: str, *, host_volume: VolumeFacts | None, emulated: EmulatedSpec | None
) -> VolumeFacts:
    directory = Path(volume_dir)
    if not directory.exists():  # on a volume that is mounted for this cell alone, nobody else creates it
        ownership.claim(directory, purpose="cell", run_id=run_id)
    facts = with_host_facts(discover(directory), host_volume)
    if emulated is None:
        return facts
    model = {"emulated_profile": emulated.profile, "emulated_parameters": emulated.parameters}
    return facts.model_copy(update=model)


def reset_volumes(cell: CellSpec, paths: CellPlaces) -> None:
    """Let each emulated volume follow its model, with its credits: all cells start alike."""
    for emulated, control in _emulated(cell, paths):
        fill = emulated.parameters.get(CREDITS)
        reset(control, credits_share=None if fill is None else float(fill))


@contextmanager
def preparing(cell: CellSpec, paths: CellPlaces) -> Iterator[None]:
    """Let emulated volumes complete everything at once within the block: nothing in it is measured.

    Those alone whose model is the same afterwards. On others the copy of the data spends credits, or is the first
    to touch blocks.
    """
    with ExitStack() as stack:
        for _, control in _emulated(cell, paths):
            if keeps_no_state(control):
                stack.enter_context(without_delays(control))
        yield


def _emulated(cell: CellSpec, paths: CellPlaces) -> list[tuple[EmulatedSpec, Path]]:
    """Return the emulated volumes of a cell whose daemon can be asked, each with its control socket."""
    volumes = [
        (cell.emulated, paths.emulator_socket),
        *((component.emulated, component.emulator_socket) for component in paths.layout),
    ]
    return [(emulated, Path(socket)) for emulated, socket in volumes if emulated is not None and socket]


def component_configs(paths: CellPlaces, components: Sequence[ComponentFacts]) -> tuple[ComponentConfig, ...]:
    """Return the devices of each component of a cell's layout, for the samplers."""
    facts = [component.volume_facts for component in components]
    return tuple(
        ComponentConfig(
            component=component.name,
            disks=volume.counted_disks,
            nvme_devices=nvme_devices(volume.physical_disks),
            mount_point=volume.mount_point or "" if volume.nfs_server else "",
            emulator_socket=component.emulator_socket,
        )
        for component, volume in zip(paths.layout, facts, strict=True)
    )


def check_components(paths: CellPlaces) -> list[str]:
    """Return a note for each component: how many files the server has there after its start.

    Raises StepFailed for a role without a file: the server keeps its files elsewhere, whatever its options say.
    """
    notes = []
    for component in paths.layout:
        for role in component.roles:
            directory = role_directory(component.volume_dir, role)
            files = [path for path in directory.rglob("*") if path.is_file()]
            if not files and role not in _EMPTY_ROLES:
                raise StepFailed(
                    f"the server has no {ROLE_TEXTS[role]} in the directory that the layout gives to it",
                    where=f"component {component.name} of the layout",
                    evidence=f"{directory} is empty after the start",
                    next_step="leave that component out of the layout for this server",
                    cause="layout_not_used",
                )
            notes.append(
                f"layout: {counted(len(files), 'file')} of the {ROLE_TEXTS[role]} on component {component.name}"
            )
    return notes
