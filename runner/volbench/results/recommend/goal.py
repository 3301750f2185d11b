"""What a volume has to keep: latency, a backup's window, a recovery's time; and how likely a forecast keeps it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from volbench.results.credits.dump import DumpLoad

SURE_MIN = 0.95
"""Chance from which on a volume is recommended."""
CHANCE_MAX = 0.2
"""Chance up to which a cheaper volume counts as one that breaks the objective."""
MODEL_DOUBT = 0.02
"""Chance that is left to a model where nothing contradicts it: of recorded pairs, 2 % broke what was forecast."""
_NORMAL = NormalDist()
_ENDS = 1.96
"""Standard deviations from the middle of a normal distribution to the ends of its 95 % interval."""


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What has to be kept; None: not asked.

    Args:
        p95_s: of transactions, of statements or of the volume's requests, as the evidence has them.
        backup, window_s: what a backup reads, and in which time.
        recovery_s: of the server after a crash.
    """

    p95_s: float | None = None
    backup: DumpLoad | None = None
    window_s: float | None = None
    recovery_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Chance:
    """One part of a goal on one volume.

    Args:
        objective: p95, backup, recovery.
        keeps: chance that it is kept, 0..1.
        text: what is forecast, for a reader.
        value: the forecast's middle in ms (p95) or s, with its 95 % `interval`; None where it has none.
    """

    objective: str
    keeps: float
    text: str
    value: float | None = None
    interval: tuple[float, float] | None = None


def chance_below(limit: float, interval: tuple[float, float], *, widened: float = 1.0) -> float:
    """Return the chance that a quantity stays within a limit; its logarithm is taken as normal.

    Args:
        limit: above 0, in the interval's unit.
        interval: of 95 %, both ends above 0.
        widened: times the interval's width; what it was measured to miss by.
    """
    low, high = interval
    middle, deviation = math.sqrt(low * high), widened * math.log(high / low) / (2 * _ENDS)
    if deviation <= 0:
        return float(middle <= limit)
    return _NORMAL.cdf(math.log(limit / middle) / deviation)
