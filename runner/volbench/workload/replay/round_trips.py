"""Measures the round trip of an empty statement: the network and the client's own time, which no log includes."""

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
    """Sends empty statements during a replay, in the sending process, so that they wait like the replay's."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.round_trips_s: list[float] = []

    def start(self) -> None:
        """Start, until `stop`."""
        self._thread.start()

    def stop(self) -> Sequence[float]:
        """Stop, and return the round trips; empty where the server refused the connection."""
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
            return  # the statements of the replay report what is wrong with the server
