"""A closed loop of clients over stations that queue: exact mean value analysis, and the asymptotic bound.

Source: Reiser and Lavenberg 1980; several servers at a station by Seidmann, Schweitzer and Shalev-Oren 1987.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CLIENTS_MAX = 100_000


@dataclass(frozen=True, kw_only=True)
class Station:
    """`demand_s`: seconds of one server that a loop needs."""

    name: str
    demand_s: float
    servers: int = 1

    @property
    def rate_max(self) -> float:
        """Loops per second that it serves at most."""
        return self.servers / self.demand_s if self.demand_s > 0 else float("inf")


@dataclass(frozen=True, kw_only=True)
class ThroughputBounds:
    """Loops per second: `rate_min` with random service, `rate_max` at most; `bound` is what limits first.

    A rate limit serves at constant intervals, where queues are half of those of random service (Pollaczek and
    Khinchine): `rate` lies midway.
    """

    rate_min: float
    rate_max: float
    bound: str

    @property
    def rate(self) -> float:
        """What is to be expected."""
        return (self.rate_min + self.rate_max) / 2


def solve(*, clients: int, delay_s: float, stations: Sequence[Station]) -> ThroughputBounds:
    """Loops per second of a number of clients.

    Args:
        delay_s: of a loop, without any queue.
        stations: where loops queue. An empty name of `ThroughputBounds.bound` means the delay.

    Raises ValueError for no client, too many, or no time at all.
    """
    if not 1 <= clients <= CLIENTS_MAX:
        raise ValueError(f"{clients} clients: 1 to {CLIENTS_MAX} are possible")
    used = [station for station in stations if station.demand_s > 0]
    least_s = delay_s + sum(station.demand_s for station in used)
    if least_s <= 0:
        raise ValueError("a loop that takes no time")
    waiting_s = delay_s + sum(station.demand_s * (station.servers - 1) / station.servers for station in used)
    demands = [station.demand_s / station.servers for station in used]
    queues, rate = [0.0] * len(used), 0.0
    for population in range(1, clients + 1):
        residence = [demand * (1 + queue) for demand, queue in zip(demands, queues, strict=True)]
        rate = population / (waiting_s + sum(residence))
        queues = [rate * station for station in residence]
    bounds = [(clients / least_s, ""), *((station.rate_max, station.name) for station in used)]
    most, bound = min(bounds)
    return ThroughputBounds(rate_min=rate, rate_max=most, bound=bound)
