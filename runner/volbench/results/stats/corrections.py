"""Adjusted p-values of several tests: Holm's, the fallback procedure's, Hommel's.

An adjusted p-value is the smallest family-wise error at which the procedure rejects that test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's step-down adjusted p-values, in the order given: the family-wise error stays below alpha.

    Source: Holm, Scandinavian Journal of Statistics 6 (1979).
    """
    adjusted = [1.0] * len(p_values)
    floor = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = floor
    return adjusted


def fallback(p_values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return adjusted p-values of the fallback procedure, in the order given.

    The family-wise error stays below alpha.

    The tests are made in their order. Each has its weight's part of alpha; one that rejects hands what it had
    on to the next. With the weights (1, 0, 0) this is the fixed sequence: each test at the whole alpha, as long as
    those before reject.

    Args:
        p_values: of the tests, the most important first.
        weights: as many, not negative, with the sum 1.

    Source: Wiens, Pharmaceutical Statistics 2 (2003); Wiens and Dmitrienko, J. Biopharm. Statistics 15 (2005).
    """
    adjusted = []
    for last in range(len(p_values)):
        chains = [1.0]
        for first in range(last + 1):
            weight_sums = np.cumsum(weights[first : last + 1])
            needed = [
                p / weight_sum if weight_sum else math.inf
                for p, weight_sum in zip(p_values[first:], weight_sums, strict=False)
            ]
            chains.append(float(max(needed)))
        adjusted.append(min(chains))
    return adjusted


def hommel(p_values: Sequence[float]) -> list[float]:
    """Return Hommel's adjusted p-values, in the order given.

    All rejected that a closed test by Simes' rule rejects.

    Valid for independent and for positively dependent tests (Sarkar, Annals of Statistics 26, 1998).
    Source: Hommel, Biometrika 75 (1988); the algorithm is Wright's (Biometrics 48, 1992).
    """
    order = np.argsort(p_values, kind="stable")
    p = np.asarray(p_values, dtype=np.float64)[order]
    count = len(p)
    adjusted = p.copy()
    for size in range(count, 1, -1):
        largest = p[count - size + 1 :]
        simes = float(np.min(size * largest / np.arange(2, size + 1)))
        bounds = np.where(np.arange(count) <= count - size, np.minimum(simes, size * p), simes)
        adjusted = np.maximum(adjusted, bounds)
    result = np.empty(count)
    result[order] = np.minimum(adjusted, 1.0)
    return [float(value) for value in result]
