"""Ctrl-C, SIGTERM and a closed terminal end a run in good order: once, and never in the middle of cleaning up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruptions:
    """The first signal raises KeyboardInterrupt; a second one asks to hurry, and disturbs nothing."""

    def __init__(self) -> None:
        self.hurry = threading.Event()
        self._seen = False
        self._held = 0

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Take the signals during the block; only the main thread can, elsewhere they stay as they are."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        for number, handler in before.items():
            if number != signal.SIGHUP or handler is not signal.SIG_IGN:  # nohup(1) means it
                signal.signal(number, self._take)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def check(self) -> None:
        """Raise KeyboardInterrupt in a thread that signals do not reach, when one has been seen."""
        if self._seen and threading.current_thread() is not threading.main_thread():
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        """A signal in the block is raised at its end, unless another exception passes."""
        seen_before = self._seen
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        if self._seen and not seen_before and not self._held:
            raise KeyboardInterrupt

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        if self._seen:
            self.hurry.set()
            return
        self._seen = True
        if not self._held:
            raise KeyboardInterrupt
