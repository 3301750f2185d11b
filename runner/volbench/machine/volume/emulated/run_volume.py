"""`emulated:ebs-gp2?size=50GiB&dir=/var/tmp/x`: an emulated volume that a run creates, uses and removes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from volbench.core.base import ownership
from volbench.core.profile.resolve import resolve_volume
from volbench.core.records.run import VolumeSpec
from volbench.errors import MissingPrerequisite, VolbenchError
from volbench.machine.volume.emulated.control import CONTROL_SOCKET
from volbench.machine.volume.emulated.discovery import DEFAULT_DIRECTORY
from volbench.machine.volume.emulated.status import clear_leftovers, volume_status
from volbench.machine.volume.emulated.volume import EmulatedVolume
from volbench.machine.volume.facts.discovery import discover
from volbench.machine.volume.interface import OpenVolume, VolumeBase


class EmulatedPlace(VolumeBase):
    """An emulated volume for the time of a run, in `dir` (default: /var/tmp/volbench).

    The volume starts empty: data of a killed run under the same name is erased first.
    """

    def __init__(self, spec: VolumeSpec) -> None:
        super().__init__(spec)
        self._root = Path(spec.options.get("dir", DEFAULT_DIRECTORY)).absolute()
        self._resolved = resolve_volume(spec)
        self._volume: EmulatedVolume | None = None
        self._made_root = False

    def open(self) -> OpenVolume:
        """Clear what killed runs left attached, and start the volume.

        Raises MissingPrerequisite, Refused (in use), StepFailed as EmulatedVolume does.
        """
        try:
            self._made_root = ownership.make_private_root(self._root)
        except OSError as error:
            raise MissingPrerequisite(
                "volbench cannot create the directory for an emulated volume's data",
                where=f"volume {self.spec.name}={self.spec.text}",
                evidence=f"{type(error).__name__}: {error}",
                next_step="name another directory with dir=, on a disk with free space",
            ) from error
        clear_leftovers(self._root)
        volume = EmulatedVolume(self._resolved, self._root, name=f"run-{self.spec.name}")
        _remove_unless_running(volume)  # left by a killed run; `start` refuses a running volume
        try:
            data = volume.start()
        except BaseException:
            with suppress(VolbenchError):
                _remove_unless_running(volume)
            raise
        self._volume = volume
        emulated = {
            "path": str(data),
            "emulated_profile": self._resolved.profile,
            "emulated_parameters": dict(self._resolved.parameters),
        }
        facts = discover(data).model_copy(update=emulated)
        return OpenVolume(
            name=self.spec.name,
            spec=self.spec,
            host_path=data,
            facts=facts,
            emulator_socket=volume.directory / CONTROL_SOCKET,
        )

    def free_unused(self) -> None:
        """Trim the file system of a block volume: its image would grow with each cell, up to the volume's size."""
        if self._volume is not None:
            self._volume.trim()

    def close(self) -> None:
        """Take the volume down and erase its data. Raise StepFailed if another process uses it."""
        if self._volume is not None and os.path.lexists(self._volume.directory):
            self._volume.remove()
        self._volume = None
        if self._made_root:
            with suppress(OSError):
                self._root.rmdir()


def _remove_unless_running(volume: EmulatedVolume) -> None:
    if ownership.is_owned(volume.directory) and volume_status(volume.directory) != "running":
        volume.remove()
