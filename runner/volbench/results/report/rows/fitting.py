"""How many servers a volume carries, from what one of them uses of its limits. Pure.

The bound is that of operational analysis (Denning and Buzen, The Operational Analysis of Queueing Network Models,
1978): where one server uses the share u of the tightest limit, N of them ask for N u. Up to 1, the limit holds
nobody back. Beyond it they do as much together as the limit allows, 1 / (N u) of what each does alone. It is a
bound from above: waiting for one another begins before the limit is reached.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

USE_TOLERANCE = 0.15
"""Between the computed and the measured use of the limit, relative: beyond it, something else than the limit holds
the load back, or lets it do more. Rates of 20 seconds differ by some hundredths; a server in five that does nothing
by more."""
_EXACT = 1e-9
Check = Literal["agrees", "fewer", "refuted", "none"]
"""Of a computed number of servers: the measured one is the same as far as was tried; it is smaller, with the use
of the limit as computed; the use differs, or more fit; nothing was computed."""


@dataclass(frozen=True, kw_only=True)
class Use:
    """What the servers use of the tightest limit.

    Args:
        first, each_further: shares of the limit, of the first server and of each other one; both positive.
    """

    first: float
    each_further: float

    def by(self, instances: int) -> float:
        """Return what so many ask for, of the limit."""
        return self.first + (instances - 1) * self.each_further


@dataclass(frozen=True, kw_only=True)
class ServerObjective:
    """What each server must keep.

    Args:
        keeps: share of its transactions/s alone.
        p95_ms: its p95; None: none.
        closed: clients wait for their answer before the next transaction, so that latency rises as rates fall.
    """

    keeps: float
    p95_ms: float | None
    closed: bool


@dataclass(frozen=True, kw_only=True)
class MeasuredFit:
    """Whether so many servers fit, as measured; None: in some cells only."""

    instances: int
    fits: bool | None


def predicted_use(use: Use, instances: int) -> float:
    """Return what so many use of the limit, if nothing else holds them back."""
    return min(1.0, use.by(instances))


def predicted_share(use: Use, instances: int) -> float:
    """Return the share that each of equal servers keeps of its rate alone, at most."""
    return min(1.0, 1.0 / use.by(instances))


def predicted_fit(use: Use, objective: ServerObjective, p95_alone_ms: float | None) -> int | None:
    """Return how many servers fit at most; 0: not even one. None where the objective needs a p95 that is not known.

    In a closed loop latency is to latency alone as the rate alone is to the rate (Little's law), and p95 is taken
    to rise as the mean does. In an open loop with more asked for than the limit allows, the queue grows for
    ever: any objective for p95 is broken.
    """
    most = 1.0 / objective.keeps
    if objective.p95_ms is not None:
        if p95_alone_ms is None:
            return None
        if p95_alone_ms > objective.p95_ms:
            return 0
        most = min(most, objective.p95_ms / p95_alone_ms if objective.closed else 1.0)
    if use.first > most * (1 + _EXACT):
        return 0
    return 1 + math.floor((most - use.first) / use.each_further + _EXACT)


def measured_fit(*, alone_fits: bool, levels: Sequence[MeasuredFit]) -> tuple[int, int | None]:
    """Return how many fit, and the smallest number tried that does not; None: all fit.

    Args:
        levels: ascending. A number that fits in some cells only does not fit.
    """
    if not alone_fits:
        return 0, 1
    fit = 1
    for level in levels:
        if not level.fits:
            return fit, level.instances
        fit = level.instances
    return fit, None


def checked(
    predicted: int | None,
    fit: int,
    breaks_at: int | None,
    uses: Sequence[tuple[float, float]],
) -> Check:
    """Return what the measurement says of the computed number, which is a bound from above.

    Args:
        predicted: as of `predicted_fit`.
        fit, breaks_at: as of `measured_fit`.
        uses: computed and measured use of the limit, of each number that was tried.
    """
    if predicted is None or not uses:
        return "none"
    if fit > predicted or any(abs(used / expected - 1) > USE_TOLERANCE for expected, used in uses):
        return "refuted"
    return "agrees" if breaks_at is None or predicted < breaks_at else "fewer"
