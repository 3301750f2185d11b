"""The balance of credit buckets under a load.

A load that asks for more than a cap is served in part. What is served costs every bucket its charge; a bucket earns
its rate all the time and holds at most its capacity (Amazon EBS User Guide, I/O credits and burst performance). An
empty bucket serves its rate. Buckets are in series: what one holds back, the others do not pay for. Requests that
are not served are counted, and not made up for later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from volbench.core.profile.arrays import Floats
from volbench.core.profile.limits import Limits, VolumeLimit
from volbench.results.credits.work import Gaps, Work

_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class LoadStretch:
    """A stretch of constant load in which no bucket runs dry before its end.

    Args:
        duration_s: may be infinite.
        served: share of the load that is served.
        balances: of every bucket at its end.
        emptied: which buckets run dry at its end.
    """

    duration_s: float
    served: float
    balances: tuple[float, ...]
    emptied: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class BalanceSimulation:
    """What a volume makes of a history.

    Args:
        balances: shape (intervals, buckets), at the end of each interval.
        served: shape (intervals,), share of the load that is served.
        throttled_s: shape (intervals,), how long an empty bucket held the load back.
        capped: shape (intervals,), whether the load asked for more than a cap.
        exhausted_after_s: of every bucket, seconds from the begin until it first ran dry; None: it never did.
    """

    balances: Floats
    served: Floats
    throttled_s: Floats
    capped: np.ndarray[tuple[int], np.dtype[np.bool_]]
    exhausted_after_s: tuple[float | None, ...]


def served_by_caps(limits: Limits, work: Work) -> Floats:
    """Return share of the load that the caps let through, shape (intervals,)."""
    served = np.ones(work.interval_s.shape)
    for cap in limits.caps:
        demand = work.demand(cap.charge)
        over = demand > cap.rate_per_s
        served = np.where(over, np.minimum(served, cap.rate_per_s / np.where(over, demand, 1.0)), served)
    return served


def pieces_of(
    *,
    rates: Sequence[float],
    capacities: Sequence[float],
    balances: Sequence[float],
    demand: Sequence[float],
    served: float,
    duration_s: float,
) -> list[LoadStretch]:
    """Return constant load until the end, cut where a bucket runs dry.

    At most one piece more than there are buckets.

    Args:
        rates, capacities, balances, demand: of every bucket, in its units (per second).
        served: share that the caps let through.
        duration_s: may be infinite.
    """
    left_s, now, pieces = duration_s, list(balances), list[LoadStretch]()
    dry: tuple[int, ...] = ()
    buckets = range(len(rates))
    for _ in range(len(rates) + 1):
        share = min([served, *(rates[j] / demand[j] for j in dry)])
        gains = [rates[j] - share * demand[j] for j in buckets]
        dry_s = [now[j] / -gains[j] if gains[j] < 0 and j not in dry else np.inf for j in buckets]
        step_s = min(left_s, *dry_s) if dry_s else left_s
        emptied = tuple(j for j in buckets if dry_s[j] <= step_s and dry_s[j] < np.inf)
        for j in buckets:
            if j in emptied:
                now[j] = 0.0
            elif gains[j] != 0:
                now[j] = min(max(now[j] + gains[j] * step_s, 0.0), capacities[j])
        pieces.append(LoadStretch(duration_s=step_s, served=share, balances=tuple(now), emptied=emptied))
        left_s, dry = left_s - step_s, (*dry, *emptied)
        if not emptied or left_s <= 0:
            break
    return pieces


def replay(limits: Limits, work: Work, *, gaps: Gaps = "baseline") -> BalanceSimulation:
    """Return balances over a history.

    Args:
        limits: of the volume, with what is in its buckets at first.
        work: consecutive intervals of finite length.
        gaps: what is assumed where nothing is known: no load, or just what each bucket earns.
    """
    caps = served_by_caps(limits, work)
    demands = [work.demand_with_gaps(bucket, gaps) for bucket in limits.buckets]
    drained = _drained(limits.buckets, demands, caps, work.interval_s)
    return BalanceSimulation(
        balances=drained.balances,
        served=drained.served,
        throttled_s=drained.throttled_s,
        capped=caps < 1.0,
        exhausted_after_s=drained.exhausted_after_s,
    )


def is_sustainable(limits: Limits, work: Work, *, gaps: Gaps = "baseline") -> bool:
    """Return whether no bucket ever runs dry, however often the work is repeated.

    It is repeated once: a bucket that ends the second time where it ended the first has found its cycle.
    """
    caps = served_by_caps(limits, work)
    demands = [work.demand_with_gaps(bucket, gaps) for bucket in limits.buckets]
    if np.isinf(work.interval_s).any():
        return all(
            bool((caps * demand <= bucket.rate_per_s * (1 + _ROUNDING)).all())
            for bucket, demand in zip(limits.buckets, demands, strict=True)
        )
    first = _unbounded_paths(limits.buckets, demands, caps, work.interval_s)
    again = [replace(bucket, start=float(path[-1])) for bucket, path in zip(limits.buckets, first, strict=True)]
    second = _unbounded_paths(again, demands, caps, work.interval_s)
    return all(
        once.min() >= 0.0 and twice.min() >= 0.0 and twice[-1] >= once[-1] - (bucket.capacity or 0.0) * _ROUNDING
        for bucket, once, twice in zip(limits.buckets, first, second, strict=True)
    )


def _unbounded_paths(
    buckets: Sequence[VolumeLimit], demands: Sequence[Floats], served: Floats, interval_s: Floats
) -> list[Floats]:
    """Return balances without the lower bound: below 0, a bucket has run dry (how far below means nothing).

    b(i) = min(capacity, b(i-1) + gain(i)) is S(i) + min(b(0), min over j <= i of capacity - S(j)), where S is the
    running sum of the gains.
    """
    paths = []
    for bucket, demand in zip(buckets, demands, strict=True):
        sums = np.cumsum((bucket.rate_per_s - served * demand) * interval_s)
        ceiling = np.minimum.accumulate((bucket.capacity or 0.0) - sums)
        paths.append(sums + np.minimum(bucket.start, ceiling))
    return paths


@dataclass(frozen=True, kw_only=True, eq=False)
class _Drained:
    """As Replay, but for the caps."""

    balances: Floats
    throttled_s: Floats
    served: Floats
    exhausted_after_s: tuple[float | None, ...]


def _drained(
    buckets: Sequence[VolumeLimit], demands: Sequence[Floats], served: Floats, interval_s: Floats
) -> _Drained:
    """Return the balances of all buckets, by the cheapest way that is exact.

    A bucket that the whole load would not empty is not emptied by less either, so that it may be left out. Often
    one bucket alone holds the load back: then the others, under what it lets through, do not run dry.
    """
    dry = _running_dry(buckets, demands, served, interval_s)
    for chosen in (*([index] for index in dry), dry):
        chosen_buckets = [buckets[index] for index in chosen]
        chosen_demands = [demands[index] for index in chosen]
        loop = _no_bucket if not chosen else _one_bucket if len(chosen) == 1 else _many_buckets
        drained = loop(chosen_buckets, interval_s, chosen_demands, served)
        also_dry = set(_running_dry(buckets, demands, drained.served, interval_s)) - set(chosen)
        if not also_dry:
            break
    paths = _unbounded_paths(buckets, demands, drained.served, interval_s)
    exhausted: list[float | None] = [None] * len(buckets)
    for column, index in enumerate(chosen):
        paths[index], exhausted[index] = drained.balances[:, column], drained.exhausted_after_s[column]
    balances = np.column_stack(paths) if paths else np.zeros((len(served), 0))
    return replace(drained, balances=balances, exhausted_after_s=tuple(exhausted))


def _running_dry(
    buckets: Sequence[VolumeLimit], demands: Sequence[Floats], served: Floats, interval_s: Floats
) -> list[int]:
    paths = _unbounded_paths(buckets, demands, served, interval_s)
    return [index for index, path in enumerate(paths) if path.min() <= 0.0]


def _no_bucket(_: Sequence[VolumeLimit], interval_s: Floats, __: Sequence[Floats], caps: Floats) -> _Drained:
    nothing = np.zeros(interval_s.shape)
    return _Drained(balances=nothing[:, None][:, :0], throttled_s=nothing, served=caps, exhausted_after_s=())


def _one_bucket(
    buckets: Sequence[VolumeLimit], interval_s: Floats, demands: Sequence[Floats], caps: Floats
) -> _Drained:
    (bucket,), (demand,) = buckets, demands
    capacity, balance = bucket.capacity or 0.0, bucket.start
    balances, dry = list[float](), list[tuple[int, float]]()
    # A plain loop over floats: a year of minutes takes a tenth of a second, and every step clamps at both ends.
    for index, gain in enumerate(((bucket.rate_per_s - caps * demand) * interval_s).tolist()):
        after = balance + gain
        if after > capacity:
            after = capacity
        elif after <= 0.0 and gain < 0.0:
            dry.append((index, 1.0 + balance / gain))
            after = 0.0
        balance = after
        balances.append(balance)
    dry_s = np.zeros(interval_s.shape)
    if dry:
        indices, shares = np.array([index for index, _ in dry]), np.array([share for _, share in dry])
        dry_s[indices] = shares * interval_s[indices]
    over = caps * demand > bucket.rate_per_s
    empty = np.where(over, bucket.rate_per_s / np.where(over, demand, 1.0), caps)
    return _Drained(
        balances=np.array(balances)[:, None],
        throttled_s=dry_s,
        served=caps - (caps - empty) * dry_s / interval_s,
        exhausted_after_s=(_moment(interval_s, dry[0][0], 1.0 - dry[0][1]) if dry else None,),
    )


def _many_buckets(
    buckets: Sequence[VolumeLimit], interval_s: Floats, demands: Sequence[Floats], caps: Floats
) -> _Drained:
    rates, capacities = [b.rate_per_s for b in buckets], [b.capacity or 0.0 for b in buckets]
    now = [bucket.start for bucket in buckets]
    balances, dry_s, served = list[list[float]](), np.zeros(len(caps)), caps.copy()
    exhausted: list[float | None] = [None] * len(buckets)
    rows = zip(interval_s.tolist(), caps.tolist(), *(demand.tolist() for demand in demands), strict=True)
    for index, (length_s, cap, *demand) in enumerate(rows):
        after = [
            balance + (rate - cap * units_per_s) * length_s
            for balance, rate, units_per_s in zip(now, rates, demand, strict=True)
        ]
        if min(after) > 0.0:
            now = [min(value, capacity) for value, capacity in zip(after, capacities, strict=True)]
            balances.append(now)
            continue
        pieces = pieces_of(
            rates=rates, capacities=capacities, balances=now, demand=demand, served=cap, duration_s=length_s
        )
        if len(pieces) > 1 or pieces[0].emptied:
            served[index] = sum(piece.served * piece.duration_s for piece in pieces) / length_s
            dry_s[index] = sum(piece.duration_s for piece in pieces if piece.served < cap)
            passed_s = 0.0
            for piece in pieces:
                passed_s += piece.duration_s
                for bucket in piece.emptied:
                    if exhausted[bucket] is None:
                        exhausted[bucket] = _moment(interval_s, index, passed_s / length_s)
        now = list(pieces[-1].balances)
        balances.append(now)
    table = np.array(balances).reshape(len(caps), len(buckets))
    return _Drained(balances=table, throttled_s=dry_s, served=served, exhausted_after_s=tuple(exhausted))


def _moment(interval_s: Floats, index: int, share: float) -> float:
    """Return seconds from the begin to `share` of interval `index`."""
    return float(interval_s[:index].sum() + share * interval_s[index])
