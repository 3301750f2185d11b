"""Ctrl-C, SIGTERM and a closed terminal end a run cleanly: once, and never in the middle of a cleanup."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruptions:
    """The first signal raises KeyboardInterrupt; a second signal sets `forced` and interrupts nothing."""

    def __init__(self) -> None:
        self.forced = threading.Event()
        self._received = False
        self._deferrals = 0
        self._in_main_thread = False

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle the signals during the block; only the main thread can, in other threads this changes nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._in_main_thread = True
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        for number, handler in before.items():
            if number != signal.SIGHUP or handler is not signal.SIG_IGN:  # ignored under nohup(1)
                signal.signal(number, self._handle)
        try:
            yield
        finally:
            self._in_main_thread = False  # a late `interrupt` must not reach what the caller does next
            for number, handler in before.items():
                signal.signal(number, handler)

    def interrupt(self) -> None:
        """Interrupt the block as Ctrl-C does, from any thread; without effect once the block has ended."""
        if self._in_main_thread:
            os.kill(os.getpid(), signal.SIGINT)  # Python runs handlers in the main thread
        else:
            self._received = True

    def check(self) -> None:
        """Raise KeyboardInterrupt in a thread that signals do not reach, once a signal has come."""
        if self._received and threading.current_thread() is not threading.main_thread():
            raise KeyboardInterrupt

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Defer a signal in the block until its end, unless the block raises another exception."""
        received_before = self._received
        self._deferrals += 1
        try:
            yield
        finally:
            self._deferrals -= 1
        if self._received and not received_before and not self._deferrals:
            raise KeyboardInterrupt

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self._received:
            self.forced.set()
            return
        self._received = True
        if not self._deferrals:
            raise KeyboardInterrupt
