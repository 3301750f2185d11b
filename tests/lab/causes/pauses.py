"""Processes that are stopped again and again: the way to the server, the client."""

from __future__ import annotations

import signal
import threading
from abc import abstractmethod

from causes.injectors import Injector


class PeriodicPause(Injector):
    """Processes are stopped for `pause_ms`, every `every_s`."""

    _thread: threading.Thread | None = None

    @abstractmethod
    def signal(self, number: signal.Signals) -> None:
        """Send SIGSTOP or SIGCONT to the processes."""

    def on(self) -> None:
        """Begin."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._stop_and_go, name="pauses", daemon=True)
        self._thread.start()

    def off(self) -> None:
        """SIGCONT."""
        if self._thread is not None:
            self._over.set()
            self._thread.join(timeout=10)
            self._thread = None

    def _stop_and_go(self) -> None:
        pause_s, every_s = float(self.spec["pause_ms"]) / 1000, float(self.spec["every_s"])
        while not self._over.wait(every_s - pause_s):
            self.signal(signal.SIGSTOP)
            try:
                self._over.wait(pause_s)
            finally:
                self.signal(signal.SIGCONT)
