"""Consideration for a source in use: chunks wait while it has much to do, and no snapshot gets old.

A snapshot keeps every row version that came after it, so a long one slows the source for all. The log's position is
compared before and after a validation, so that what changes between two snapshots decides nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from volbench.errors import StepFailed
from volbench.machine.engine.answers import reads_answers, whole_number
from volbench.validation.data.replicas import REPLICA_STATUS
from volbench.validation.source.server import SNAPSHOT, SqlReader

THREADS_RUNNING_MAX = 25
"""pt-table-checksum's --max-load."""
LAG_S_MAX = 1
"""pt-table-checksum's --max-lag; of the source, where it is a replica."""
SNAPSHOT_S_MAX = 120.0
THREADS_RUNNING = "SHOW GLOBAL STATUS LIKE 'Threads_running'"
_LOOK_EVERY_S = 1.0
_WAIT_S_MAX = 600.0
"""Of a validation: a source that never rests is read all the same, chunk by chunk."""
_LAG_COLUMN = 32
"""Of Seconds_Behind_Source, formerly Seconds_Behind_Master, in the answers of MySQL and MariaDB."""


class Throttle:
    """Waits before chunks. `waited_s` says how long it did."""

    def __init__(
        self,
        source: SqlReader,
        candidate: SqlReader,
        *,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._source, self._candidate = source, candidate
        self._clock_s, self._sleep = clock_s, sleep
        self._looked_s = self._snapshot_s = clock_s()
        self._lag_statement: str | None = ""
        self.waited_s = 0.0

    def wait(self) -> None:
        """Return when the source has time for a chunk, or was waited for long enough; in a recent snapshot."""
        now_s = self._clock_s()
        if now_s - self._looked_s >= _LOOK_EVERY_S:
            self._looked_s = now_s
            while self.waited_s < _WAIT_S_MAX and self._is_busy():
                self._sleep(_LOOK_EVERY_S)
                self.waited_s += _LOOK_EVERY_S
        if self._clock_s() - self._snapshot_s >= SNAPSHOT_S_MAX:
            for side in (self._source, self._candidate):
                side.query(SNAPSHOT)  # ends the transaction before it
            self._snapshot_s = self._clock_s()

    @reads_answers("load")
    def _is_busy(self) -> bool:
        running = [whole_number(row[1]) for row in self._source.query(THREADS_RUNNING)]
        return any(count > THREADS_RUNNING_MAX for count in running) or self._lag_s() > LAG_S_MAX

    def _lag_s(self) -> int:
        """Return the source's lag; 0 where it is no replica, does not apply, or the account may not see it."""
        statements = REPLICA_STATUS if self._lag_statement == "" else (self._lag_statement,)
        for statement in filter(None, statements):
            with suppress(StepFailed):
                rows = self._source.query(statement)
                self._lag_statement = statement
                lags = [row[_LAG_COLUMN] for row in rows if len(row) > _LAG_COLUMN]
                return max((whole_number(lag) for lag in lags if lag is not None), default=0)
        self._lag_statement = None  # neither is asked again
        return 0
