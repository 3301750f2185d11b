"""Free space of a volume."""

from __future__ import annotations

import os
from pathlib import Path

from volbench.core.base.units import MIB
from volbench.errors import MissingPrerequisite
from volbench.machine.volume.trouble import volume_failure

_FREE_SPACE = "free space on it, or make the suite's dataset smaller (--set dataset.rows=...)"


def free_bytes(path: Path) -> int:
    """Return the bytes that this user can write to the filesystem of `path`.

    Raises MissingPrerequisite, StepFailed.
    """
    try:
        status = os.statvfs(path)
    except OSError as error:
        raise volume_failure(error, phase=f"reading the free space of {path}") from error
    return status.f_bavail * status.f_frsize


def require_space(path: Path, bytes_needed: float, *, purpose: str = "", next_step: str = _FREE_SPACE) -> None:
    """Raise MissingPrerequisite (cause volume_full) if a filesystem has less free space than needed.

    Args:
        purpose: the use of the space, for the message.
    """
    free = free_bytes(path)
    if free < bytes_needed:
        raise MissingPrerequisite(
            f"not enough free space for {purpose}" if purpose else "the volume has too little free space",
            where=str(path),
            evidence=f"{free / MIB:.0f} MiB free, {bytes_needed / MIB:.0f} MiB needed",
            next_step=next_step,
            cause="volume_full",
        )
