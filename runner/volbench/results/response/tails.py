"""Percentiles of a load with other waiting times, and how far off such a prediction is where it can be looked up.

A percentile has no count of waits: slow transactions are those that wait more often or longer than others. Two ways
to predict it were tried on recorded runs (tests/benchmarks/what_if_response.py, figures in docs/response.md).

- *In proportion*: q' = q x L'/L. Exact where all that a transaction waits for, and all else, grows by one factor.
- *Convolution*: a transaction is a constant time and a Poisson number of waits of each kind, each
  of them exponential with the await as its mean. Exact for waits that do not depend on each other. Those of a
  transaction do: they meet the same queue, so its percentiles came out far too small.

The first is used. It is held out on each run itself: the percentile of every level (volume, threads) is predicted
from that of the level whose latency is nearest, and compared with what was measured there. No percentile went into
b, so all of them are unseen. Where the largest error exceeds ERROR_MAX, or nothing can be looked up, none is told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from volbench.results.response.levels import LatencyEstimate, LatencySlope, VolumeLoad, latency_at

ERROR_MAX = 0.25
"""Largest held-out error, as a share of what was measured, up to which a percentile is printed."""
TAIL_LEVELS: Mapping[float, str] = {0.5: "p50", 0.95: "p95", 0.99: "p99"}


@dataclass(frozen=True, kw_only=True)
class TailCheck:
    """How far off a percentile is, predicted on each level from the nearest one.

    Args:
        errors: predicted / measured - 1, one for each level.
        reason: why the percentile is not predicted; empty: it is.
    """

    statistic: str
    errors: tuple[float, ...]
    reason: str = ""

    @property
    def error_max(self) -> float:
        """The largest error, without its sign."""
        return max(map(abs, self.errors), default=math.inf)


def tail_check(levels: Sequence[VolumeLoad], costs: Sequence[LatencySlope], quantile: float) -> TailCheck:
    """Return the held-out check of one percentile.

    Args:
        levels: what was measured, on each volume with each number of threads.
        costs: ms of latency per ms of each await, which know of no percentile.
        quantile: of TAIL_LEVELS.
    """
    statistic = TAIL_LEVELS[quantile]
    measured = [level for level in levels if quantile in level.quantiles_ms]
    errors = []
    for level in measured:
        references = [item for item in measured if item is not level and item.threads == level.threads]
        near = _nearest(references, level.latency_ms)
        if near is None:
            continue
        latency = latency_at(near, costs, level.awaits_ms)
        if latency.value_ms > 0:
            expected_ms = near.quantiles_ms[quantile] * latency.value_ms / near.latency_ms
            errors.append(expected_ms / level.quantiles_ms[quantile] - 1)
        else:
            errors.append(-1.0)
    check = TailCheck(statistic=statistic, errors=tuple(errors))
    if not errors:
        reason = f"{statistic} is not predicted: this run has no second volume to check it on"
    elif check.error_max > ERROR_MAX:
        reason = (
            f"{statistic} is not predicted: predicted from one volume of this run for another, it was off by up to"
            f" {100 * check.error_max:.0f} % (at most {100 * ERROR_MAX:.0f} % is printed)"
        )
    else:
        return check
    return TailCheck(statistic=statistic, errors=check.errors, reason=reason)


def tail_at(
    level: VolumeLoad, check: TailCheck, quantile: float, latency: LatencyEstimate
) -> LatencyEstimate | None:
    """Return a percentile where the mean latency is another one; None where the check does not allow it.

    Its interval is that of the mean, widened on both sides by the largest held-out error.
    """
    if check.reason or quantile not in level.quantiles_ms or latency.low_ms <= 0:
        return None
    times = level.quantiles_ms[quantile] / level.latency_ms
    return LatencyEstimate(
        value_ms=times * latency.value_ms,
        low_ms=times * latency.low_ms * (1 - check.error_max),
        high_ms=times * latency.high_ms * (1 + check.error_max),
    )


def _nearest(levels: Sequence[VolumeLoad], latency_ms: float) -> VolumeLoad | None:
    return min(levels, key=lambda level: abs(math.log(level.latency_ms / latency_ms)), default=None)
