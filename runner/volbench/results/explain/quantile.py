"""A quantile of transactions as it was recorded, and what the claimed pieces make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Waits = Literal[
    "counted",
    "even",
    "even in its share",
    "queue for CPUs",
    "slices",
    "in turn",
    "stands",
    "stalls of the way",
]
"""How the waits come that a cause makes: each one random, so that their number says how even a transaction is; all
alike, as a limit's or a constant delay's are, or alike in the share that the cause explains; those of saturated
CPUs, or of a quota of them; of a control group that lets operations through in slices of time; of a lock that is
given in turn; of a server that stands still; of packets that are lost, or a way that stands still."""
WaitTime = Literal["", "storage", "CPUs", "locks", "statements", "between statements"]
"""Which seconds of sessions a cause makes longer, so that they say how it varies: statements' less locks and queues
for CPUs, queues for CPUs, locks, whole statements, or those between two; empty: none that are counted."""
TAIL_TIMES = 2.0
TAIL_MS_MIN = 20.0
"""A recorded quantile beyond twice the rebuilt one, by more than two slices of a scheduler (CONFIG_HZ of 100), is
not made by the pieces that it was rebuilt from."""
REBUILT_TOLERANCE = 0.25
"""Between a rebuilt and a recorded quantile that are called the same."""


@dataclass(frozen=True, kw_only=True)
class Quantile:
    """One quantile of a step's transactions, as it was recorded and as it was rebuilt."""

    recorded_ms: float
    rebuilt_ms: float

    @property
    def is_beyond(self) -> bool:
        """Whether the recorded one is too large for what it was rebuilt from."""
        return self.recorded_ms > TAIL_TIMES * self.rebuilt_ms and self.recorded_ms > self.rebuilt_ms + TAIL_MS_MIN

    @property
    def is_alike(self) -> bool:
        """Whether both are the same within REBUILT_TOLERANCE of the recorded one."""
        return abs(self.rebuilt_ms - self.recorded_ms) <= REBUILT_TOLERANCE * self.recorded_ms
