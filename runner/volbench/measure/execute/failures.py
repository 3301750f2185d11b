"""Tells failures that meet one cell by chance from those that meet every cell, which end a run."""

from __future__ import annotations

import threading

FAILED_MAX = 2
"""With fewer, nothing is concluded."""
FAILED_SHARE_MAX = 0.05
"""Of those that have ended: of 1,000 cells over nodes that come and go, two fail by chance."""


class FailureCount:
    """Failures among cells, or lanes, that have ended. Threads may share it."""

    def __init__(self) -> None:
        self._failed, self._ended = 0, 0
        self._lock = threading.Lock()

    def add(self, *, failed: bool) -> bool:
        """Count one that has ended; return whether it failed and so many did that others would too."""
        with self._lock:
            self._ended += 1
            self._failed += failed
            return failed and self._failed >= FAILED_MAX and self._failed > FAILED_SHARE_MAX * self._ended
