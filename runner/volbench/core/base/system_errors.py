"""What the operating system refuses anywhere, as an expected failure: a full disk, no memory, no descriptors."""

from __future__ import annotations

import errno
import re

from volbench.errors import MissingPrerequisite

_NEXT_STEPS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free space there, then repeat the command"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit of open files (ulimit -n), then repeat it"),
    **dict.fromkeys((errno.ENOMEM, errno.ENOBUFS), "free memory, then repeat the command"),
    errno.EIO: "read `dmesg` for errors of the device, then repeat the command",
    errno.EROFS: "mount the file system writable, then repeat the command",
    **dict.fromkeys(
        (
            errno.ECONNRESET,
            errno.ECONNREFUSED,
            errno.ECONNABORTED,
            errno.ETIMEDOUT,
            errno.EHOSTUNREACH,
            errno.ENETUNREACH,
            errno.ENETDOWN,
        ),
        "check the connection, then repeat the command",
    ),
}
"""Errors of the machine that no command can avoid, with what to do. Others are faults of volbench."""


_NO_ANSWER = re.compile("without (exception set|setting an exception)")
"""Of a SystemError: an extension in C failed and did not say why, which numpy does where it gets no memory."""


def refusal_of_system(error: BaseException, where: str = "") -> MissingPrerequisite | None:
    """Return an error of the operating system, or of what it caused, as one of volbench; None for any other.

    Args:
        where: the file, where the error does not name one.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or (isinstance(cause, SystemError) and _NO_ANSWER.search(str(cause))):
            return MissingPrerequisite(
                "the machine gave no memory", where=where, next_step=_NEXT_STEPS[errno.ENOMEM]
            )
        if isinstance(cause, OSError) and cause.errno in _NEXT_STEPS:
            return MissingPrerequisite(
                "the operating system refused a call",
                where=where or str(cause.filename or ""),
                evidence=cause.strerror or str(cause),
                next_step=_NEXT_STEPS[cause.errno],
            )
        cause = cause.__cause__ or cause.__context__
    return None
