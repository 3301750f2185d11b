"""The components of a layout in a cell: what backs them, their emulated volumes, whether the server uses them."""

from __future__ import annotations

from pathlib import Path

from volbench.core.base import ownership
from volbench.core.base.text import counted
from volbench.core.records.cell import CellPlaces, CellSpec
from volbench.core.records.layout import ROLE_TEXTS, ComponentFacts, ComponentPlaces
from volbench.errors import StepFailed
from volbench.machine.engine.roles import role_directory
from volbench.machine.volume.emulated.control import reset
from volbench.machine.volume.facts.discovery import discover, with_host_facts

CREDITS = "credits"
"""The parameter of profiles with burst credits, and the daemon's word for setting them."""
_EMPTY_ROLES = ("tmp",)
"""A server may have no file of it for a while."""


def component_facts(cell: CellSpec) -> tuple[ComponentFacts, ...]:
    """Return what backs each component of a cell's layout, as this process sees it."""
    return tuple(_facts(component, cell.run_id) for component in (cell.places.layout if cell.places else ()))


def _facts(component: ComponentPlaces, run_id: str) -> ComponentFacts:
    directory = Path(component.volume_dir)
    if not directory.exists():  # on a volume that is mounted for this cell alone, nobody else creates it
        ownership.claim(directory, purpose="cell", run_id=run_id)
    facts = with_host_facts(discover(directory), component.host_volume)
    if component.emulated is not None:
        emulated = {
            "emulated_profile": component.emulated.profile,
            "emulated_parameters": component.emulated.parameters,
        }
        facts = facts.model_copy(update=emulated)
    return ComponentFacts(name=component.name, roles=component.roles, volume_facts=facts)


def reset_components(paths: CellPlaces | None) -> None:
    """Let each component's emulated volume follow its model, with its credits: all cells start alike."""
    for component in paths.layout if paths else ():
        if component.emulated is not None and component.emulator_socket:
            fill = component.emulated.parameters.get(CREDITS)
            reset(Path(component.emulator_socket), credits_share=None if fill is None else float(fill))


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
