"""What can be wrong with a volume, told in one way: cause, words, next step and exit code.

Whoever notices it, the copy, the watch, a write that fails, or the server in its log: the same trouble has the same
cause and ends with the same exit code. What the user has to provide (space, a writable mount, a right) is what the
environment lacks, exit code 3; a volume that goes away or fails is a failure of the step, exit code 5.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path

from volbench.errors import EXIT_STEP_FAILED, EnvironmentLacks, StepFailed, VolbenchError

_FULL_BELOW_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class TroubleKind:
    """One kind of trouble.

    Args:
        errors: error numbers that tell of it wherever they come from.
        errors_on_volume: those that tell of it only from a call that was about the volume.
        log: what a server's log says of it; None: nothing that could be told apart.
    """

    cause: str
    what: str
    next_step: str
    error_class: type[VolbenchError]
    errors: frozenset[int]
    errors_on_volume: frozenset[int] = frozenset()
    log: re.Pattern[str] | None = None

    @property
    def exit_code(self) -> int:
        """The exit code of the command that met it."""
        return self.error_class.exit_code


KINDS = (
    TroubleKind(
        cause="volume_full",
        what="the volume is full",
        next_step="free space on it, raise its quota, or make the suite's dataset smaller "
        "(--set dataset.rows=...), then `volbench resume`",
        error_class=EnvironmentLacks,
        errors=frozenset({errno.ENOSPC, errno.EDQUOT}),
        log=re.compile(
            r"no space left on device|errno:? 28\b|error number 28\b|disk is full|disk full|out of disk space",
            re.IGNORECASE,
        ),
    ),
    TroubleKind(
        cause="volume_read_only",
        what="the volume is read-only",
        next_step="see the kernel's log (dmesg) for why it became read-only, mount it writable, then "
        "`volbench resume`",
        error_class=EnvironmentLacks,
        errors=frozenset({errno.EROFS}),
        log=re.compile(r"read-only file system|errno:? 30\b|error number 30\b", re.IGNORECASE),
    ),
    TroubleKind(
        cause="volume_gone",
        what="the volume is gone, or fails",
        next_step="see the kernel's log (dmesg), attach and mount the volume again, then `volbench resume`",
        error_class=StepFailed,
        errors=frozenset({
            errno.EIO, errno.ENODEV, errno.ENXIO, errno.ENOTCONN, errno.ESTALE, errno.ESHUTDOWN, errno.ENOMEDIUM,
        }),
        errors_on_volume=frozenset({errno.ENOENT}),
        log=re.compile(
            r"input/output error|errno:? 5\b|error number 5\b|stale (nfs )?file handle|errno:? 116\b"
            r"|transport endpoint is not connected|errno:? 107\b|no such device|errno:? 19\b",
            re.IGNORECASE,
        ),
    ),
    TroubleKind(
        cause="volume_denied",
        what="the volume may not be written to",
        next_step="give this user the right to write there",
        error_class=EnvironmentLacks,
        errors=frozenset(),
        errors_on_volume=frozenset({errno.EACCES, errno.EPERM}),
    ),
)  # fmt: skip
CAUSES = frozenset(kind.cause for kind in KINDS)


@dataclass(frozen=True, kw_only=True)
class VolumeTrouble:
    """A cause, and what was seen of it."""

    cause: str
    evidence: str


def kind_of(cause: str) -> TroubleKind | None:
    """Return the kind of trouble that has a cause; None for causes that are not a volume's."""
    return next((kind for kind in KINDS if kind.cause == cause), None)


def cause_of(error: OSError, *, on_volume: bool = False) -> str:
    """Return the cause that an error number tells of; empty for others.

    Args:
        on_volume: the call was about the volume, so that a file that is absent means a volume that is.
    """
    number = error.errno or 0
    for kind in KINDS:
        if number in kind.errors or (on_volume and number in kind.errors_on_volume):
            return kind.cause
    return ""


def exit_code_of(cause: str) -> int:
    """Return the exit code for a cause; 5 for causes that are not a volume's."""
    kind = kind_of(cause)
    return EXIT_STEP_FAILED if kind is None else kind.exit_code


def trouble_error(trouble: VolumeTrouble, *, where: str, also: str = "") -> VolbenchError:
    """Return the trouble as a failure; `also` is what was seen of it first."""
    evidence = "; ".join(part for part in (also, trouble.evidence) if part)
    kind = kind_of(trouble.cause)
    if kind is None:
        return StepFailed("the volume failed", where, evidence, "see dmesg for errors of the device", trouble.cause)
    return kind.error_class(kind.what, where, evidence, kind.next_step, trouble.cause)


def volume_failure(error: OSError, *, phase: str) -> VolbenchError:
    """Return the failure that an OSError of a call on a volume is; `volume_error` where its number tells none."""
    seen = f"{errno.errorcode.get(error.errno or 0, 'errno ?')}: {error.strerror or error}"
    evidence = f"{seen} ({error.filename})" if error.filename else seen
    cause = cause_of(error, on_volume=True) or "volume_error"
    return trouble_error(VolumeTrouble(cause=cause, evidence=evidence), where=phase)


def look_at_volume(directory: Path) -> VolumeTrouble | None:
    """Return what the file system of a directory says is wrong with it; None when it looks well."""
    try:
        found = os.statvfs(directory)
    except OSError as error:
        cause = cause_of(error, on_volume=True) or "volume_gone"
        return VolumeTrouble(cause=cause, evidence=f"{directory}: {os.strerror(error.errno or 0)}")
    free = found.f_bavail * found.f_frsize
    if found.f_flag & os.ST_RDONLY:
        return VolumeTrouble(cause="volume_read_only", evidence=f"{directory} is on a read-only mount")
    if found.f_blocks and free < _FULL_BELOW_BYTES:
        return VolumeTrouble(cause="volume_full", evidence=f"{free} bytes are free at {directory}")
    return None
