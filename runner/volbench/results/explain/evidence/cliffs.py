"""Cliffs: the second at which a series changes its level for good, found on ranks so that spikes do not count.

Binary segmentation with the standardised Wilcoxon rank-sum as its statistic (Pettitt 1979; Darkhovsky 1976), then
each point is placed anew between its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volbench.results.stats.grid import Floats, median_of_finite
from volbench.results.stats.segmentation import levels_around, midranks, split_points

SEGMENT_MIN = 4
"""Samples that make a level; fewer are a spike or a stall."""
POINTS_MAX = 12
Z_MIN = 2.9
"""Of the largest standardised rank-sum: about 5 % over the points of a minute of independent samples."""
SEPARATION_MIN = 0.85
"""Of the rank-sum that two levels without any overlap have: what short stretches must reach instead of Z_MIN."""
SPREADS_MIN = 3.0
"""Change of the level in units of the spread within the levels (scaled median deviation)."""
RATIO_MIN = 1.5
_MAD_TO_SIGMA = 1.4826
_NEARBY = 4


@dataclass(frozen=True, kw_only=True)
class Cliff:
    """A lasting change. `at_s` is the end of the last interval on the old level; `index` the first on the new.

    `before` and `after` are medians of the levels on both sides, up to the next change, and `clearness` is their
    distance in units of the spread within them.
    """

    at_s: float
    index: int
    before: float
    after: float
    clearness: float = 0.0

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
    finite = np.flatnonzero(np.isfinite(values))
    lasting = []
    points = change_points(values[finite])
    for start, point, end in levels_around(points, len(finite)):
        left, right = values[finite[start:point]], values[finite[point:end]]
        before, after = float(np.median(left)), float(np.median(right))
        step = float(np.median(right[:3])) - float(np.median(left[-3:]))
        low, high = sorted((abs(before), abs(after)))
        if high < ratio_min * low or high == 0 or abs(step) < 0.5 * abs(after - before):
            continue
        lasting.append(
            Cliff(
                at_s=float(t_s[finite[point - 1]]),
                index=int(finite[point]),
                before=before,
                after=after,
                clearness=_clearness(left, right),
            )
        )
    return tuple(lasting)


def change_points(values: Floats) -> list[int]:
    """Indices at which a new level begins, ascending; values without NaN, shape (samples,)."""
    points = split_points(len(values), lambda start, end: _split(values, start, end), most=POINTS_MAX)
    return _clear(values, _placed_anew(values, points))


def _placed_anew(values: Floats, points: list[int]) -> list[int]:
    """Each point placed once more, between its neighbours; one that no longer shows there is dropped."""
    points_left = list(points)
    for point in points:
        neighbours = [p for p in points_left if p != point]
        start, end = (
            max([0, *(p for p in neighbours if p < point)]),
            min([len(values), *(p for p in neighbours if p > point)]),
        )
        better = _split(values, start, end)
        points_left = neighbours if better is None else sorted({*neighbours, better})
    return points_left


def _clear(values: Floats, points: list[int]) -> list[int]:
    """The points whose levels differ by SPREADS_MIN spreads: the least clear one goes until all are."""
    points_left = list(points)
    while points_left:
        clearness = [
            _clearness(values[start:point], values[point:end])
            for start, point, end in levels_around(points_left, len(values))
        ]
        least = int(np.argmin(clearness))
        if clearness[least] >= SPREADS_MIN:
            break
        del points_left[least]
    return points_left


def _clearness(left: Floats, right: Floats) -> float:
    """Distance of the medians in units of the scaled median deviation from them."""
    before, after = median_of_finite(left), median_of_finite(right)
    change = abs(after - before)
    within = np.concatenate([left - before, right - after])
    spread = _MAD_TO_SIGMA * median_of_finite(np.abs(within))
    if change == 0:
        return 0.0
    return change / spread if spread > 0 else float("inf")


def _split(values: Floats, start: int, end: int) -> int | None:
    """Where the segment falls into two levels, or None when it is one."""
    segment = values[start:end]
    size = len(segment)
    if size < 2 * SEGMENT_MIN:
        return None
    first = np.arange(1, size, dtype=np.float64)
    rank_sum = np.cumsum(midranks(segment))[:-1]
    z = np.abs(rank_sum - first * (size + 1) / 2) / np.sqrt(first * (size - first) * (size + 1) / 12)
    z[: SEGMENT_MIN - 1] = 0
    z[size - SEGMENT_MIN :] = 0
    at = int(np.argmax(z)) + 1
    largest = np.sqrt(3 * at * (size - at) / (size + 1))  # of two levels that do not overlap at all
    if z[at - 1] == 0 or z[at - 1] < min(Z_MIN, SEPARATION_MIN * largest):
        return None
    return start + _sharpened(segment, at)


def _sharpened(segment: Floats, at: int) -> int:
    """The split near `at` with the least absolute deviation from both medians: ranks place it some off at times."""
    for _ in range(len(segment)):  # as long as that moves it: each move lessens the deviation
        nearby = range(max(SEGMENT_MIN, at - _NEARBY), min(len(segment) - SEGMENT_MIN, at + _NEARBY) + 1)
        before = at
        at = min(
            nearby,
            key=lambda split: (_deviation(segment[:split]) + _deviation(segment[split:]), abs(split - before)),
        )
        if at == before:
            break
    return at


def _deviation(values: Floats) -> float:
    return float(np.abs(values - median_of_finite(values)).sum())


def rank_sum_z(first: Floats, second: Floats) -> float:
    """Wilcoxon's rank-sum, standardised: above 0 when `first` is the larger one; NaN is left out.

    Args:
        first, second: samples, shapes (n,) and (m,).
    """
    first, second = first[np.isfinite(first)], second[np.isfinite(second)]
    n, m = len(first), len(second)
    if not n or not m:
        return 0.0
    rank_sum = float(midranks(np.concatenate([first, second]))[:n].sum())
    return (rank_sum - n * (n + m + 1) / 2) / float(np.sqrt(n * m * (n + m + 1) / 12))
