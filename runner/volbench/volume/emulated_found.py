"""The emulated volumes that are on this machine: found by what they have attached, and by where they are kept."""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Iterable
from pathlib import Path

from volbench.errors import Refused, UsageError, VolbenchError
from volbench.volume import emulated_status, ownership
from volbench.volume.emulated_status import VolumeStatus, clear_leftovers, list_volumes
from volbench.volume.mountinfo import read_mounts
from volbench.volume.teardown import is_daemon, take_down

DEFAULT_DIRECTORY = Path("/var/tmp/volbench")  # noqa: S108 - a disk, not memory; what is in it carries our marker
_MOUNT_NAMES = ("data", "image")


def find_volumes(places: Iterable[Path] = ()) -> tuple[VolumeStatus, ...]:
    """Every emulated volume in use or left over on this machine, and those at rest in the usual directory.

    Args:
        places: further directories to look for volumes at rest in.

    Nothing that is mounted is looked into, so a volume that hangs does not make this hang.
    """
    roots = {place.absolute() for place in places} | _roots()
    return tuple(volume for root in sorted(roots) for volume in list_volumes(root))


def find_volume(name: str, places: Iterable[Path] = ()) -> VolumeStatus:
    """The one volume of a name, or of a directory when there is a slash in it. Raises UsageError."""
    directory = Path(name).resolve() if "/" in name else None
    all_there = find_volumes([*places, *([directory.parent] if directory else [])])
    found = [volume for volume in all_there if volume.directory == directory or volume.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        places_of = ", ".join(str(volume.directory) for volume in found)
        raise UsageError(
            f"several emulated volumes are called {name!r}",
            evidence=places_of,
            next_step="name one by its directory",
        )
    nearest = difflib.get_close_matches(name, [volume.name for volume in all_there], n=1)
    raise UsageError(
        f"there is no emulated volume {name!r}",
        evidence=f"there are: {', '.join(volume.name for volume in all_there) or 'none'}",
        next_step=f"perhaps you meant {nearest[0]}"
        if nearest
        else "`volbench volume list` shows those that there are",
    )


def stop_volume(volume: VolumeStatus) -> None:
    """Take a volume down; its bytes stay. Raises Refused when a run uses it, StepFailed when somebody else does."""
    if volume.status == "running" and volume.owner_pid is not None:
        raise Refused(
            "the emulated volume belongs to a run that goes on",
            where=str(volume.directory),
            evidence=f"process {volume.owner_pid} has made it and removes it at its end",
            next_step=f"end that run: kill -INT {volume.owner_pid}",
        )
    if volume.status == "leftover":
        take_down(volume.directory, force=True)
    else:
        emulated_status.stop_volume(volume.directory)


def remove_volume(volume: VolumeStatus) -> None:
    """Take a volume down and erase its bytes; the usual directory goes with its last one. Raises as stop_volume."""
    stop_volume(volume)
    ownership.remove(volume.directory)
    if volume.directory.parent == DEFAULT_DIRECTORY:
        with contextlib.suppress(OSError):  # not empty
            DEFAULT_DIRECTORY.rmdir()


def clear_machine() -> tuple[tuple[Path, ...], tuple[VolbenchError, ...]]:
    """Take down what killed processes of ours have left attached, as clear_leftovers does; bytes stay.

    Returns the volumes' directories that were cleared, and why others could not be.
    """
    cleared: list[Path] = []
    failures: list[VolbenchError] = []
    for root in sorted(_roots()):
        try:
            cleared += clear_leftovers(root)
        except VolbenchError as error:
            failures.append(error)
    return tuple(cleared), tuple(failures)


def _roots() -> set[Path]:
    """The usual directory, and those that hold volumes with a mount, a loop device or a daemon."""
    mounts = (Path(mount.mount_point) for mount in read_mounts())
    volumes = {place.parent for place in mounts if place.name in _MOUNT_NAMES}
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):  # detached meanwhile
            image = Path(file.read_text(encoding="utf-8", errors="surrogateescape").strip())
            volumes.add(image.parent.parent)
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # ended meanwhile, or somebody else's
            if entry.name.isdigit() and is_daemon(entry):
                volumes.add((entry / "cwd").readlink())
    return {DEFAULT_DIRECTORY} | {volume.parent for volume in volumes if os.path.lexists(volume / "volume.json")}
