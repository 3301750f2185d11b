"""Source `progress`: whether sessions of a server in use begin statements, looked at ten times a second.

COM_STATISTICS answers with the number of the server's last statement, and counts as none. A closed loop begins a
statement when one has ended, so that a number that does not grow while statements run says that none of them ends.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import mysql.connector

from volbench.core.records.series import SeriesRow
from volbench.errors import MissingPrerequisite
from volbench.machine.engine.connection import Account, account_from, connection, read_option_file
from volbench.measure.sample.change import Change
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.connection import STATEMENT_TIMEOUT_S
from volbench.measure.sample.interface import Presence, Reading, Sampler, Unavailable, Values
from volbench.measure.sample.shared import Shared

INTERVAL_S = 0.1
ASKED_AFTER_S = 0.25
"""After so long without a new statement it is asked once whether any are running; then once a second."""
ASKED_AGAIN_S = 1.0
LOOKS = 30
USUAL_MIN = 0.85
"""Of the looks of the last seconds: a load that begins statements in fewer of them pauses by itself. Where 19 begin
in a second at random (Poisson), exp(-0.1 * 19) = 15 % of looks see none, and half a second without one comes once
in exp(0.5 * 19) = 13,000, and then mostly with none running."""
FEW = 0.25
"""Of the statements that fit into the time of a late answer: with more of them only the answer was late."""
NO_NUMBER = (LookupError, TypeError, ValueError)
"""What an answer makes that has no number where one is expected."""
_MS = 1000
# The alias tells our statements from those of others where a server counts them together.
_HISTOGRAM = (
    "SELECT COUNT(*) AS volbench FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'performance_schema'"
    " AND TABLE_NAME = 'events_statements_histogram_global'"
)
_HISTOGRAM_TELLS = Presence(present=False, reason="the histogram of statement times tells more")
_RUNNING = "SHOW GLOBAL STATUS WHERE VARIABLE_NAME = 'Threads_running'"
_SCHEDULER = "SELECT @@GLOBAL.event_scheduler = 'ON' AS volbench"


@dataclass(kw_only=True)
class StatementProgress:
    """Follows the count of statements: how many sessions began, and how long none did though some were running.

    Args:
        running: how many statements run now that are not ours; asked only in a pause.
    """

    running: Callable[[], int]
    begun: int = 0
    standstill_s: float = 0.0
    _most: int | None = None
    _since_s: float | None = None
    _asked_s: float = 0.0
    _stands: bool = False
    _looks: deque[int] = field(default_factory=lambda: deque(maxlen=LOOKS))

    def see(self, statements: int, asked_s: float, answered_s: float) -> None:
        """Take the number of statements that were not ours, with the moments of question and answer.

        A number that goes back is an own statement that was booked before it was counted, and no progress. A server
        that is stopped does not answer: the answer is as late as the stand is long.
        """
        grown = 0 if self._most is None else max(0, statements - self._most)
        first, self._most = self._most is None, max(statements, self._most or 0)
        if first:
            return
        self.begun += grown
        took_s = answered_s - asked_s
        if took_s >= ASKED_AFTER_S and self._is_usual and grown <= FEW * self._per_second * took_s:
            self.standstill_s = max(self.standstill_s, took_s)
        if grown:
            self._looks.append(grown)
            self._since_s, self._stands = None, False
        else:
            self._pause(answered_s)

    def _pause(self, now_s: float) -> None:
        if self._since_s is None:
            self._since_s = self._asked_s = now_s
        length_s = now_s - self._since_s
        if not self._stands and length_s >= ASKED_AFTER_S and self._is_usual and now_s >= self._asked_s:
            self._asked_s = now_s + ASKED_AGAIN_S
            self._stands = self.running() > 0
        if self._stands:
            self.standstill_s = max(self.standstill_s, length_s)
        else:
            self._looks.append(0)

    @property
    def _is_usual(self) -> bool:
        """Whether nearly all looks of the last seconds saw new statements."""
        return len(self._looks) == LOOKS and sum(1 for look in self._looks if look) >= USUAL_MIN * LOOKS

    @property
    def _per_second(self) -> float:
        return sum(self._looks) / (len(self._looks) * INTERVAL_S)


class _Looks:
    """Looks at the server all the time, on a connection and in a thread of its own.

    Args:
        account: the server's address and credentials.
        own_statements: how many statements the other connection of this process has sent so far.
    """

    def __init__(self, account: Account, own_statements: Callable[[], int]) -> None:
        self._account = account
        self._own_statements = own_statements
        self._sent = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self.progress: StatementProgress | None = None
        self.has_histogram = False
        self.asked = threading.Event()
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Return whether it looks: not after the connection is lost."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End the looks."""
        self._done.set()

    def _run(self) -> None:
        try:
            with (
                connection(self._account, timeout_s=STATEMENT_TIMEOUT_S) as opened,
                opened.cursor(buffered=True) as cursor,
            ):
                self.has_histogram = bool(self._number(cursor, _HISTOGRAM))
                if self.has_histogram:
                    return
                idle = 1  # ours, which asks
                with suppress(mysql.connector.errors.ProgrammingError):
                    idle += self._number(cursor, _SCHEDULER)  # it counts as running all the time
                self.progress = StatementProgress(running=lambda: self._number(cursor, _RUNNING) - idle)
                self.asked.set()
                while not self._done.wait(INTERVAL_S):
                    self._look(opened)
        except (mysql.connector.Error, OSError, *NO_NUMBER):
            return  # the next reading opens it again
        finally:
            self.asked.set()

    def _look(self, opened: Any) -> None:
        own = self._own_statements() + self._sent
        asked_s = time.monotonic()
        counted = opened.cmd_statistics()
        if self.progress is not None:
            self.progress.see(int(counted["Questions"]) - own, asked_s, time.monotonic())

    def _number(self, cursor: Any, statement: str) -> int:
        """Return the last column of a statement's row, as a number; 0 for none."""
        self._sent += 1
        cursor.execute(statement)
        row = cursor.fetchone()
        return 0 if row is None else int(row[-1] or 0)


class ServerProgress(Sampler):
    """Gives what the looks since the last reading came to.

    Args:
        option_file: its [client] section says where the server is; None: there is none to ask.
        socket: the server's Unix socket; empty: as the option file says.
        own_statements: how many statements the other connection of this process has sent so far.
    """

    source: ClassVar[str] = "progress"
    lane: ClassVar[str] = "progress"
    observed_only: ClassVar[bool] = True

    def __init__(self, option_file: Path | None, socket: str, own_statements: Callable[[], int]) -> None:
        self._option_file = option_file
        self._socket = socket
        self._own_statements = own_statements
        self._looks: _Looks | None = None

    @classmethod
    def from_config(cls, config: SamplingConfig, shared: Shared) -> Sampler:
        """Return the sampler."""
        option_file = Path(config.option_file) if config.option_file else None
        return cls(option_file, config.socket, lambda: shared.server.sent)

    @classmethod
    def is_remote(cls, config: SamplingConfig) -> bool:
        """Return whether there is a server, which may start later."""
        return bool(config.option_file)

    def probe(self) -> Presence:
        """Present where statement times are in no histogram, which is asked once. Starts the looks."""
        if self._looks is not None and self._looks.has_histogram:
            return _HISTOGRAM_TELLS
        looks = self._open()
        if not looks.asked.wait(STATEMENT_TIMEOUT_S):
            raise Unavailable("the server does not answer")
        if looks.has_histogram:
            return _HISTOGRAM_TELLS
        if looks.progress is None:
            raise Unavailable("no connection to the server")
        return Presence(present=True)

    def read(self) -> Values:
        """Return statements begun so far, and the longest standstill since the last reading. Raises Unavailable."""
        looks = self._looks
        if looks is None or looks.progress is None or not looks.is_running:
            self._open()
            raise Unavailable("the connection was lost")
        progress = looks.progress
        longest_s, progress.standstill_s = progress.standstill_s, 0.0
        return {("begun", ""): progress.begun, ("standstill_s", ""): longest_s}

    def close(self) -> None:
        """End the looks."""
        if self._looks is not None:
            self._looks.stop()

    def _open(self) -> _Looks:
        if self._option_file is None:
            raise Unavailable("there is no server to ask")
        if self._looks is None or not self._looks.is_running:
            try:
                account = account_from(read_option_file(self._option_file), socket=self._socket)
            except MissingPrerequisite as error:
                raise Unavailable(error.what) from error
            self._looks = _Looks(account, self._own_statements)
        return self._looks

    @staticmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """Yield longest standstill, and statements begun."""
        change = Change(source=ServerProgress.source, before=before, after=after)
        if not change.usable:
            return
        standstill_s = change.gauge("standstill_s")
        yield from change.rows(
            (
                ("standstill_ms_max", None if standstill_s is None else _MS * standstill_s),
                ("statements_begun_per_s", change.per_s("begun")),
            )
        )
