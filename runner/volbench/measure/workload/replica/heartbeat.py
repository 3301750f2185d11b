"""Heartbeats: rows that the source commits and the replica shows later, timed on one clock.

This is the method of pt-heartbeat, which itself looks half a second after each beat (`--skew`), prints hundredths
of a second, and in Debian's version sends SHOW MASTER STATUS, which MySQL 8.4 refuses. Seconds_Behind_Source is in
whole seconds.
"""

# ruff: noqa: S608 - names of this module

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volbench.errors import VolbenchError
from volbench.machine.engine.server import Server

SCHEMA = "volbench_heartbeat"
TABLE = f"{SCHEMA}.beat"
BEAT_S = 0.1
POLL_S = 0.01
"""How often the replica is asked; a lag is at most so much, and one query, too long."""
_JOIN_TIMEOUT_S = 30.0
_STATEMENT_TIMEOUT_S = 60
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Beats:
    """Beats by their number; times are seconds of CLOCK_MONOTONIC.

    Args:
        committed_s: when the source had committed each, shape (beats,).
        visible_s: when the replica showed each, shape (visible beats,), at most as many.
    """

    committed_s: Floats
    visible_s: Floats

    def lags_ms(self, begin_s: float, end_s: float) -> Floats:
        """Return the lag of each beat that was committed in that time, the replica's answer included.

        A beat that the replica has not shown has an infinite one: it is longer than those of all others.
        """
        visible_s = np.full(len(self.committed_s), np.inf)
        visible_s[: len(self.visible_s)] = self.visible_s[: len(visible_s)]
        lags = (visible_s - self.committed_s)[self._chosen(begin_s, end_s)]
        # The replica may show a beat before the source's answer is here.
        return np.asarray(np.maximum(lags, 0.0) * 1e3, dtype=np.float64)

    def unseen(self, begin_s: float, end_s: float) -> int:
        """Return how many beats that were committed in that time the replica has not shown."""
        return int(self._chosen(begin_s, end_s)[len(self.visible_s) :].sum())

    def _chosen(self, begin_s: float, end_s: float) -> NDArray[np.bool_]:
        return (self.committed_s >= begin_s) & (self.committed_s < end_s)


class Heartbeat:
    """Beats on a source, and looks for them on its replica; both in threads of their own."""

    def __init__(self, source: Server, replica: Server) -> None:
        self._source = source
        self._replica = replica
        self._committed = array("d")
        self._visible = array("d")
        self._stopped = threading.Event()
        self._beating: threading.Thread | None = None
        self._failure: VolbenchError | None = None

    def beats(self) -> Beats:
        """Return the beats so far."""
        committed, visible = self._committed.tolist(), self._visible.tolist()  # a copy: both grow meanwhile
        return Beats(
            committed_s=np.array(committed, dtype=np.float64), visible_s=np.array(visible, dtype=np.float64)
        )

    def lag_s(self) -> float:
        """Return how old the oldest beat is that the replica has not shown; 0 if it has shown all."""
        visible, committed = len(self._visible), len(self._committed)
        return time.monotonic() - self._committed[visible] if visible < committed else 0.0

    def committed_beats(self) -> int:
        """Return how many beats the source has committed."""
        return len(self._committed)

    def visible_beats(self) -> int:
        """Return how many beats the replica has shown."""
        return len(self._visible)

    def check(self) -> None:
        """Raise the failure that ended one of the threads."""
        if self._failure is not None:
            raise self._failure

    def stop_beating(self) -> None:
        """End the beats, the last one committed; the replica is still asked until the block ends."""
        self._stopped.set()
        if self._beating is not None:
            self._beating.join(_JOIN_TIMEOUT_S)

    def all_shown(self) -> bool:
        """Return whether the replica has shown every beat."""
        return len(self._visible) >= len(self._committed)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Beat during the block. The schema is dropped afterwards, on the source and so on the replica."""
        self._source.query(f"DROP DATABASE IF EXISTS {SCHEMA}")
        self._source.query(f"CREATE DATABASE {SCHEMA}")
        self._source.query(f"CREATE TABLE {TABLE} (n BIGINT NOT NULL PRIMARY KEY) ENGINE=InnoDB")
        ended = threading.Event()
        threads = [
            threading.Thread(target=self._guarded, args=(work,), daemon=True)
            for work in (self._beat, lambda: self._watch(ended))
        ]
        self._beating = threads[0]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            ended.set()
            for thread in threads:
                thread.join(_JOIN_TIMEOUT_S)
        self._source.query(f"DROP DATABASE {SCHEMA}")

    def clean_replica(self) -> None:
        """Drop the schema on a server that is no replica any more, and may not have applied the source's drop."""
        self._replica.query(f"DROP DATABASE IF EXISTS {SCHEMA}")

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except VolbenchError as error:
            self._failure = self._failure or error

    def _beat(self) -> None:
        with self._source.connect(timeout_s=_STATEMENT_TIMEOUT_S) as opened, opened.cursor() as cursor:
            due_s = time.monotonic()
            while not self._stopped.wait(max(0.0, due_s - time.monotonic())):
                cursor.execute(f"INSERT INTO {TABLE} VALUES ({len(self._committed)})")
                self._committed.append(time.monotonic())
                due_s = max(due_s + BEAT_S, time.monotonic() - BEAT_S)

    def _watch(self, ended: threading.Event) -> None:
        """Ask the replica for the last beat; all before it are there too, since commits keep their order."""
        with self._replica.connect(timeout_s=_STATEMENT_TIMEOUT_S) as opened, opened.cursor() as cursor:
            while not ended.wait(POLL_S):
                cursor.execute(f"SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '{SCHEMA}'")
                if _number(cursor.fetchall()):
                    break
            while not ended.wait(POLL_S):
                cursor.execute(f"SELECT MAX(n) FROM {TABLE}")
                last = _number(cursor.fetchall())
                now_s = time.monotonic()
                while last is not None and len(self._visible) <= last:
                    self._visible.append(now_s)


def _number(rows: Sequence[Any]) -> int | None:
    """Return the only value of a result; None for NULL."""
    value = rows[0][0]
    return int(str(value)) if value is not None else None
