"""Cliffs: the second at which a series changes its level for good, found on ranks so that spikes do not count.

Binary segmentation with the standardised Wilcoxon rank-sum as its statistic (Pettitt 1979; Darkhovsky 1976), then
each point is placed anew between its neighbours. The libraries for this bring SciPy with them, 100 MB for these
forty lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from volbench.analysis.explain.align import Floats

SEGMENT_MIN = 4
"""Samples that make a level; fewer are a spike or a stall."""
POINTS_MAX = 12
Z_MIN = 2.9
"""Of the largest standardised rank-sum: about 5 % over the points of a minute of independent samples."""
SPREADS_MIN = 3.0
"""Change of the level in units of the spread within the levels (scaled median deviation)."""
RATIO_MIN = 1.5
_MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True, kw_only=True)
class Cliff:
    """A lasting change. `at_s` is the end of the last interval on the old level; `index` the first on the new.

    `before` and `after` are medians of the levels on both sides, up to the next change.
    """

    at_s: float
    index: int
    before: float
    after: float

    @property
    def ratio(self) -> float:
        """after / before; infinite from nothing."""
        return self.after / self.before if self.before else float("inf")


def cliffs(t_s: Floats, values: Floats, *, ratio_min: float = RATIO_MIN) -> tuple[Cliff, ...]:
    """All cliffs of a series, in order of time.

    Args:
        t_s, values: ends of the intervals and their values, shape (samples,); NaN is a gap.
        ratio_min: the least change of the level, either way, as a factor.

    A slow ramp is no cliff: the three samples on either side must show half of the change.
    """
    known = np.flatnonzero(np.isfinite(values))
    found = []
    points = change_points(values[known])
    bounds = [0, *points, len(known)]
    for number, point in enumerate(points, start=1):
        left, right = values[known[bounds[number - 1] : point]], values[known[point : bounds[number + 1]]]
        before, after = float(np.median(left)), float(np.median(right))
        step = float(np.median(right[:3])) - float(np.median(left[-3:]))
        low, high = sorted((abs(before), abs(after)))
        if high < ratio_min * low or high == 0 or abs(step) < 0.5 * abs(after - before):
            continue
        found.append(Cliff(at_s=float(t_s[known[point - 1]]), index=int(known[point]), before=before, after=after))
    return tuple(found)


def change_points(values: Floats) -> list[int]:
    """Indices at which a new level begins, ascending; values without NaN, shape (samples,)."""
    points: list[int] = []
    open_segments = [(0, len(values))]
    while open_segments and len(points) < POINTS_MAX:
        start, end = open_segments.pop(0)
        point = _split(values, start, end)
        if point is not None:
            points.append(point)
            open_segments += [(start, point), (point, end)]
    return _refined(values, sorted(points))


def _refined(values: Floats, points: list[int]) -> list[int]:
    """Each point placed anew between its neighbours; one that no longer holds there is dropped."""
    kept = list(points)
    for point in points:
        bounds = [0, *(p for p in kept if p != point), len(values)]
        start, end = next((a, b) for a, b in pairwise(sorted(bounds)) if a <= point <= b)
        better = _split(values, start, end)
        kept = [p for p in kept if p != point] + ([better] if better is not None else [])
    return sorted(set(kept))


def _split(values: Floats, start: int, end: int) -> int | None:
    """Where the segment falls into two levels, or None when it is one."""
    part = values[start:end]
    size = len(part)
    if size < 2 * SEGMENT_MIN:
        return None
    first = np.arange(1, size, dtype=np.float64)
    rank_sum = np.cumsum(midranks(part))[:-1]
    z = np.abs(rank_sum - first * (size + 1) / 2) / np.sqrt(first * (size - first) * (size + 1) / 12)
    z[: SEGMENT_MIN - 1] = 0
    z[size - SEGMENT_MIN :] = 0
    at = int(np.argmax(z)) + 1
    left, right = part[:at], part[at:]
    change = abs(float(np.median(right)) - float(np.median(left)))
    within = np.concatenate([left - np.median(left), right - np.median(right)])
    spread = _MAD_TO_SIGMA * float(np.median(np.abs(within)))
    largest = 0.85 * np.sqrt(3 * at * (size - at) / (size + 1))  # of two levels that do not overlap at all
    if z[at - 1] < min(Z_MIN, largest) or change <= SPREADS_MIN * spread or change == 0:
        return None
    return start + at


def midranks(values: Floats) -> NDArray[np.float64]:
    """Ranks from 1, ties share their mean; shape (samples,)."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts).astype(np.float64)
    ranks: NDArray[np.float64] = (last - (counts - 1) / 2)[inverse]
    return ranks
