"""Discovery of the emulated volumes on this machine, by their attachments and their usual directory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from volbench.core.base import ownership
from volbench.core.base.mountinfo import read_mounts
from volbench.core.base.nearest import nearest_match
from volbench.errors import Refused, UsageError, VolbenchError
from volbench.machine.volume.emulated import status as emulated_status
from volbench.machine.volume.emulated.attachments import is_daemon
from volbench.machine.volume.emulated.exclusive import changing
from volbench.machine.volume.emulated.status import VolumeStatus, clear_leftovers, list_volumes, read_status
from volbench.machine.volume.emulated.teardown import take_down

DEFAULT_DIRECTORY = Path("/var/tmp/volbench")  # noqa: S108 - a disk, not memory; its directories have volbench's marker
_MOUNT_NAMES = ("data", "image")


def find_volumes(directories: Iterable[Path] = ()) -> tuple[VolumeStatus, ...]:
    """Return every emulated volume in use or left over on this machine, and stopped ones in the usual directory.

    Args:
        directories: further directories with stopped volumes.

    This never accesses a mounted file system, so a volume that hangs does not block it.
    """
    roots = {directory.absolute() for directory in directories} | _roots()
    return tuple(volume for root in sorted(roots) for volume in list_volumes(root))


def find_volume(name: str, directories: Iterable[Path] = ()) -> VolumeStatus:
    """Return the volume of a name, or of a directory if the name contains a slash. Raise UsageError.

    A volume in one of `directories` comes before volumes of the same name elsewhere on the machine.
    """
    directory = Path(name).resolve() if "/" in name else None
    roots = {root.absolute() for root in directories}
    volumes = find_volumes([*roots, *([directory.parent] if directory else [])])
    matches = [volume for volume in volumes if volume.directory == directory or volume.name == name]
    matches = [volume for volume in matches if volume.directory.parent in roots] or matches
    if len(matches) == 1:
        return matches[0]
    if matches:
        paths = ", ".join(str(volume.directory) for volume in matches)
        raise UsageError(
            f"several emulated volumes are called {name!r}",
            evidence=paths,
            next_step="name the volume by its directory",
        )
    nearest = nearest_match(name, (volume.name for volume in volumes))
    raise UsageError(
        f"there is no emulated volume {name!r}",
        evidence=f"there are: {', '.join(volume.name for volume in volumes) or 'none'}",
        next_step=f"perhaps you meant {nearest}" if nearest else "`volbench volume list` lists all of them",
    )


def stop_volume(volume: VolumeStatus) -> None:
    """Take a volume down; its data stays.

    Raises Refused if a run uses it or another process is starting or removing it, StepFailed if another process has
    files of it open.
    """
    with changing(volume.directory):
        _stop(read_status(volume.directory) or volume)


def _stop(volume: VolumeStatus) -> None:
    if volume.status == "running" and volume.owner_pid is not None:
        raise Refused(
            "a running benchmark uses the emulated volume",
            where=str(volume.directory),
            evidence=f"process {volume.owner_pid} made the volume and removes it at its end",
            next_step=f"end that run: kill -INT {volume.owner_pid}",
        )
    if emulated_status.settled_status(volume.directory) == "leftover":
        take_down(volume.directory, force=True)
    else:
        emulated_status.stop_volume(volume.directory)


def remove_volume(volume: VolumeStatus) -> None:
    """Take a volume down and erase its data; the usual directory goes with the last one. Raise as stop_volume."""
    with changing(volume.directory):
        _stop(read_status(volume.directory) or volume)
        ownership.remove(volume.directory)
    if volume.directory.parent == DEFAULT_DIRECTORY:
        with contextlib.suppress(OSError):  # not empty
            DEFAULT_DIRECTORY.rmdir()


def clear_machine() -> tuple[tuple[Path, ...], tuple[VolbenchError, ...]]:
    """Take down what killed processes of volbench left attached, as clear_leftovers does; data stays.

    Returns the cleared directories, and the failures of others.
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
    """Return the usual directory, and the parents of volumes with a mount, a loop device or a daemon."""
    mounts = (Path(mount.mount_point) for mount in read_mounts())
    volume_dirs = {mount_point.parent for mount_point in mounts if mount_point.name in _MOUNT_NAMES}
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):  # detached meanwhile
            image = Path(file.read_text(encoding="utf-8", errors="surrogateescape").strip())
            volume_dirs.add(image.parent.parent)
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # the process ended, or is another user's
            if entry.name.isdecimal() and is_daemon(entry):
                volume_dirs.add((entry / "cwd").readlink())
    return {DEFAULT_DIRECTORY} | {
        volume.parent for volume in volume_dirs if os.path.lexists(volume / "volume.json")
    }
