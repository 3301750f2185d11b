"""What a statement that does nothing takes: the way to the server and the client's own time, which no log has."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import mysql.connector

from volbench.engine.connection import Account, connection

INTERVAL_S = 0.1
"""Often enough for a 95th percentile of a short replay, and next to nothing for the server."""
EMPTY_STATEMENT = "DO 0"
_TIMEOUT_S = 60.0


class RoundTrips:
    """Asks the server for nothing while a replay runs, in the process that sends, so that it waits as that does."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.round_trips_s: list[float] = []

    def start(self) -> None:
        """From now on, until `stop`."""
        self._thread.start()

    def stop(self) -> Sequence[float]:
        """What it took each time; nothing where the server did not let it in."""
        self._done.set()
        self._thread.join(2 * INTERVAL_S)
        return tuple(self.round_trips_s)

    def _run(self) -> None:
        try:
            with (
                connection(self._account, timeout_s=_TIMEOUT_S) as opened_connection,
                opened_connection.cursor() as cursor,
            ):
                while not self._done.wait(INTERVAL_S):
                    began = time.monotonic()
                    cursor.execute(EMPTY_STATEMENT)
                    self.round_trips_s.append(time.monotonic() - began)
        except mysql.connector.Error:
            return  # the statements themselves tell what is wrong with the server
