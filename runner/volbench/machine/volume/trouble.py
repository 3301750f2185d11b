"""Kinds of trouble with a volume: cause, message, next step and exit code.

The same trouble has the same cause and exit code, whether a copy, the watch, a failed write or the server's log
shows it. If the user has to provide something (space, a writable mount, a permission), the exit code is 3; if the
volume goes away or fails, it is a failure of the step, exit code 5.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path

from volbench.errors import EXIT_STEP_FAILED, MissingPrerequisite, StepFailed, VolbenchError
from volbench.machine.volume.answer import in_time

_FULL_BELOW_BYTES = 1 << 20
_ERROR = "(errno:?|error number|with error|got error)"
HANGS = "volume_hangs"
"""The cause where nothing on the volume may be waited for, its removal included."""


@dataclass(frozen=True, kw_only=True)
class TroubleKind:
    """One kind of trouble.

    Args:
        errors: error numbers that mean this trouble in every call.
        errors_on_volume: error numbers that mean it only in a call on the volume.
        log: the pattern of a server's log; None: the log does not identify it.
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
        """The exit code of a command that met the trouble."""
        return self.error_class.exit_code


KINDS = (
    TroubleKind(
        cause="volume_full",
        what="the volume is full",
        next_step="free space on the volume, raise its quota, or make the suite's dataset smaller "
        "(--set dataset.rows=...), then `volbench resume RUN`",
        error_class=MissingPrerequisite,
        errors=frozenset({errno.ENOSPC, errno.EDQUOT}),
        log=re.compile(
            rf"no space left on device|{_ERROR} 28\b|disk is full|disk full|out of disk space",
            re.IGNORECASE,
        ),
    ),
    TroubleKind(
        cause="volume_read_only",
        what="the volume is read-only",
        next_step="look for the reason in the kernel's log (dmesg), mount the volume writable, then "
        "`volbench resume RUN`",
        error_class=MissingPrerequisite,
        errors=frozenset({errno.EROFS}),
        log=re.compile(rf"read-only file system|{_ERROR} 30\b", re.IGNORECASE),
    ),
    TroubleKind(
        cause="volume_gone",
        what="the volume is gone, or fails",
        next_step="see the kernel's log (dmesg), attach and mount the volume again (after `fsck` if the file "
        "system is damaged), then `volbench resume RUN`",
        error_class=StepFailed,
        errors=frozenset(
            {
                errno.EIO,
                errno.ENODEV,
                errno.ENXIO,
                errno.ENOTCONN,
                errno.ESTALE,
                errno.ESHUTDOWN,
                errno.ENOMEDIUM,
                errno.EUCLEAN,
                errno.EBADMSG,
            }
        ),
        errors_on_volume=frozenset({errno.ENOENT}),
        log=re.compile(
            rf"input/output error|{_ERROR} 5\b|stale (nfs )?file handle|errno:? 116\b|structure needs cleaning"
            r"|bad message|transport endpoint is not connected|errno:? 107\b|no such device|errno:? 19\b",
            re.IGNORECASE,
        ),
    ),
    TroubleKind(
        cause=HANGS,
        what="the volume does not answer",
        next_step="see dmesg, and whether its server or device can be reached (NFS: `nfsstat -m`); "
        "then `volbench resume RUN`; what waits for it ends when it answers, or with `umount -f`",
        error_class=StepFailed,
        errors=frozenset(),
        errors_on_volume=frozenset({errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH}),
        log=re.compile(rf"connection timed out|{_ERROR} 110\b", re.IGNORECASE),
    ),
    TroubleKind(
        cause="volume_denied",
        what="this user may not write to the volume",
        next_step="give this user write permission",
        error_class=MissingPrerequisite,
        errors=frozenset(),
        errors_on_volume=frozenset({errno.EACCES, errno.EPERM}),
    ),
)
CAUSES = frozenset(kind.cause for kind in KINDS)


@dataclass(frozen=True, kw_only=True)
class VolumeTrouble:
    """A cause with its evidence."""

    cause: str
    evidence: str


def kind_of(cause: str) -> TroubleKind | None:
    """Return the kind of trouble with a cause; None for other causes."""
    return next((kind for kind in KINDS if kind.cause == cause), None)


def cause_of(error: OSError, *, on_volume: bool = False) -> str:
    """Return the cause that an error number means; empty for others.

    Args:
        on_volume: the call was on the volume, so that a missing file means a missing volume.
    """
    number = error.errno or 0
    for kind in KINDS:
        if number in kind.errors or (on_volume and number in kind.errors_on_volume):
            return kind.cause
    return ""


def exit_code_of(cause: str) -> int:
    """Return the exit code for a cause; 5 for other causes."""
    kind = kind_of(cause)
    return EXIT_STEP_FAILED if kind is None else kind.exit_code


def trouble_error(trouble: VolumeTrouble, *, where: str, also: str = "") -> VolbenchError:
    """Return the trouble as a failure; `also` is earlier evidence."""
    evidence = "; ".join(text for text in (also, trouble.evidence) if text)
    kind = kind_of(trouble.cause)
    if kind is None:
        return StepFailed(
            "the volume failed", where, evidence, "look for errors of the device in dmesg", trouble.cause
        )
    return kind.error_class(kind.what, where, evidence, kind.next_step, trouble.cause)


def volume_failure(error: OSError, *, phase: str) -> VolbenchError:
    """Return an OSError of a call on a volume as a failure; `volume_error` for unknown error numbers."""
    error_text = f"{errno.errorcode.get(error.errno or 0, 'errno ?')}: {error.strerror or error}"
    evidence = f"{error_text} ({error.filename})" if error.filename else error_text
    cause = cause_of(error, on_volume=True) or "volume_error"
    return trouble_error(VolumeTrouble(cause=cause, evidence=evidence), where=phase)


def check_volume_state(directory: Path) -> VolumeTrouble | None:
    """Return what is wrong with the file system of a directory; None if nothing is.

    Returns within ANSWER_S_MAX.
    """
    try:
        status = in_time(lambda: os.statvfs(directory))
    except OSError as error:
        cause = cause_of(error, on_volume=True) or "volume_gone"
        return VolumeTrouble(cause=cause, evidence=f"{directory}: {error.strerror}")
    free = status.f_bavail * status.f_frsize
    if status.f_flag & os.ST_RDONLY:
        return VolumeTrouble(cause="volume_read_only", evidence=f"{directory} is on a read-only mount")
    if status.f_blocks and free < _FULL_BELOW_BYTES:
        return VolumeTrouble(cause="volume_full", evidence=f"{free} bytes are free at {directory}")
    return None
