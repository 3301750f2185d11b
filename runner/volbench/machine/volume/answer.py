"""Calls on a volume that may never answer: an NFS server that is gone, a device that is suspended."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Final, TypeVar

T = TypeVar("T")
ANSWER_S_MAX: Final = 120.0
"""For this long a volume may stand still. A hard NFS mount survives its server's restart in about 60 s, and a stand
is something to measure; the step `oltp` gives a load that ends nothing up after as long."""


def in_time(call: Callable[[], T], *, limit_s: float | None = None) -> T:
    """Return what a call on a volume returns, or raise what it raises.

    A call that hangs in the kernel cannot be ended: its thread is left behind, and ends with the process.

    Args:
        limit_s: seconds to wait; None: ANSWER_S_MAX.

    Raises TimeoutError with ETIMEDOUT when there is no answer in time.
    """
    limit_s = ANSWER_S_MAX if limit_s is None else limit_s
    answer: Future[T] = Future()

    def ask() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            answer.set_exception(error)

    threading.Thread(target=ask, name="volume-call", daemon=True).start()
    if not wait((answer,), timeout=limit_s).done:
        raise TimeoutError(errno.ETIMEDOUT, f"the volume did not answer within {limit_s:g} s")
    return answer.result()
