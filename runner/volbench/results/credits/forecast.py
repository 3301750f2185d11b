"""When credits run out under a constant load or a history, and what is left then."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volbench.core.profile.arrays import Floats
from volbench.core.profile.limits import Limits, VolumeLimit
from volbench.results.credits.balance import BalanceSimulation, pieces_of, replay, served_by_caps
from volbench.results.credits.work import Gaps, Work
from volbench.results.stats.grid import true_runs

HORIZON_S = 86_400.0  # a balance that never runs out is drawn for a day
POINTS_MAX = 500
_AFTER_EXHAUSTION = 1.25  # a balance that runs out is drawn this much longer


@dataclass(frozen=True, kw_only=True)
class BalancePoint:
    """A balance at a time; seconds since the begin."""

    t_s: float
    balance: float


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What is served."""

    iops: float
    mib_per_s: float
    share: float


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The outcome for one load on one volume.

    Args:
        bucket: the bucket that this is about: the first that runs dry, else the volume's; None: it has none.
        exhausted_after_s: seconds from the begin until that bucket is empty; None: it never is.
        refill_s: seconds from empty to full without load; None without a bucket.
        before, after: what is served while credits last, and once they are gone; of a history, `before` is what
            was asked for and `after` the mean of what is served while it is held back; None where there is none.
        throttled_s: how long an empty bucket holds the load back; None: for ever.
        capped_s: how long the load asks for more than a cap; None: for ever.
        episodes: begin and end of the stretches in which the load is held back by an empty bucket.
        balance: of that bucket, at most POINTS_MAX points, the lowest of each stretch of a longer history.
        final_balances: of every bucket, at the end of a history; empty for a constant load.
    """

    bucket: VolumeLimit | None
    exhausted_after_s: float | None
    refill_s: float | None
    before: Rates
    after: Rates | None
    throttled_s: float | None
    capped_s: float | None
    episodes: tuple[tuple[float, float], ...]
    balance: tuple[BalancePoint, ...]
    final_balances: tuple[float, ...]


def forecast(limits: Limits, work: Work, *, gaps: Gaps = "baseline") -> Forecast:
    """Forecast a constant load (one interval without end) or a history."""
    if np.isinf(work.interval_s).any():
        return _constant(limits, work)
    return _history(limits, work, replay(limits, work, gaps=gaps))


def main_bucket(limits: Limits, exhausted_after_s: tuple[float | None, ...] = ()) -> int | None:
    """Return the bucket that a reader wants to hear of: the first to run dry, else the volume's own, else any."""
    if not limits.buckets:
        return None
    dry = [(at_s, index) for index, at_s in enumerate(exhausted_after_s) if at_s is not None]
    if dry:
        return min(dry)[1]
    scopes = [bucket.scope for bucket in limits.buckets]
    return scopes.index("volume") if "volume" in scopes else 0


def _constant(limits: Limits, work: Work) -> Forecast:
    cap = float(served_by_caps(limits, work)[0])
    buckets = limits.buckets
    pieces = pieces_of(
        rates=[bucket.rate_per_s for bucket in buckets],
        capacities=[bucket.capacity or 0.0 for bucket in buckets],
        balances=[bucket.start for bucket in buckets],
        demand=[float(work.demand(bucket.charge)[0]) for bucket in buckets],
        served=cap,
        duration_s=np.inf,
    )
    exhausted: list[float | None] = [None] * len(buckets)
    passed_s = 0.0
    for piece in pieces:
        passed_s += piece.duration_s
        for index in piece.emptied:
            exhausted[index] = passed_s
    main = main_bucket(limits, tuple(exhausted))
    bucket = None if main is None else buckets[main]
    after_s = None if main is None else exhausted[main]
    dries = after_s is not None
    points = () if main is None else _constant_points(limits, work, main, after_s, cap)
    return Forecast(
        bucket=bucket,
        exhausted_after_s=after_s,
        refill_s=bucket.refill_s if bucket else None,
        before=_rates(work, 0, cap),
        after=_rates(work, 0, pieces[-1].served) if dries else None,
        throttled_s=None if dries else 0.0,
        capped_s=None if cap < 1.0 else 0.0,
        episodes=(),
        balance=points,
        final_balances=(),
    )


def _constant_points(
    limits: Limits, work: Work, main: int, exhausted_s: float | None, cap: float
) -> tuple[BalancePoint, ...]:
    """Return two or three corners: the balance is straight between them. After the first cut it stays at zero."""
    bucket = limits.buckets[main]
    capacity = bucket.capacity or 0.0
    start = BalancePoint(t_s=0.0, balance=bucket.start)
    if exhausted_s is not None:
        end_s = max(exhausted_s * _AFTER_EXHAUSTION, exhausted_s + 1.0)
        return (start, BalancePoint(t_s=exhausted_s, balance=0.0), BalancePoint(t_s=end_s, balance=0.0))
    gain = bucket.rate_per_s - cap * float(work.demand(bucket.charge)[0])
    full_s = (capacity - bucket.start) / gain if gain > 0 else np.inf
    if full_s < HORIZON_S:
        return (start, BalancePoint(t_s=full_s, balance=capacity), BalancePoint(t_s=HORIZON_S, balance=capacity))
    return (start, BalancePoint(t_s=HORIZON_S, balance=bucket.start + gain * HORIZON_S))


def _share_while_throttled(limits: Limits, work: Work, replayed: BalanceSimulation) -> Floats:
    """Return what share of each interval's load is served in the seconds in which a bucket is empty.

    Shape (intervals,).

    Of an hour that is throttled for ten minutes the other fifty are served as the caps allow.
    """
    throttled_s = replayed.throttled_s
    free_s = np.maximum(0.0, work.interval_s - throttled_s)
    served_s = replayed.served * work.interval_s - served_by_caps(limits, work) * free_s
    return np.clip(np.divide(served_s, throttled_s, out=np.ones_like(served_s), where=throttled_s > 0), 0.0, 1.0)


def _history(limits: Limits, work: Work, replayed: BalanceSimulation) -> Forecast:
    main = main_bucket(limits, replayed.exhausted_after_s)
    bucket = None if main is None else limits.buckets[main]
    throttled = replayed.throttled_s > 0
    after = None
    if throttled.any():
        weights, share = replayed.throttled_s, _share_while_throttled(limits, work, replayed)
        after = Rates(
            iops=_mean(work.iops * share, weights),
            mib_per_s=_mean((work.read_bytes_per_s + work.write_bytes_per_s) * share, weights) / 2**20,
            share=_mean(share, weights),
        )
    lengths_s = np.where(work.is_known, work.interval_s, 0.0)
    return Forecast(
        bucket=bucket,
        exhausted_after_s=None if main is None else replayed.exhausted_after_s[main],
        refill_s=bucket.refill_s if bucket else None,
        before=Rates(
            iops=_mean(work.iops, lengths_s),
            mib_per_s=_mean(work.read_bytes_per_s + work.write_bytes_per_s, lengths_s) / 2**20,
            share=1.0,
        ),
        after=after,
        throttled_s=float(replayed.throttled_s.sum()),
        capped_s=float(work.interval_s[replayed.capped].sum()),
        episodes=_episodes(replayed.throttled_s, work.ends_s),
        balance=() if main is None or bucket is None else _history_points(work, replayed, main, bucket),
        final_balances=tuple(replayed.balances[-1].tolist()),
    )


def _episodes(throttled_s: Floats, ends_s: Floats) -> tuple[tuple[float, float], ...]:
    """Return begin and end of each stretch that is throttled; the bucket may run dry within its first interval."""
    return tuple(
        (float(ends_s[first] - throttled_s[first]), float(ends_s[after - 1]))
        for first, after in true_runs(throttled_s > 0)
    )


def _history_points(
    work: Work, replayed: BalanceSimulation, main: int, bucket: VolumeLimit
) -> tuple[BalancePoint, ...]:
    balances, ends_s = replayed.balances[:, main], work.ends_s
    stride = -(-len(balances) // (POINTS_MAX - 1))
    starts = np.arange(0, len(balances), stride)
    lowest = np.minimum.reduceat(balances, starts)
    last = np.minimum(starts + stride, len(balances)) - 1
    points = (
        BalancePoint(t_s=float(t_s), balance=float(low)) for t_s, low in zip(ends_s[last], lowest, strict=True)
    )
    return (BalancePoint(t_s=0.0, balance=bucket.start), *points)


def _rates(work: Work, index: int, share: float) -> Rates:
    bytes_per_s = float(work.read_bytes_per_s[index] + work.write_bytes_per_s[index])
    return Rates(iops=float(work.iops[index]) * share, mib_per_s=bytes_per_s * share / 2**20, share=share)


def _mean(values: Floats, weights: Floats) -> float:
    total = float(weights.sum())
    return float((values * weights).sum() / total) if total > 0 else 0.0
