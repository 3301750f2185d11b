"""The free space behind a plan's volumes, and which of them may have too little for a cell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from volbench.core.base.text import size
from volbench.core.records.run import RunRecord, VolumeSpec
from volbench.machine.volume.emulated.discovery import DEFAULT_DIRECTORY
from volbench.machine.volume.space import free_bytes


def free_space_text(volume: VolumeSpec) -> str:
    """Return how many bytes are free in the directory of a `path:` volume, in brackets; empty for others."""
    directory = _directory(volume)
    return f" ({size(free_bytes(directory))} free)" if directory is not None and volume.kind == "path" else ""


def space_caveats(run: RunRecord, volume_bytes: int) -> Iterator[str]:
    """Yield a line for each volume whose disk has less free space than a cell is estimated to need.

    Cells run in sequence and free their space, so that each volume's disk needs room for one cell.
    """
    for volume in run.volumes if run.target in ("local", "docker") else ():
        directory = None if volume.variant_of else _directory(volume)
        if directory is None or (free := free_bytes(directory)) >= volume_bytes:
            continue
        data = "the data of an emulated volume" if volume.kind == "emulated" else "the volume"
        yield (
            f"Volume {volume.name}: a cell needs about {size(volume_bytes)}, and {directory}, which holds {data},"
            f" has {size(free)} free. Free some space, or choose a smaller scale of the suite."
        )


def _directory(volume: VolumeSpec) -> Path | None:
    """Return the nearest existing directory of a volume on this machine; None for other volumes."""
    if volume.kind == "emulated":
        path = Path(volume.options.get("dir", DEFAULT_DIRECTORY)).absolute()
        return next((directory for directory in (path, *path.parents) if directory.is_dir()), None)
    if volume.kind == "path" and volume.location and Path(volume.location).is_dir():
        return Path(volume.location)
    return None
