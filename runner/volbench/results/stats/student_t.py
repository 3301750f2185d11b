"""Student's t distribution: its upper tail and its quantiles."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


def t_tail(t: float, freedom: float) -> float:
    """P(T >= t) of Student's t with `freedom` (at least 1) degrees of freedom.

    With t = sqrt(freedom) tan(a) the density becomes cos(a)^(freedom - 1), which Gauss and Legendre's rule
    integrates from a to pi/2. The normalisation is a beta function.
    """
    start = math.atan2(t, math.sqrt(freedom))
    angles = (_NODES + 1) / 2 * (math.pi / 2 - start) + start
    area = (math.pi / 2 - start) / 2 * float(_WEIGHTS @ np.cos(angles) ** (freedom - 1))
    log_beta = math.lgamma(0.5) + math.lgamma(freedom / 2) - math.lgamma((freedom + 1) / 2)
    return min(1.0, area / math.exp(log_beta))


@lru_cache(maxsize=4096)
def t_quantile(p: float, freedom: float) -> float:
    """Return the value that Student's t stays below with probability p, 0.5 <= p < 1, by bisection of `t_tail`."""
    low, high = 0.0, 1.0
    while t_tail(high, freedom) > 1 - p:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_tail(middle, freedom) > 1 - p else (low, middle)
    return (low + high) / 2
