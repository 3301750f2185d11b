"""Slopes of a response over several regressors, with the intervals of a jackknife over clusters.

The model is y = intercept of its group + sum of slope x regressor + error. Errors of one cluster may depend on each
other in any way; those of different clusters may not. The jackknife leaves out one cluster at a time (CR3 of
MacKinnon, Nielsen and Webb, "Cluster-robust inference: a guide to empirical practice", Journal of Econometrics
2023): of few clusters it is the one whose intervals are not too short, and it draws no random numbers.

Instruments replace the regressors on one side of the normal equations (two-stage least squares with as many
instruments as regressors): what moves a regressor and not the instrument, measurement noise included, averages out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volbench.results.stats.student_t import t_quantile

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CONDITION_MAX = 1e8
"""Of the normal equations of scaled columns; beyond, float64 leaves fewer than eight digits of a slope."""
CLUSTERS_MIN = 4
"""Of three clusters or fewer, Student's t has so few degrees of freedom that no interval is worth printing."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Slopes of shape (k,), their covariance of shape (k, k), and the degrees of freedom of its estimate."""

    slopes: Floats
    covariance: Floats
    freedom: int
    intercept: float
    clusters: int

    def error(self, term: int) -> float:
        """Return the standard error of one slope."""
        return math.sqrt(max(0.0, float(self.covariance[term, term])))

    def reach(self, term: int, confidence: float) -> float:
        """Return half the width of one slope's confidence interval."""
        return t_quantile((1 + confidence) / 2, self.freedom) * self.error(term)


def fit(
    response: Floats,
    regressors: Floats,
    *,
    weights: Floats,
    groups: Ints,
    clusters: Ints,
    instruments: Floats | None = None,
) -> Fit | None:
    """Return the slopes; None where the data do not determine them or have fewer than CLUSTERS_MIN clusters.

    Args:
        response: y, shape (n,).
        regressors: shape (n, k), in the units that the slopes are per.
        weights: of the rows, shape (n,): the inverse of each row's variance, up to a factor.
        groups: rows of one number share an intercept, shape (n,).
        clusters: rows of one number may have errors that depend on each other, shape (n,).
        instruments: shape (n, k); None: the regressors are their own.
    """
    names, cluster = np.unique(clusters, return_inverse=True)
    levels, group = np.unique(groups, return_inverse=True)
    count = regressors.shape[1]
    freedom = _freedom(cluster, group, len(names), len(levels), count)
    if len(names) < CLUSTERS_MIN or freedom < 1 or not count:
        return None
    left, right, target, scale = _demeaned(response, regressors, instruments, weights, group)
    if scale is None:
        return None
    products = np.zeros((len(names), count, count))
    moments = np.zeros((len(names), count))
    np.add.at(products, cluster, weights[:, None, None] * left[:, :, None] * right[:, None, :])
    np.add.at(moments, cluster, (weights * target)[:, None] * left)
    total = products.sum(axis=0)
    if not _is_determined(total):
        return None
    slopes = np.linalg.solve(total, moments.sum(axis=0))
    covariance = _jackknife(response, regressors, instruments, weights, group, cluster, scale, slopes)
    if covariance is None:
        return None
    unit = np.outer(1 / scale, 1 / scale)
    unscaled = slopes / scale
    share = weights / weights.sum()
    intercept = float(share @ response - (share @ regressors) @ unscaled)
    return Fit(
        slopes=unscaled, covariance=covariance * unit, freedom=freedom, intercept=intercept, clusters=len(names)
    )


def _freedom(cluster: Ints, group: Ints, clusters: int, groups: int, count: int) -> int:
    """Return the degrees of freedom: clusters less the slopes, and less intercepts that clusters are needed for.

    Where groups hold several clusters each, every group's intercept takes one of them.
    """
    pairs = len(np.unique(cluster * groups + group))
    intercepts = groups if pairs >= clusters else 1
    return clusters - count - min(intercepts, clusters)


def _demeaned(
    response: Floats, regressors: Floats, instruments: Floats | None, weights: Floats, group: Ints
) -> tuple[Floats, Floats, Floats, Floats | None]:
    """Return instruments, regressors and response less their groups' means, and the regressors' scale.

    Columns are scaled to a weighted deviation of 1 (Frisch, Waugh and Lovell). Without variation there is no scale.
    """
    totals = np.bincount(group, weights)
    safe = np.where(totals > 0, totals, 1.0)

    def less_mean(values: Floats) -> Floats:
        return np.asarray(values - (np.bincount(group, weights * values) / safe)[group], dtype=np.float64)

    right = np.column_stack([less_mean(column) for column in regressors.T])
    scale = np.sqrt((weights[:, None] * right**2).sum(axis=0) / weights.sum())
    if not (scale > 0).all():
        return right, right, response, None
    right = right / scale
    left = right if instruments is None else np.column_stack([less_mean(column) for column in instruments.T])
    if instruments is not None:
        spread = np.sqrt((weights[:, None] * left**2).sum(axis=0) / weights.sum())
        if not (spread > 0).all():
            return right, right, response, None
        left = left / spread
    return left, right, less_mean(response), scale


def _is_determined(products: Floats) -> bool:
    return bool(np.isfinite(products).all()) and bool(np.linalg.cond(products) <= CONDITION_MAX)


def _jackknife(
    response: Floats,
    regressors: Floats,
    instruments: Floats | None,
    weights: Floats,
    group: Ints,
    cluster: Ints,
    scale: Floats,
    slopes: Floats,
) -> Floats | None:
    """Return the covariance of scaled slopes; None where they rest on one cluster alone."""
    count = int(cluster.max()) + 1
    changes = np.empty((count, len(slopes)))
    for number in range(count):
        rows = cluster != number
        left, right, target, spread = _demeaned(
            response[rows],
            regressors[rows],
            None if instruments is None else instruments[rows],
            weights[rows],
            group[rows],
        )
        if spread is None:
            return None
        products = (weights[rows, None] * left).T @ right
        if not _is_determined(products):
            return None
        without = np.linalg.solve(products, (weights[rows, None] * left).T @ target)
        changes[number] = without * scale / spread - slopes
    return np.asarray((count - 1) / count * changes.T @ changes)
