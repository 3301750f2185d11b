"""When credits run out after the end of what was measured, if the load goes on as it was: a time and an interval.

The interval is the mean load's: three standard errors (of few intervals two would be too few), with neighbouring
intervals as alike as they are (effective sample size of a first-order autoregression: n (1 - r) / (1 + r)),
and half a sample's length more on both sides, since a balance is about an interval. It does not know of trends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from volbench.core.profile.arrays import Floats
from volbench.core.profile.limits import Limits
from volbench.results.credits.forecast import forecast
from volbench.results.credits.work import Work

ERRORS = 3.0
INTERVALS_MIN = 4
"""Fewer tell no variation."""
_ALIKE_MAX = 0.95


@dataclass(frozen=True, kw_only=True)
class Extrapolation:
    """Seconds from the end of what was measured until the bucket is empty.

    Args:
        bucket: its name.
        after_s: None: less than one interval of the measurement is left, too near to say more.
        earliest_s, latest_s: the interval; None: at the least load that is likely, never.
    """

    bucket: str
    after_s: float | None
    earliest_s: float
    latest_s: float | None


def ahead(limits: Limits, work: Work) -> Extrapolation | None:
    """Extrapolate a history from the balances at its end; None where no bucket runs dry, or too little is known.

    Args:
        limits: holding the balances at the end of the history.
        work: the history.
    """
    spread = relative_error(work.iops[work.is_known])
    if spread is None or not np.isfinite(work.interval_s).all():
        return None
    usual = forecast(limits, work.mean())
    if usual.bucket is None or usual.exhausted_after_s is None:
        return None
    earliest_s = forecast(limits, _times(work.mean(), 1 + ERRORS * spread)).exhausted_after_s
    latest_s = forecast(limits, _times(work.mean(), max(0.0, 1 - ERRORS * spread))).exhausted_after_s
    sample_s = float(np.median(work.interval_s))
    earliest_s = usual.exhausted_after_s if earliest_s is None else earliest_s
    return Extrapolation(
        bucket=usual.bucket.name,
        after_s=None if usual.exhausted_after_s < sample_s else usual.exhausted_after_s,
        earliest_s=max(0.0, earliest_s - sample_s / 2),
        latest_s=None if latest_s is None else latest_s + sample_s / 2,
    )


def relative_error(values: Floats) -> float | None:
    """Return standard error of the mean against the mean.

    None for fewer than INTERVALS_MIN values, or none above 0.

    Args:
        values: consecutive, shape (intervals,).
    """
    size, mean = len(values), float(values.mean()) if len(values) else 0.0
    if size < INTERVALS_MIN or mean <= 0:
        return None
    around = values - mean
    variance = float((around**2).sum())
    alike = float((around[1:] * around[:-1]).sum()) / variance if variance > 0 else 0.0
    alike = min(_ALIKE_MAX, max(0.0, alike))
    effective = max(2.0, size * (1 - alike) / (1 + alike))
    return float(np.sqrt(variance / (size - 1) / effective)) / mean


def _times(load: Work, factor: float) -> Work:
    return replace(
        load, reads_per_s=load.reads_per_s * factor, writes_per_s=load.writes_per_s * factor, _demands={}
    )
