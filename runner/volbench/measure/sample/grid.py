"""The grid of ticks: whole multiples of the interval after the cell's zero, whatever reading takes."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TickGrid:
    """Tick n is due at `zero_monotonic_ns` + n * `interval_ns` on CLOCK_MONOTONIC."""

    zero_monotonic_ns: int
    interval_ns: int

    def now_ns(self) -> int:
        """Return the clock."""
        return time.monotonic_ns()

    def next_tick(self, now_ns: int) -> int:
        """Return the first tick that is due after `now_ns`.

        Ticks that passed meanwhile are missed, not made up for.
        """
        return (now_ns - self.zero_monotonic_ns) // self.interval_ns + 1

    def due_ns(self, tick: int) -> int:
        """Return when a tick is due."""
        return self.zero_monotonic_ns + tick * self.interval_ns

    def t_s(self, monotonic_ns: int) -> float:
        """Return seconds since the cell's zero, to the microsecond."""
        return round((monotonic_ns - self.zero_monotonic_ns) / 1e9, 6)
