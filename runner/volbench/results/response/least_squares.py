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

from volbench.results.response.left_out import Floats, Ints, less_means, products
from volbench.results.stats.student_t import t_quantile

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
    left = regressors if instruments is None else instruments
    totals, without = products(np.column_stack([left, regressors, response]), weights, group, cluster)
    slopes, changed = _solved(totals, count), _solved(without, count)
    if slopes is None or changed is None:  # not determined, or by one cluster alone
        return None
    changes = changed - slopes
    return Fit(
        slopes=slopes,
        covariance=np.asarray((len(names) - 1) / len(names) * changes.T @ changes),
        freedom=freedom,
    )


def effects(columns: Floats, regressors: Floats, instruments: Floats, *, weights: Floats, groups: Ints) -> Floats:
    """Return by how much each column changes the slopes of `fit` when it is added to the response, shape (k, m).

    Args:
        columns: shape (n, m).
        regressors, instruments, weights, groups: as `fit` has them, where the data determine the slopes.
    """
    count = regressors.shape[1]
    _, group = np.unique(groups, return_inverse=True)
    level = less_means(np.column_stack([instruments, regressors, columns]), weights, group)
    left = (weights[:, None] * level[:, :count]).T
    return np.asarray(np.linalg.solve(left @ level[:, count : 2 * count], left @ level[:, 2 * count :]))


def _freedom(cluster: Ints, group: Ints, clusters: int, groups: int, count: int) -> int:
    """Return the degrees of freedom: clusters less the slopes, and less intercepts that clusters are needed for.

    Where groups hold several clusters each, every group's intercept takes one of them.
    """
    pairs = len(np.unique(cluster * groups + group))
    intercepts = groups if pairs >= clusters else 1
    return clusters - count - min(intercepts, clusters)


def _solved(sums: Floats, count: int) -> Floats | None:
    """Return the slopes of each matrix of products, shape (..., count); None where one does not determine them.

    Columns, `count` instruments, `count` regressors and the response, are scaled to length 1 (Frisch, Waugh and
    Lovell). Without variation there is no scale.
    """
    lengths = np.sqrt(np.diagonal(sums, axis1=-2, axis2=-1))
    left, right = lengths[..., :count], lengths[..., count : 2 * count]
    if not (left > 0).all() or not (right > 0).all():
        return None
    scaled = sums[..., :count, count : 2 * count] / (left[..., :, None] * right[..., None, :])
    if not np.isfinite(scaled).all() or np.any(np.linalg.cond(scaled) > CONDITION_MAX):
        return None
    moments = sums[..., :count, -1] / left
    return np.asarray(np.linalg.solve(scaled, moments[..., None])[..., 0] / right, dtype=np.float64)
