"""Measures the round trip of an empty statement: the network and the client's own time, which no log includes."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress

import mysql.connector

from volbench.machine.engine.connection import Account, connection

INTERVAL_S = 0.1
"""Often enough for a 95th percentile of a short replay, and next to nothing for the server."""
EMPTY_STATEMENT = "DO 0"
_TIMEOUT_S = 60.0


class RoundTrips:
    """Sends empty statements beside other work, in the process that does this work, so that they wait as it does.

    Args:
        account: the server's address and credentials.
        prepare: statements for the connection before the first round trip; what the server refuses is passed over.
    """

    def __init__(self, account: Account, prepare: Sequence[str] = ()) -> None:
        self._account = account
        self._prepare = prepare
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="round-trips", daemon=True)
        self.round_trips_s: list[float] = []

    def start(self) -> None:
        """Start, until `stop`."""
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Return whether statements are sent: not before `start`, and not after the connection is lost."""
        return self._thread.is_alive()

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
                for statement in self._prepare:
                    with suppress(mysql.connector.errors.ProgrammingError):
                        cursor.execute(statement)
                while not self._done.wait(INTERVAL_S):
                    began = time.monotonic()
                    cursor.execute(EMPTY_STATEMENT)
                    self.round_trips_s.append(time.monotonic() - began)
        except (mysql.connector.Error, OSError):
            return  # those who need the server report what is wrong with it
