"""The share of a recorded load's requests that a volume would serve late, hour by hour.

A recording has means over its intervals, and a volume queues within seconds. How far seconds spread around a mean
is estimated from how far the finest intervals spread around the means of pairs of them, and taken to go on so at
every halving down to a second (a multiplicative cascade; Gupta and Waymire 1993). With lognormal seconds of
deviation s and a load of mean r on a limit of c, the share of requests that come in seconds above the limit is
Phi((ln(r / c) + s^2 / 2) / s). What an empty bucket of credits holds back is late as a whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from volbench.core.profile.arrays import Floats
from volbench.core.profile.limits import Limits
from volbench.results.credits.balance import replay
from volbench.results.credits.work import Work

PERIOD_S = 3600.0
"""A promise about a percentile is kept in every hour: over a week, a bad hour a day would hide in 5 %."""
LATE_MAX = 0.05
"""Of the requests of an hour, for a 95th percentile."""
SPREAD_DOUBT = 0.4
"""Standard deviation of the logarithm of a spread's estimate: it goes half as far again, or to two thirds."""
_BUSY_QUANTILE = 0.75
"""Pairs from this quantile of rates on count: how idle hours spread says nothing of busy ones."""
_PAIRS_MIN = 8
_SPREAD_OF_FEW = 0.1
"""Of a halving, variance where fewer pairs are known: a factor of 1.4 to and fro."""
_SECOND_DEVIATION = 0.05
"""Of a second's rate about its mean, beyond what chance does (1 / sqrt(rate)): the least that is assumed."""


@dataclass(frozen=True, kw_only=True)
class RateSpread:
    """How a load's seconds spread around the means of a recording.

    `variance`: of the logarithm of a second's rate; `halvings`: from the recording's interval to a second.
    """

    variance: float
    halvings: float
    pairs: int

    @property
    def is_recorded(self) -> bool:
        """Whether the recording itself has seconds."""
        return self.halvings <= 0


def spread_of(work: Work) -> RateSpread:
    """Return how a recording's seconds spread, by the cascade of its two finest levels."""
    is_known = work.is_known & np.isfinite(work.interval_s)
    width_s = float(np.median(work.interval_s[is_known])) if is_known.any() else 1.0
    halvings = max(0.0, math.log2(max(width_s, 1.0)))
    rates = np.where(is_known, work.iops, np.nan)
    variances, pairs = [], 0
    for _ in range(2):
        ratios = _busy_ratios(rates)
        if len(ratios) >= _PAIRS_MIN:
            variances.append(float(np.mean(ratios**2)))
            pairs = max(pairs, len(ratios))
        rates = _paired(rates).mean(axis=1)
    each = float(np.mean(variances)) if variances else _SPREAD_OF_FEW
    return RateSpread(variance=each * halvings, halvings=halvings, pairs=pairs)


def late_shares(limits: Limits, work: Work, spread: RateSpread, *, factor: float = 1.0) -> Floats:
    """Return the share of late requests in each period of PERIOD_S, shape (periods,); NaN without requests.

    Args:
        limits: of the volume; its buckets are full at first, and the load comes twice: the second time counts.
        factor: times the estimated deviation of seconds.
    """
    requests = np.where(work.is_known, work.iops * work.interval_s, 0.0)
    late = np.zeros(requests.shape)
    for cap in limits.caps:
        demand = work.demand(cap.charge)
        chance = 1.0 / np.maximum(work.iops, 1.0) + _SECOND_DEVIATION**2
        deviation = np.sqrt(factor**2 * spread.variance + chance)
        with np.errstate(divide="ignore"):
            level = np.log(demand / cap.rate_per_s)
        late = np.maximum(late, _normal((level + deviation**2 / 2) / deviation))
    if limits.buckets:
        twice = _twice(work)
        throttled_s = replay(limits.starting_at(1.0), twice).throttled_s[len(requests) :]
        throttled_share = throttled_s / work.interval_s
        late = 1 - (1 - late) * (1 - throttled_share)
    return by_period(work, late * requests, requests)


def by_period(work: Work, late: Floats, requests: Floats) -> Floats:
    """Return late requests over all, by periods of PERIOD_S from the begin; NaN where there are none."""
    period = (np.concatenate([[0.0], work.ends_s[:-1]]) // PERIOD_S).astype(np.int64)
    count = int(period[-1]) + 1
    done = np.bincount(period, weights=requests, minlength=count)
    slow = np.bincount(period, weights=late, minlength=count)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(done > 0, slow / done, np.nan)


def _twice(work: Work) -> Work:
    """Return the load followed by itself."""
    return Work(
        start_s=work.start_s,
        clock="none",
        sequential=work.sequential,
        interval_s=np.tile(work.interval_s, 2),
        reads_per_s=np.tile(work.reads_per_s, 2),
        writes_per_s=np.tile(work.writes_per_s, 2),
        read_bytes=np.tile(work.read_bytes, 2),
        write_bytes=np.tile(work.write_bytes, 2),
        is_known=np.tile(work.is_known, 2),
    )


def _paired(rates: Floats) -> Floats:
    return rates[: len(rates) // 2 * 2].reshape(-1, 2)


def _busy_ratios(rates: Floats) -> Floats:
    """Return ln of each half's rate over its pair's mean, of busy pairs; shape (2 x pairs,)."""
    pairs = _paired(rates)
    sums = pairs.sum(axis=1)
    usable = np.isfinite(sums) & (sums > 0)
    if not usable.any():
        return np.empty(0)
    busy = usable & (np.nan_to_num(sums) >= np.quantile(sums[usable], _BUSY_QUANTILE))
    halves = np.maximum(pairs[busy], 1.0)  # a half without any request is one request
    return np.asarray(np.log(halves / halves.mean(axis=1, keepdims=True)).ravel(), dtype=np.float64)


_POLYNOMIAL = (1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.319381530, 0.0)


def _normal(z: Floats) -> Floats:
    """Return the standard normal distribution function to 7.5e-8 (Abramowitz and Stegun 26.2.17)."""
    t = 1.0 / (1.0 + 0.2316419 * np.abs(z))
    above = np.exp(-(np.minimum(np.abs(z), 38.0) ** 2) / 2) / math.sqrt(2 * math.pi) * np.polyval(_POLYNOMIAL, t)
    return np.asarray(np.where(z > 0, 1.0 - above, above), dtype=np.float64)
