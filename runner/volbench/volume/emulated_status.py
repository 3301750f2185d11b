"""Emulated volumes of a directory: which there are, whether they run, and what killed processes have left."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from volbench.base import safe_files
from volbench.errors import StepFailed, VolbenchError
from volbench.records.parse import parse_json
from volbench.volume import ownership
from volbench.volume.emulated_control import ask
from volbench.volume.teardown import attachments, is_locked, started_at, take_down

Status = Literal["running", "stopped", "leftover"]
VOLUME_BYTES_MAX = 1 << 20


@dataclass(frozen=True, kw_only=True)
class VolumeStatus:
    """One emulated volume of a root directory.

    Args:
        status: `running`; `stopped`: only its bytes are there; `leftover`: attached, but who started it is dead, or
            its daemon is.
        owner_pid: who started it; None for one that outlives the command that made it.
    """

    name: str
    directory: Path
    data: Path
    profile: str
    parameters: Mapping[str, Any]
    status: Status
    owner_pid: int | None


def emulated_behind(mount_point: str | None) -> tuple[Path, dict[str, Any]] | None:
    """The emulated volume that is mounted somewhere, if one is: its directory, and what its facts have to say."""
    if mount_point is None or Path(mount_point).name != "data":
        return None
    directory = Path(mount_point).parent
    volume = _read_volume(directory)
    if volume is None:
        return None
    said = {
        "emulated_profile": str(volume.get("profile")),
        "emulated_parameters": dict(volume.get("parameters") or {}),
    }
    return directory, said


def list_volumes(root: Path) -> tuple[VolumeStatus, ...]:
    """The emulated volumes below a directory, ours by their markers. Never waits for a volume."""
    found = []
    for directory in sorted(path.parent for path in root.resolve().glob("*/volume.json")):
        volume = _read_volume(directory)
        if volume is None:
            continue
        owner = volume.get("owner")
        found.append(
            VolumeStatus(
                name=directory.name,
                directory=directory,
                data=directory / "data",
                profile=str(volume.get("profile")),
                parameters=dict(volume.get("parameters") or {}),
                status=volume_status(directory),
                owner_pid=owner["pid"] if owner else None,
            )
        )
    return tuple(found)


def clear_leftovers(root: Path) -> tuple[Path, ...]:
    """Take down what killed processes have left attached below a directory; bytes stay. Returns what was cleared.

    Only directories with our marker are looked at, and of these only volumes whose owner is dead, or that have none
    and whose daemon is dead: an owner that lives takes down its own. Raises StepFailed when something cannot be
    taken down.
    """
    cleared = []
    for volume in list_volumes(root):
        if volume.status == "leftover" and not _has_living_owner(volume.directory):
            take_down(volume.directory, force=True)
            cleared.append(volume.directory)
    return tuple(cleared)


def volume_status(directory: Path) -> Status:
    """Whether a volume's directory is in use, at rest, or what a killed process has left. Never waits."""
    locked = is_locked(directory)
    if not locked and not attachments(directory):
        return "stopped"
    owner_is_gone = _owner(directory) is not None and not _has_living_owner(directory)
    return "running" if locked and not owner_is_gone else "leftover"


def _owner(directory: Path) -> dict[str, int] | None:
    return (_read_volume(directory) or {}).get("owner")


def _has_living_owner(directory: Path) -> bool:
    owner = _owner(directory)
    return owner is not None and started_at(owner["pid"]) == owner["started"]


def stop_volume(directory: Path) -> None:
    """Take a volume down in the right order; what is written back meanwhile is not delayed, or it might take hours.

    Raises StepFailed when somebody still uses it; then it goes on as it is.
    """
    with contextlib.suppress(StepFailed):  # no daemon: nothing is delayed either
        ask(directory, {"do": "hurry", "on": True})
    try:
        take_down(directory, force=False)
    except StepFailed:
        with contextlib.suppress(StepFailed):
            ask(directory, {"do": "hurry", "on": False})
        raise


def _read_volume(directory: Path) -> dict[str, Any] | None:
    """Return volume.json of a directory of ours; None where there is none, or somebody else made the directory."""
    try:
        with ownership.held(directory) as held:
            content = parse_json(safe_files.read_regular(held, "volume.json", bytes_max=VOLUME_BYTES_MAX))
    except (OSError, ValueError, VolbenchError):
        return None
    return content if isinstance(content, dict) else None
