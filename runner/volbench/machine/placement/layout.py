"""The components of a layout as an agent's places: a directory of the run on each volume, and what backs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from volbench.core.profile.layout import component_word
from volbench.core.records.layout import ComponentPlaces, EmulatedSpec
from volbench.machine.volume.interface import OpenVolume

PlaceOf = Callable[[OpenVolume, str], str]
"""Takes a component's volume and its word, returns a path for the agent; empty for none."""


def component_places(
    volume: OpenVolume | None, *, directory: PlaceOf, socket: PlaceOf
) -> tuple[ComponentPlaces, ...]:
    """Return the places of a volume's components.

    Args:
        directory: returns the run's directory on a component's volume.
        socket: returns the control socket of an emulated one.
    """
    return tuple(
        ComponentPlaces(
            name=(role := component_word(component.spec)),
            roles=component.spec.roles,
            volume_dir=directory(component, role),
            emulator_socket=socket(component, role) if component.emulator_socket else "",
            emulated=emulated_spec(component),
            host_volume=component.facts,
        )
        for component in (volume.components if volume else ())
    )


def emulated_spec(volume: OpenVolume | None) -> EmulatedSpec | None:
    """Return what an emulated volume stands for; None for others."""
    facts = volume.facts if volume else None
    if facts is None or facts.emulated_profile is None:
        return None
    return EmulatedSpec(profile=facts.emulated_profile, parameters=facts.emulated_parameters)


def run_directories(volume: OpenVolume | None, folder: str) -> list[Path]:
    """Return the run's directory on each volume that this machine sees.

    Args:
        folder: its name, see `Workspace.volume_folder`.
    """
    volumes = volume.all if volume else ()
    return [opened.host_path / folder for opened in volumes if opened.host_path is not None]
