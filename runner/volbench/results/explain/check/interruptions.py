"""Transactions that are interrupted, and those that wait in turn: pure functions of a level of transactions.

A mean that is the sum of pieces says little of a tail when one piece is all or nothing: a transaction either meets
a stop of 0.1 s or it does not. How many meet it follows from counts (clients, transactions a second, stops a
second), how long it is from the mean or from a constant of the kernel. No quantile of the clients is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from volbench.results.explain.check.rebuild import Level
from volbench.results.stats.grid import Floats

RUNNING_MIN = 0.02
"""Of a transaction's time at least, outside of its stops: what was counted in neighbouring intervals may add up to
more than the time itself."""
STOP_VARIATION = 1e-4
"""Of a stop whose length is known, squared variation: 1 %."""
STOPS_MAX = 12
"""Stops of one transaction, above a third of which a gamma distribution has their mean and variance."""
EQUAL_PARTS = 40
"""Of a distribution of waits, each as one level: 2.5 % of them."""
_STEPS = 60
_STEEPEST = 300.0
"""Of an exponential distribution between 0 and 1: its mean is within 0.4 % of an end."""


def with_common_stops(level: Level, *, stops: float, length_ms: float) -> list[Level]:
    """Divide transactions by how many stops they met, of stops that hold all clients at once.

    Stops come at even distances, so that a transaction meets the whole number above or below the average. In a
    closed loop of N clients with X transactions a second each stop holds N of them: s stops a second are s N / X
    for each transaction.

    Args:
        level: with the mean over all of them, stops included.
        stops: for each transaction, on average.
        length_ms: of a stop.
    """
    if stops <= 0 or length_ms <= 0:
        return [level]
    fewer = math.floor(stops)
    shares = ((fewer, fewer + 1 - stops), (fewer + 1, stops - fewer))
    return list(_by_stops(level, stops=stops, length_ms=length_ms, shares=shares))


def with_random_stops(level: Level, *, stops: float, length_ms: float) -> list[Level]:
    """Divide transactions by how many stops they met, of stops that each meets by itself (Poisson).

    Args:
        level, stops, length_ms: as in `with_common_stops`.
    """
    if stops <= 0 or length_ms <= 0:
        return [level]
    if stops > STOPS_MAX / 3:
        return [replace(level, variation=level.variation + stops * (length_ms / level.mean_ms) ** 2)]
    shares = [(count, math.exp(-stops) * stops**count / math.factorial(count)) for count in range(STOPS_MAX)]
    return list(_by_stops(level, stops=stops, length_ms=length_ms, shares=shares))


def _by_stops(
    level: Level, *, stops: float, length_ms: float, shares: Sequence[tuple[int, float]]
) -> Iterator[Level]:
    """Yield one level for each number of stops and its share of the transactions.

    Their mean is the level's: stops that the mean has no room for are shorter.
    """
    length_ms = min(length_ms, (1 - RUNNING_MIN) * level.mean_ms / stops)
    running_ms = level.mean_ms - stops * length_ms
    for count, share in shares:
        mean_ms = running_ms + count * length_ms
        variation = level.variation * (running_ms / mean_ms) ** 2 + STOP_VARIATION
        yield Level(transactions=share * level.transactions, mean_ms=mean_ms, variation=variation)


def waiting_in_turn(level: Level, *, clients: int, waited_ms: float, waiting_share: float) -> list[Level]:
    """Divide transactions of a closed loop by how long they waited for others that hold what they want.

    A transaction holds it for H, its time without the wait. In the order of their coming, each client waits for
    every other one at most once: between 0 and (N - 1) H. Of a wait between two ends nothing is known but its mean:
    the distribution that assumes nothing else is exponential, rising where the mean is beyond the middle (Jaynes,
    Physical Review 106, 1957).

    Args:
        level: with the mean over all of them, waits included.
        clients: N.
        waited_ms: mean over all transactions, those without a wait included.
        waiting_share: of the transactions, those that waited.
    """
    waited_ms = min(waited_ms, (1 - RUNNING_MIN) * level.mean_ms)
    if waited_ms <= 0 or waiting_share <= 0 or clients < 2:
        return [level]
    held_ms = level.mean_ms - waited_ms
    longest_ms, mean_ms = (clients - 1) * held_ms, waited_ms / waiting_share
    waits_ms = (
        longest_ms * equal_parts(mean_ms / longest_ms) if mean_ms < longest_ms else np.full(EQUAL_PARTS, mean_ms)
    )
    free = Level(transactions=(1 - waiting_share) * level.transactions, mean_ms=held_ms, variation=level.variation)
    number = waiting_share * level.transactions / EQUAL_PARTS
    return [
        free,
        *(
            Level(transactions=number, mean_ms=held_ms + float(wait_ms), variation=STOP_VARIATION)
            for wait_ms in waits_ms
        ),
    ]


def equal_parts(mean: float) -> Floats:
    """Return the middle quantile of each of EQUAL_PARTS of an exponential distribution between 0 and 1.

    Args:
        mean: of the distribution, between 0 and 1.
    """
    low, high = -_STEEPEST, _STEEPEST
    for _ in range(_STEPS):
        rate = (low + high) / 2
        low, high = (rate, high) if _mean_between(rate) > mean else (low, rate)
    levels = (np.arange(EQUAL_PARTS) + 0.5) / EQUAL_PARTS
    return levels if abs(rate) < 1e-3 else np.asarray(-np.log1p(levels * math.expm1(-rate)) / rate)


def _mean_between(rate: float) -> float:
    """Return the mean of an exponential distribution between 0 and 1."""
    return 0.5 - rate / 12 if abs(rate) < 1e-3 else 1 / rate - 1 / math.expm1(rate)
