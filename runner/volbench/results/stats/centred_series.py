"""Correlations of series whose values follow from those before them: fewer of their samples are independent."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from volbench.results.stats.grid import Floats


class CentredSeries:
    """A series of shape (samples,) less its mean."""

    def __init__(self, values: Floats) -> None:
        self._values = values - values.mean()
        self._power = float(self._values @ self._values)
        self.size = len(values)

    def correlation(self, series: CentredSeries) -> float:
        """Return Pearson's correlation with a series of the same length; both vary."""
        product = float(self._values @ series._values)
        return min(1.0, max(-1.0, product / math.sqrt(self._power * series._power)))

    @cached_property
    def autocorrelations(self) -> Floats:
        """At lags from 1 to a fifth of the length, at most 19; zero where nothing varies."""
        lags = range(1, max(2, min(20, self.size // 5)))
        products = np.array([self._values[:-lag] @ self._values[lag:] for lag in lags])
        return products / self._power if self._power > 0 else np.zeros(len(lags))


def effective_size(x: CentredSeries, y: CentredSeries) -> float:
    """Return how many independent pairs two autocorrelated series are worth for their correlation.

    At most their length.

    Source: Bayley and Hammersley 1946, with autocorrelations up to a fifth of the length.
    """
    products = x.autocorrelations * y.autocorrelations
    shared = float((1 - np.arange(1, len(products) + 1) / x.size) @ products)
    return float(np.clip(x.size / (1 + 2 * max(0.0, shared)), 4.0, x.size))
