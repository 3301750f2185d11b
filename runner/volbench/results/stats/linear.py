"""A linear model of logs with blocks, by least squares, and Student's t for its contrasts.

Estimates that the data cannot carry (a column that follows from others) are None, never a number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

_Matrix = NDArray[np.float64]
_RANK_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A contrast's value, its standard error, and the degrees of freedom of that error."""

    value: float
    error: float
    freedom: int

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the confidence interval, both sides alike."""
        reach = t_quantile((1 + confidence) / 2, self.freedom) * self.error
        return self.value - reach, self.value + reach

    @property
    def p_value(self) -> float:
        """Two-sided, of no effect."""
        if self.error == 0:
            return 0.0 if self.value else 1.0
        return 2 * (1 - t_cdf(abs(self.value / self.error), self.freedom))


class LinearModel:
    """Least squares of `values` on the columns of `design`, shapes (n,) and (n, p).

    Source: Box, Hunter and Hunter, Statistics for Experimenters, 2nd edition, chapters 5 and 10.
    """

    def __init__(self, design: _Matrix, values: _Matrix) -> None:
        _, singular, self._basis = np.linalg.svd(design, full_matrices=False)
        independent = singular > _RANK_TOLERANCE * singular.max(initial=0.0)
        self._basis = self._basis[independent]
        self.freedom = len(values) - int(independent.sum())
        self.coefficients = np.linalg.pinv(design, rcond=_RANK_TOLERANCE) @ values
        residuals = values - design @ self.coefficients
        self.squares = float(residuals @ residuals)
        self._variance = self.squares / self.freedom if self.freedom > 0 else math.nan
        self._inverse = self._basis.T @ np.diag(singular[independent] ** -2.0) @ self._basis

    @property
    def deviation(self) -> float:
        """The standard deviation of the residuals; NaN without degrees of freedom."""
        return math.sqrt(self._variance)

    def estimate(self, contrast: _Matrix) -> Estimate | None:
        """Return the contrast of coefficients, shape (p,); None when the data say nothing of it or of its error."""
        inside = self._basis.T @ (self._basis @ contrast)
        if self.freedom < 1 or not np.allclose(inside, contrast, atol=1e-7):
            return None
        variance = float(contrast @ self._inverse @ contrast) * self._variance
        return Estimate(
            value=float(contrast @ self.coefficients), error=math.sqrt(max(0.0, variance)), freedom=self.freedom
        )


def closest_signed(design: _Matrix, values: _Matrix, signs: Sequence[int]) -> tuple[LinearModel, tuple[int, ...]]:
    """Return the closest fit whose coefficients have their signs, and which columns of `design` it has.

    A coefficient that would have the wrong sign is 0: its column is left out. All choices of columns are tried.

    Args:
        signs: of each column's coefficient, 1 or -1; 0: either, and the column stays.

    Source: Lawson and Hanson, Solving Least Squares Problems (1974), chapter 23.
    """
    stay, bound = ([n for n, sign in enumerate(signs) if (sign == 0) is free] for free in (True, False))
    fits = []
    for size in range(len(bound), -1, -1):
        for chosen in combinations(bound, size):
            columns = tuple(sorted((*stay, *chosen)))
            model = LinearModel(design[:, columns], values)
            if all(model.coefficients[columns.index(n)] * signs[n] >= 0 for n in chosen):
                fits.append((model, columns))
    return min(fits, key=lambda fit: fit[0].squares)


def t_cdf(t: float, freedom: int) -> float:
    """P(T <= t) of Student's t with whole degrees of freedom: a finite sum.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    theta = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(theta), math.cos(theta)
    term, total = (cosine, 0.0) if freedom % 2 else (1.0, 1.0)
    if freedom % 2:
        total = term if freedom > 1 else 0.0
        for k in range(3, freedom - 1, 2):
            term *= cosine * cosine * (k - 1) / k
            total += term
        return 0.5 + (theta + sine * total) / math.pi
    for k in range(2, freedom - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    return 0.5 + sine * total / 2


@lru_cache(maxsize=64)
def t_quantile(probability: float, freedom: int) -> float:
    """Return the t below which T lies with that probability (0.5 .. 1), by bisection."""
    low, high = 0.0, 1.0
    while t_cdf(high, freedom) < probability:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if t_cdf(middle, freedom) < probability else (low, middle)
    return (low + high) / 2
