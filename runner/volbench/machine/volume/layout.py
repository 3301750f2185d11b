"""A layout: the volume of the data with those of logs and others, opened and closed together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace

from volbench.core.records.run import VolumeSpec
from volbench.errors import UsageError, VolbenchError
from volbench.machine.volume.interface import OpenVolume, Volume, VolumeBase


class LayoutVolume(VolumeBase):
    """Several volumes as one: what a run does to a volume is done to each."""

    def __init__(self, spec: VolumeSpec, data: Volume, components: Sequence[Volume]) -> None:
        super().__init__(spec)
        self._data = data
        self._volumes = (data, *components)

    def open(self) -> OpenVolume:
        """Open each volume, that of the data first.

        Raises what they raise, and UsageError for one directory under two names.
        """
        self._data.measured = self.measured
        for volume in self._volumes:
            volume.retained = self.retained
        opened, *components = [volume.open() for volume in self._volumes]
        _refuse_one_directory([opened, *components])
        return replace(opened, spec=self.spec, components=tuple(components))

    def close(self) -> None:
        """Close each volume, in the other direction, also after the failure of one; raise the last failure."""
        with ExitStack() as stack:
            for volume in self._volumes:
                volume.retained = self.retained
                stack.callback(volume.close)

    def leftover(self) -> str:
        """Return what the retained volumes leave."""
        return "; ".join(text for volume in self._volumes if (text := volume.leftover()))

    def free_unused(self) -> None:
        """Give space back on each volume, whether or not another one can."""
        for volume in self._volumes:
            with suppress(VolbenchError, OSError):
                volume.free_unused()


def _refuse_one_directory(volumes: Sequence[OpenVolume]) -> None:
    """Raise UsageError for two components in one directory, also through links and mounts."""
    volume_of: dict[tuple[int, int], OpenVolume] = {}
    for volume in volumes:
        if volume.host_path is None:
            continue
        status = volume.host_path.stat()
        first = volume_of.setdefault((status.st_dev, status.st_ino), volume)
        if first is not volume:
            raise UsageError(
                f"{first.name} and {volume.name} are the same directory",
                where=f"volume {volume.spec.text}",
                evidence=f"{first.host_path} and {volume.host_path} have one inode",
                next_step="give each component a directory of its own, on the volume that shall hold it",
            )
