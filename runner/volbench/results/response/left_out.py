"""Weighted products of columns less their groups' means: of all rows, and with each cluster left out in turn.

Without cluster c the mean of each of its groups moves. Of columns less the means of all rows,

    products without c = products - products of c's rows - sum over c's groups of S S' / W,

where S are the weighted sums of c's rows in a group, and W is the weight of the group's other rows. One pass over
the rows gives all of these sums, so that time grows with rows, whatever the number of clusters.

A difference of sums keeps no digits where one cluster has nearly all of a column's variation. At most two clusters
can for each column, and their products are taken from the other rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

VARIATION_MIN = 1e-4
"""Of a column's sum of squares, without a cluster; below, a difference has lost four of sixteen digits."""
ROUNDING = 8 * np.finfo(np.float64).eps
"""Of a column's largest value; what a constant column may differ from its mean."""


def products(columns: Floats, weights: Floats, groups: Ints, clusters: Ints) -> tuple[Floats, Floats]:
    """Return the products of all rows, shape (k, k), and those without each cluster, shape (clusters, k, k).

    Args:
        columns: shape (n, k).
        weights: of the rows, shape (n,).
        groups: rows of one number share a mean, from 0, shape (n,).
        clusters: rows of one number are left out together, from 0 and each with a row, shape (n,).
    """
    level = less_means(columns, weights, groups)
    all_sums = _sums(level, weights, np.zeros_like(groups), 1)[0]
    count = int(clusters.max()) + 1
    pairs, pair = np.unique(clusters * (int(groups.max()) + 1) + groups, return_inverse=True)
    cluster, group = np.divmod(pairs, int(groups.max()) + 1)
    rows, weight = np.bincount(groups), np.bincount(groups, weights)
    has_others = rows[group] > np.bincount(pair)
    remaining = np.where(has_others, weight[group] - np.bincount(pair, weights), 0.0)
    inverse = np.zeros(len(pairs))
    np.divide(1.0, remaining, out=inverse, where=remaining > 0)
    sums = np.stack([np.bincount(pair, weights * column) for column in level.T], axis=1, dtype=np.float64)
    shift = _sums(sums, inverse, cluster, count)
    without = all_sums - _sums(level, weights, clusters, count) - shift
    diagonals = np.diagonal(without, axis1=1, axis2=2)
    for number in np.flatnonzero((diagonals < VARIATION_MIN * np.diagonal(all_sums)).any(axis=1)):
        is_left = clusters != number
        level = less_means(columns[is_left], weights[is_left], groups[is_left])
        without[number] = _sums(level, weights[is_left], np.zeros_like(groups[is_left]), 1)[0]
    return all_sums, without


def less_means(columns: Floats, weights: Floats, groups: Ints) -> Floats:
    """Return columns less their groups' means, and exactly 0 where only rounding is left of them."""
    totals = np.bincount(groups, weights)
    safe = np.where(totals > 0, totals, 1.0)
    level = columns
    for _ in range(2):  # the second mean is what rounding left of the first
        means = np.column_stack([np.bincount(groups, weights * column) / safe for column in level.T])
        level = level - means[groups]
    varies = np.abs(level) > ROUNDING * np.abs(columns).max(axis=0)
    return np.asarray(np.where(varies, level, 0.0), dtype=np.float64)


def _sums(columns: Floats, weights: Floats, numbers: Ints, count: int) -> Floats:
    """Return the weighted products of each two columns, summed by number, shape (count, k, k)."""
    sums = np.empty((count, columns.shape[1], columns.shape[1]))
    for index, column in enumerate(columns.T):
        weighted = weights * column
        for further in range(index, columns.shape[1]):
            sums[:, index, further] = np.bincount(numbers, weighted * columns[:, further], count)
            sums[:, further, index] = sums[:, index, further]
    return sums
