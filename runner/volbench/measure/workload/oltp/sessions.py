"""The sessions of a load that was ended before its transactions were: the server still rolls them back."""

from __future__ import annotations

import time

from volbench.core.base.text import counted
from volbench.errors import StepFailed
from volbench.measure.workload.failures import with_server_cause
from volbench.measure.workload.interface import StepContext

_POLL_S = 0.02
TIMEOUT_S = 120.0
"""As long as sysbench itself may take for its last transactions."""


class LoadSessions:
    """Knows the sessions that a load opens from now on, by their ids; samplers have sessions without a schema."""

    def __init__(self, ctx: StepContext) -> None:
        self._ctx = ctx
        self._before = int(ctx.server.query("SELECT CONNECTION_ID()")[0][0])

    def wait_closed(self, *, where: str, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until the server has none of them left, and so has rolled back what they had begun.

        Raises StepFailed at the time-out, when the step is cancelled, and when the server does not answer.
        """
        until_s = time.monotonic() + timeout_s
        try:
            while left := self._left():
                if self._ctx.cancelled.is_set():
                    raise StepFailed(
                        "the step was cancelled while its last transactions were rolled back", where=where
                    )
                if time.monotonic() > until_s:
                    raise StepFailed(
                        "the server does not end the sessions of a load that has ended",
                        where=where,
                        evidence=f"{counted(left, 'session')} left after {timeout_s:g} s",
                    )
                time.sleep(_POLL_S)
        except StepFailed as failure:
            raise with_server_cause(failure, self._ctx) from failure

    def _left(self) -> int:
        listed = (
            "SELECT COUNT(*) FROM information_schema.processlist"  # noqa: S608 - a number
            f" WHERE id > {self._before} AND db IS NOT NULL AND id <> CONNECTION_ID()"
        )
        return int(self._ctx.server.query(listed)[0][0])
