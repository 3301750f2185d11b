"""Where a history of runs changes its level: CUSUM with a permutation test, split in two until nothing is left.

The statistic is the largest standardised difference of means over all places to split, of log values that are
limited to CLIP robust standard deviations, so that one odd run is no change. Its p-value comes from random orders
of the same values, whatever their distribution. In a history without a change whose runs are independent, all
orders are equally likely, so the whole procedure names any change point with probability ALPHA at most: a second
one is looked for only beside a first. Runs that drift together (a disk that fills, a neighbour by day) are not
independent: docs/history.md has the measured rates.

Sources: Antoch and Huskova, Permutation tests in change point analysis, Statistics and Probability Letters 53
(2001) 37-46; Vostrikova, Detecting disorder in multidimensional random processes, Soviet Mathematics Doklady 24
(1981) 55-59, for the splitting in two; Bai, Estimating multiple breaks one at a time, Econometric Theory 13
(1997) 315-352, for the repartition: each place is estimated once more between its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from statistics import median

import numpy as np
from numpy.typing import NDArray

from volbench.core.records.base import Record
from volbench.results.stats.segmentation import levels_around, split_points

ALPHA = 0.01
SEGMENT_MIN = 3
"""A level needs this many runs on either side."""
CLIP = 4.0
RUNS_MAX = 100_000
"""Only so many of the latest runs are examined: 270 years, a run a day."""
_SIZE_REMEMBERED_MAX = 400
"""Runs whose orders are remembered, since the histories of one suite have one length: at most 6 MB for each."""
_VALUES_AT_ONCE = 1 << 20
"""Of the orders of a longer history: memory does not grow with it."""
PERMUTATIONS = 1999
_SEED = 20_010_537
_ROUNDING = 1e-9
_NORMAL = 1.4826  # median absolute deviation to standard deviation, of normal values


class ChangePoint(Record):
    """A place where the level changes.

    Args:
        index: of the first value of the new level.
        before, after: medians of the levels on either side, up to the next change points.
        p_value: of the split that found it.
    """

    index: int
    before: float
    after: float
    p_value: float

    @property
    def ratio(self) -> float | None:
        """after / before; None where that has no meaning."""
        return self.after / self.before if self.before > 0 else None


def change_points(values: Sequence[float], *, alpha: float = ALPHA) -> tuple[ChangePoint, ...]:
    """Return the change points of a history, oldest first.

    Args:
        values: one figure of each run, oldest first, shape (n,), any unit.
        alpha: the probability of any change point in a stable history of independent runs.

    Below 2 x SEGMENT_MIN values there is none to find.
    """
    skipped = max(0, len(values) - RUNS_MAX)
    recent = np.asarray(values[skipped:], dtype=np.float64)
    p_values: dict[int, float] = {}

    def significant_split(start: int, end: int) -> int | None:
        split = _best_split(recent[start:end], p_max=alpha)
        if split is None or split[1] > alpha:
            return None
        p_values[start + split[0]] = split[1]
        return start + split[0]

    points = split_points(len(recent), significant_split)
    moved = [_best_between(recent, *levels) for levels in levels_around(points, len(recent))]
    return tuple(
        ChangePoint(
            index=skipped + index,
            before=median(recent[start:index].tolist()),
            after=median(recent[index:end].tolist()),
            p_value=p_values[point],
        )
        for point, (start, index, end) in zip(points, levels_around(moved, len(recent)), strict=True)
    )


def _best_between(values: NDArray[np.float64], start: int, index: int, end: int) -> int:
    """Return the best place of a split between its neighbours: a first one was found before the others."""
    scores = _scores(values[start:end])
    return index if scores is None else start + SEGMENT_MIN + int(_standardised(scores[np.newaxis]).argmax())


def _best_split(values: NDArray[np.float64], *, p_max: float = 1.0) -> tuple[int, float] | None:
    """Return the most likely first index of a new level, and its p-value; None for a short or constant segment.

    Args:
        values: of a segment.
        p_max: a larger p-value is of no interest: no more orders are tried than prove that it is larger.
    """
    scores = _scores(values)
    if scores is None:
        return None
    observed = _standardised(scores[np.newaxis])[0]
    best, as_large = int(observed.argmax()), 0
    for orders in _orders_in_parts(len(values)):
        shuffled = _standardised(scores[orders]).max(axis=1)
        as_large += int((shuffled >= observed[best] - _ROUNDING).sum())
        if (1 + as_large) / (1 + PERMUTATIONS) > p_max:
            break
    return best + SEGMENT_MIN, (1 + as_large) / (1 + PERMUTATIONS)


def _scores(values: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return logs in robust standard deviations, limited and centred; None for a short or constant segment.

    The same function of each value in any order, so orders stay equally likely.
    """
    if len(values) < 2 * SEGMENT_MIN or values.min() == values.max():
        return None
    logs = np.log(values) if values.min() > 0 else values
    deviations = logs - np.median(logs)
    scale = _NORMAL * np.median(np.abs(deviations)) or np.abs(deviations).mean()
    limited = np.clip(deviations / scale, -CLIP, CLIP)
    result: NDArray[np.float64] = limited - limited.mean()
    return result


def _standardised(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """|sum of the first k scores| / sqrt(k (n - k) / n), for k from SEGMENT_MIN to n - SEGMENT_MIN, by row."""
    size = scores.shape[1]
    first = np.arange(SEGMENT_MIN, size - SEGMENT_MIN + 1)
    sums = scores.cumsum(axis=1)[:, first - 1]
    result: NDArray[np.float64] = np.abs(sums) / np.sqrt(first * (size - first) / size)
    return result


def _orders_in_parts(size: int) -> Iterator[NDArray[np.intp]]:
    """Yield random orders, the same in each process: a page must not change when it is made again."""
    if size <= _SIZE_REMEMBERED_MAX:
        yield _orders(size)
        return
    random = np.random.default_rng([_SEED, size])
    at_once = max(1, _VALUES_AT_ONCE // size)
    for first in range(0, PERMUTATIONS, at_once):
        yield random.permuted(np.tile(np.arange(size), (min(at_once, PERMUTATIONS - first), 1)), axis=1)


@lru_cache(maxsize=64)
def _orders(size: int) -> NDArray[np.intp]:
    random = np.random.default_rng([_SEED, size])
    return random.permuted(np.tile(np.arange(size), (PERMUTATIONS, 1)), axis=1)
