"""Reads that become faster as blocks are touched: the fall of their mean time against reads done, and against time.

Of N blocks read at random, the share that no read has touched falls as exp(-R / N) with the R reads done so far. A
mean read takes that share of a fetch, also where blocks arrive at a fixed rate: reads in flight share it. A volume
that recovers by itself becomes faster with time, whatever is read. Clients that wait for reads send more of them as
each takes less, which tells one from the other: if touching makes reads faster, both halves of the fall (of its
logarithm) take as many reads, and the second one takes less time. Where the rate of reads hardly changes, reads and
time say the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volbench.results.stats.grid import Floats, median_of_finite

Indices = NDArray[np.intp]

SHARE_LEFT = 0.1
"""Of what a read takes longer at first than at last: with less of it left the fall has ended."""
PAST_FALL = 1.5
"""Intervals looked at, as a multiple of those until the fall ended: its last third is after it then."""
DROP_MAX = 0.6
"""Of the whole fall: more of it between two neighbouring intervals is a step."""
INTERVALS_MIN = 4
"""That a fall takes; a step that lies within an interval takes two."""
READS_TIMES_MAX = 2.0
"""By how many times the reads of both halves may differ. Fetches of loads that read at random, simulated and run,
gave 1.0 to 1.8."""
RATE_CHANGE_MIN = 1.5
"""Times the rate of the first half, from which on reads and time can be told apart."""
CLEARER_TIMES = 1.2
"""How many times more the halves must differ in time than in reads."""
_SMOOTHED = 3
"""Intervals of which the median counts: the mean of a few reads scatters, at first most."""


@dataclass(frozen=True, kw_only=True)
class Half:
    """A half of the fall's logarithm: the reads in it, and how many intervals it took."""

    reads: float
    intervals: float


@dataclass(frozen=True, kw_only=True)
class ReadFall:
    """How the mean time of a read fell to its level at last.

    Args:
        intervals: from the first read until the fall ended.
        drop: the largest part of the fall between two neighbouring intervals, 0..1.
        first, second: both halves of its logarithm.
    """

    intervals: int
    drop: float
    first: Half
    second: Half

    @property
    def reads_times(self) -> float:
        """By how many times the reads of both halves differ."""
        larger, smaller = max(self.first.reads, self.second.reads), min(self.first.reads, self.second.reads)
        return larger / smaller if smaller > 0 else math.inf

    @property
    def follows_reads(self) -> bool | None:
        """Whether reads explain the fall better than time does; None where both explain it alike."""
        times = self.first.intervals / self.second.intervals if self.second.intervals > 0 else math.inf
        before = self.first.reads / self.first.intervals if self.first.intervals > 0 else 0.0
        rate_times = (
            self.second.reads / self.second.intervals / before if math.isfinite(times) and before else math.inf
        )
        if 1 / RATE_CHANGE_MIN < rate_times < RATE_CHANGE_MIN:
            return None
        return self.reads_times <= READS_TIMES_MAX and times >= CLEARER_TIMES * self.reads_times

    @property
    def is_even(self) -> bool:
        """Whether the fall goes over several intervals, none of which has most of it, and its halves agree."""
        return self.intervals >= INTERVALS_MIN and self.drop <= DROP_MAX and self.reads_times <= READS_TIMES_MAX


def read_fall(await_ms: Floats, reads: Floats) -> ReadFall | None:
    """Return the fall of the mean time of a read; None where it does not fall, or has no two halves.

    Args:
        await_ms, reads: a read's mean time, and how many there were, of the intervals with reads in their order;
            shape (intervals,).
    """
    if len(await_ms) < INTERVALS_MIN:
        return None
    begins = np.clip(np.arange(len(await_ms)) - 1, 0, len(await_ms) - _SMOOTHED)
    smooth = np.array([median_of_finite(await_ms[begin : begin + _SMOOTHED]) for begin in begins])
    excess = np.maximum(smooth - median_of_finite(await_ms[-max(1, len(await_ms) // 3) :]), 1e-6)
    peak, done = int(np.argmax(excess)), np.cumsum(reads)
    half = _crossing(excess, peak, excess[peak] * math.sqrt(SHARE_LEFT))
    end = _crossing(excess, peak, excess[peak] * SHARE_LEFT)
    if half is None or end is None:
        return None
    positions = np.arange(len(done), dtype=np.float64)
    reads_at = [float(np.interp(at, positions, done)) for at in (peak, half, end)]
    ended = math.ceil(end)
    return ReadFall(
        intervals=ended,
        drop=float(-np.diff(excess[peak : ended + 1]).min() / excess[peak]),
        first=Half(reads=reads_at[1] - reads_at[0], intervals=half - peak),
        second=Half(reads=reads_at[2] - reads_at[1], intervals=end - half),
    )


def _crossing(excess: Floats, peak: int, level: float) -> float | None:
    """Return where the fall from the peak crosses a level, by the logarithm between intervals; None: nowhere."""
    below = np.flatnonzero(excess[peak:] < level)
    if not len(below):
        return None
    after = peak + int(below[0])
    upper, lower = math.log(excess[after - 1]), math.log(excess[after])
    return after - 1 + (upper - math.log(level)) / (upper - lower)
