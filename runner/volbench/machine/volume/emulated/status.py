"""The emulated volumes of a directory: their status, and what killed processes left attached."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from volbench.core.base import ownership, safe_files
from volbench.core.base.marker import MARKER
from volbench.core.base.parse import parse_json
from volbench.errors import Refused, StepFailed, VolbenchError
from volbench.machine.volume.emulated.attachments import attachments, process_namespace, process_start_ticks
from volbench.machine.volume.emulated.control import ask
from volbench.machine.volume.emulated.exclusive import changing
from volbench.machine.volume.emulated.teardown import await_daemon, is_locked, take_down

Status = Literal["running", "stopped", "leftover"]
VOLUME_BYTES_MAX = 1 << 20
PURPOSE = "emulated volume"
"""In the marker of a volume's directory."""


@dataclass(frozen=True, kw_only=True)
class VolumeStatus:
    """One emulated volume of a root directory.

    Args:
        profile: empty for a directory without a description, which a start that was killed leaves.
        status: `running`; `stopped`: only its data exists; `leftover`: attached, but its owner or its daemon is
            dead.
        owner_pid: the process that started it; None for a volume that outlives its command.
        owner_is_alive: whether that process still runs.
    """

    name: str
    directory: Path
    data: Path
    profile: str
    parameters: Mapping[str, Any]
    status: Status
    owner_pid: int | None
    owner_is_alive: bool = False


def emulated_behind(mount_point: str | None) -> tuple[Path, dict[str, Any]] | None:
    """Return directory and facts of the emulated volume of a mount point; None if it is not emulated."""
    if mount_point is None or Path(mount_point).name != "data":
        return None
    directory = Path(mount_point).parent
    volume = _read_volume(directory)
    if volume is None:
        return None
    facts = {
        "emulated_profile": str(volume.get("profile")),
        "emulated_parameters": dict(volume.get("parameters") or {}),
    }
    return directory, facts


def list_volumes(root: Path) -> tuple[VolumeStatus, ...]:
    """Return the marked emulated volumes below a directory. Never waits for a volume."""
    directories = sorted(path.parent for path in root.resolve().glob(f"*/{MARKER}"))
    return tuple(volume for volume in map(read_status, directories) if volume is not None)


def read_status(directory: Path) -> VolumeStatus | None:
    """Return the emulated volume of a marked directory; None where there is none. Never waits for it."""
    volume = _read_volume(directory)
    if volume is None:
        if not _is_for_a_volume(directory):
            return None
        volume = {"profile": ""}
    owner = volume.get("owner")
    return VolumeStatus(
        name=directory.name,
        directory=directory,
        data=directory / "data",
        profile=str(volume.get("profile")),
        parameters=dict(volume.get("parameters") or {}),
        status=volume_status(directory),
        owner_pid=owner["pid"] if owner else None,
        owner_is_alive=_has_living_owner(directory),
    )


def clear_leftovers(root: Path) -> tuple[Path, ...]:
    """Take down what killed processes have left attached below a directory; bytes stay. Returns what was cleared.

    Only directories with our marker are looked at, and of these only volumes whose owner is dead, or that have none
    and whose daemon is dead: an owner that lives takes down its own. Raises StepFailed when something cannot be
    taken down.
    """
    cleared = []
    for volume in list_volumes(root):
        if _is_abandoned(volume.directory) or _may_be_ending(volume.directory):
            with contextlib.suppress(Refused), changing(volume.directory):  # else another process is at it
                if settled_status(volume.directory) == "leftover" and not _has_living_owner(volume.directory):
                    take_down(volume.directory, force=True)
                    cleared.append(volume.directory)
    return tuple(cleared)


def settled_status(directory: Path) -> Status:
    """Return the status once a killed daemon has let go of its lock; the caller is `changing` the volume."""
    if _may_be_ending(directory):
        await_daemon(directory)
    return volume_status(directory)


def _may_be_ending(directory: Path) -> bool:
    """Return whether a volume without an owner is attached, and locked by a process that does not show itself."""
    if _owner(directory) is not None or not is_locked(directory):
        return False
    present = attachments(directory)
    return bool(present) and not present.daemons


def _is_abandoned(directory: Path) -> bool:
    return volume_status(directory) == "leftover" and not _has_living_owner(directory)


def volume_status(directory: Path) -> Status:
    """Return whether a volume's directory is in use, at rest, or what a killed process has left. Never waits."""
    locked = is_locked(directory)
    if not locked and not attachments(directory):
        return "stopped"
    owner_is_gone = _owner(directory) is not None and not _has_living_owner(directory)
    return "running" if locked and not owner_is_gone else "leftover"


def _owner(directory: Path) -> dict[str, Any] | None:
    return (_read_volume(directory) or {}).get("owner")


def _has_living_owner(directory: Path) -> bool:
    """Return whether a volume's owner lives; in another container it lives as long as its daemon."""
    owner = _owner(directory)
    if owner is None:
        return False
    if owner.get("namespace", process_namespace()) != process_namespace():
        return is_locked(directory)
    return bool(process_start_ticks(owner["pid"]) == owner["started"])


def stop_volume(directory: Path) -> None:
    """Take a volume down in the right order; the writeback is not delayed, since it might take hours.

    Raises StepFailed if another process uses it; then the volume keeps running.
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
    """Return volume.json of a marked directory; None without file or marker."""
    try:
        with ownership.open_owned(directory) as descriptor:
            content = parse_json(safe_files.read_regular(descriptor, "volume.json", bytes_max=VOLUME_BYTES_MAX))
    except (OSError, ValueError, VolbenchError):
        return None
    return content if isinstance(content, dict) and _is_description(content) else None


def _is_for_a_volume(directory: Path) -> bool:
    """Return whether a directory has a valid marker that was made for an emulated volume."""
    try:
        with ownership.open_owned(directory) as descriptor:
            marker = parse_json(safe_files.read_regular(descriptor, MARKER, bytes_max=VOLUME_BYTES_MAX))
    except (OSError, ValueError, VolbenchError):
        return False
    return isinstance(marker, dict) and marker.get("purpose") == PURPOSE


def _is_description(content: Mapping[str, Any]) -> bool:
    owner, parameters = content.get("owner"), content.get("parameters")
    return (parameters is None or isinstance(parameters, dict)) and (
        owner is None
        or (isinstance(owner, dict) and all(isinstance(owner.get(k), int) for k in ("pid", "started")))
    )
