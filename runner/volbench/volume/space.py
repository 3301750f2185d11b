"""Free space, and failures of a volume told by their cause: full, read-only, gone."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from volbench.errors import EnvironmentLacks, StepFailed

_MIB = 1 << 20
_FREE_SPACE = "free space on it, or make the suite's dataset smaller (--set dataset.rows=...)"
_GONE = frozenset(
    {
        errno.EIO,
        errno.ENOENT,
        errno.ENODEV,
        errno.ENXIO,
        errno.ENOTCONN,
        errno.ESTALE,
        errno.ESHUTDOWN,
        errno.ENOMEDIUM,
    }
)


def free_bytes(path: Path) -> int:
    """Bytes that this user can still write to the filesystem of `path`. Raises EnvironmentLacks, StepFailed."""
    try:
        status = os.statvfs(path)
    except OSError as error:
        raise volume_failure(error, phase=f"asking for the free space of {path}") from error
    return status.f_bavail * status.f_frsize


def require_space(path: Path, bytes_needed: int, *, next_step: str = _FREE_SPACE) -> None:
    """Raise EnvironmentLacks (cause volume_full) when a filesystem has less free space than needed."""
    free = free_bytes(path)
    if free < bytes_needed:
        raise EnvironmentLacks(
            "the volume has too little free space",
            where=str(path),
            evidence=f"{free / _MIB:.0f} MiB free, {bytes_needed / _MIB:.0f} MiB needed",
            next_step=next_step,
            cause="volume_full",
        )


def volume_failure(error: OSError, *, phase: str) -> EnvironmentLacks | StepFailed:
    """The failure that an OSError on a volume is; its `cause` is the stable word.

    volume_full (ENOSPC, EDQUOT), volume_read_only (EROFS), volume_denied (EACCES, EPERM): the environment lacks
    something. volume_gone (EIO, ENOENT, ENODEV, ESTALE, ...: what a detached device gives), volume_error (all
    others): the step failed.
    """
    number = error.errno or 0
    seen = f"{errno.errorcode.get(number, 'errno ?')}: {error.strerror or error}"
    evidence = f"{seen} ({error.filename})" if error.filename else seen
    if number in (errno.ENOSPC, errno.EDQUOT):
        next_step = "free space on the volume or raise its quota, then `volbench resume`"
        return EnvironmentLacks("the volume is full", phase, evidence, next_step, cause="volume_full")
    if number == errno.EROFS:
        next_step = "see dmesg for why it became read-only, repair and remount it, then `volbench resume`"
        return EnvironmentLacks("the volume is read-only", phase, evidence, next_step, cause="volume_read_only")
    if number in (errno.EACCES, errno.EPERM):
        next_step = "give this user the right to write there"
        return EnvironmentLacks(
            "the volume may not be written to", phase, evidence, next_step, cause="volume_denied"
        )
    if number in _GONE:
        next_step = "see dmesg, and that the volume is attached and mounted, then `volbench resume`"
        return StepFailed("the volume is gone, or fails", phase, evidence, next_step, cause="volume_gone")
    next_step = "see dmesg for errors of the device"
    return StepFailed("the volume failed", phase, evidence, next_step, cause="volume_error")
