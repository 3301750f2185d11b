"""Binary segmentation: a sequence is split where its level changes most, and so is either part, until none does.

What counts as a change is the caller's: a rank sum for the seconds of a step (`explain/evidence/cliffs.py`), sums
of logarithms with a permutation test for the runs of a history (`site/change_points.py`). Episodes, which end
again, are found by circular binary segmentation (`explain/evidence/episodes.py`).

Source: Vostrikova, Detecting disorder in multidimensional random processes, Soviet Mathematics Doklady 24 (1981)
55-59.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray


def split_points(size: int, best_split: Callable[[int, int], int | None], *, most: int | None = None) -> list[int]:
    """Return the indices at which new levels begin, ascending.

    Args:
        size: values of the sequence.
        best_split: gets first and last + 1 index of a segment; returns where it falls in two, or None.
        most: points after which to stop; None: no limit.
    """
    points: list[int] = []
    segments = deque([(0, size)])
    while segments and (most is None or len(points) < most):
        start, end = segments.popleft()
        point = best_split(start, end)
        if point is not None:
            points.append(point)
            segments.extend([(start, point), (point, end)])
    return sorted(points)


def levels_around(points: Sequence[int], size: int) -> Iterator[tuple[int, int, int]]:
    """Yield, for each point, where the level before it begins, the point, and where the level after it ends."""
    bounds = [0, *points, size]
    yield from zip(bounds, points, bounds[2:], strict=False)


def midranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ranks from 1, ties share their mean; shape (samples,)."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts).astype(np.float64)
    ranks: NDArray[np.float64] = (last - (counts - 1) / 2)[inverse]
    return ranks
