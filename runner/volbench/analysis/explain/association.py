"""Which metrics move with latency: lagged rank correlation of differences. It supports a finding, never makes one.

Differences take out trends and levels that any two series of a run share; ranks take out scales and spikes; the
effective sample size takes out that neighbouring seconds are alike (Bayley and Hammersley 1946); Bonferroni over
the lags and Benjamini and Hochberg (1995) over the metrics take out that many were tried.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from volbench.analysis.explain.align import Floats, Grid
from volbench.analysis.explain.cliffs import midranks
from volbench.store.series import SeriesKey

LAGS = range(4)
"""Intervals by which a metric may lead the latency; one that follows it is no cause."""
SAMPLES_MIN = 20
FALSE_DISCOVERIES = 0.05
_PARTS_OF_LATENCY = "query_"
"""Times of single queries: latency by other names."""
_SPEARMAN_VARIANCE = 1.06  # of Fisher's z for rank correlations (Fieller, Hartley and Pearson 1957)


@dataclass(frozen=True, kw_only=True)
class Association:
    """One metric against latency. `lag` is how many intervals it leads; `q_value` is corrected over all metrics."""

    key: SeriesKey
    rho: float
    lag: int
    samples: int
    effective_samples: float
    p_value: float
    q_value: float

    @property
    def holds(self) -> bool:
        """Beyond the allowed rate of false discoveries."""
        return self.q_value <= FALSE_DISCOVERIES


def associations(grid: Grid, latency: SeriesKey) -> tuple[Association, ...]:
    """All metrics that can be told anything of, strongest first.

    Args:
        grid: the aligned series of one step.
        latency: which series is to be explained, such as client's latency_ms_p95; others of its source are
            other sides of the same.
    """
    target = grid.columns.get(latency)
    if target is None:
        return ()
    tested = {}
    for key, column in grid.columns.items():
        if key.source != latency.source and not key.metric.startswith(_PARTS_OF_LATENCY):
            best = strongest(column, target)
            if best is not None:
                tested[key] = best
    q_values = benjamini_hochberg({key: association[3] for key, association in tested.items()})
    rows = [
        Association(
            key=key, rho=rho, lag=lag, samples=size, effective_samples=effective, p_value=p, q_value=q_values[key]
        )
        for key, (rho, lag, (size, effective), p) in tested.items()
    ]
    return tuple(
        sorted(rows, key=lambda association: (association.q_value, -abs(association.rho), association.key))
    )


def strongest(metric: Floats, target: Floats) -> tuple[float, int, tuple[int, float], float] | None:
    """The lag with the strongest rank correlation of differences: rho, lag, samples, p over all lags.

    None for a metric that does not vary, or that has too few pairs.
    """
    dx, dy = np.diff(metric), np.diff(target)
    best: tuple[float, int, tuple[int, float], float] | None = None
    tried = 0
    for lag in LAGS:
        x, y = (dx, dy) if lag == 0 else (dx[:-lag], dy[lag:])
        both = np.isfinite(x) & np.isfinite(y)
        if int(both.sum()) < SAMPLES_MIN or np.ptp(x[both]) == 0 or np.ptp(y[both]) == 0:
            continue
        tried += 1
        rx, ry = midranks(x[both]), midranks(y[both])
        rho = float(np.corrcoef(rx, ry)[0, 1])
        if best is None or abs(rho) > abs(best[0]):
            size = effective_size(rx, ry)
            best = (rho, lag, (int(both.sum()), size), _p_value(rho, size))
    return None if best is None else (*best[:3], min(1.0, best[3] * tried))


def effective_size(x: Floats, y: Floats) -> float:
    """How many independent pairs two autocorrelated series are worth for their correlation; at most their length.

    Source: Bayley and Hammersley 1946, with autocorrelations up to a tenth of the length.
    """
    size = len(x)
    lags = np.arange(1, max(2, min(20, size // 5)))
    shared = sum((1 - lag / size) * _autocorrelation(x, lag) * _autocorrelation(y, lag) for lag in lags.tolist())
    return float(np.clip(size / (1 + 2 * max(0.0, shared)), 4.0, size))


def benjamini_hochberg(p_values: Mapping[SeriesKey, float]) -> dict[SeriesKey, float]:
    """q-values: the least rate of false discoveries at which each would be kept."""
    ordered = sorted(p_values, key=lambda key: p_values[key], reverse=True)
    q, least = {}, 1.0
    for rank, key in zip(range(len(ordered), 0, -1), ordered, strict=True):
        least = min(least, p_values[key] * len(ordered) / rank)
        q[key] = least
    return q


def _p_value(rho: float, size: float) -> float:
    """Two-sided, by Fisher's z."""
    if size <= 4 or abs(rho) >= 1:
        return 1.0 if size <= 4 else 0.0
    z = math.atanh(rho) * math.sqrt((size - 3) / _SPEARMAN_VARIANCE)
    return math.erfc(abs(z) / math.sqrt(2))


def _autocorrelation(x: Floats, lag: int) -> float:
    centred = x - x.mean()
    power = float((centred**2).sum())
    return float((centred[:-lag] * centred[lag:]).sum()) / power if power > 0 else 0.0
