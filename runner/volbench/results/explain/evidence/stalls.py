"""Stalls: stretches in which nothing finishes though something waits, at the client or at the volume."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volbench.results.explain import thresholds as limit
from volbench.results.explain.evidence.device import Device
from volbench.results.stats.grid import Floats, Grid, Mask, median, true_runs

PARTIAL_MAX = 0.75
"""Completions in an interval beside a stall, against the usual, up to which the stall was in it, too."""
_MAD_TO_SIGMA = 1.4826
_MOVING_MIN = 0.25
"""Of a step: with less left, stalls are what it mostly is."""


@dataclass(frozen=True, kw_only=True)
class Stall:
    """`t0_s` .. `t1_s` without progress."""

    t0_s: float
    t1_s: float

    @property
    def length_s(self) -> float:
        """How long it was, to the length of a bucket."""
        return self.t1_s - self.t0_s


def client_stalls(t_s: Floats, width_s: float, tps: Floats) -> tuple[Stall, ...]:
    """Stretches in which no transaction finished, in a step that otherwise had some.

    Args:
        t_s, tps: shape (buckets,); NaN is a gap, not a stall.
    """
    return _widened(t_s, width_s, tps, _stretches(t_s, width_s, tps == 0)) if (tps > 0).any() else ()


def storage_stalls(t_s: Floats, width_s: float, device: Device, queue: Floats | None = None) -> tuple[Stall, ...]:
    """Stretches in which the volume completed next to nothing while operations waited for it.

    Args:
        t_s: shape (buckets,).
        device: the volume on this grid.
        queue: operations in its queue at the tick, where that is known.

    An idle volume does not stall: without a queue nothing is called one. Nor does one that completes within an
    interval what was in flight, nor one that never does more, see `thresholds.STALL_COMPLETIONS_MAX`.
    """
    usual = median(device.iops[device.iops > 0])
    waiting = _waiting(device, queue)
    if usual is None or waiting is None:
        return ()
    few = (device.iops <= limit.STALL_COMPLETIONS_MAX * usual) & ~_goes_on(width_s, device)
    still = _stretches(t_s, width_s, few & waiting)
    return _widened(t_s, width_s, device.iops, still)


def stalled_together(client: tuple[Stall, ...], storage: tuple[Stall, ...], slack_s: float) -> tuple[Stall, ...]:
    """The client's stalls during which, or up to `slack_s` beside which, the volume stood still as well."""
    return tuple(
        stall
        for stall in client
        if any(
            storage_stall.t0_s - slack_s <= stall.t1_s and stall.t0_s <= storage_stall.t1_s + slack_s
            for storage_stall in storage
        )
    )


def without_stalls(grid: Grid, stalls: tuple[Stall, ...]) -> Grid:
    """The grid without the intervals in which the volume stood still, and those in which what waited then ended.

    A file system lets reads wait for a write that does not end (ext4's lock of the file, its journal): they never
    reach the device, and still wait for it. The grid itself where hardly anything is left.
    """
    moving = np.ones(len(grid), dtype=np.bool_)
    for stall in stalls:
        moving &= (grid.t_s <= stall.t0_s) | (grid.t_s > stall.t1_s + 2 * grid.width_s)
    return grid if moving.all() or moving.mean() < _MOVING_MIN else grid.where(moving)


def _widened(t_s: Floats, width_s: float, rate: Floats, still: tuple[Stall, ...]) -> tuple[Stall, ...]:
    """Stalls with their parts of the intervals beside them: a stall hardly ever begins with an interval.

    An interval beside a stall that completed a share s of the usual was still for 1 - s of its length. It counts
    where s is below PARTIAL_MAX and beyond the usual spread; operations that were held and then completed at once
    make it smaller than it was, never larger.
    """
    usual = median(rate[rate > 0])
    if usual is None:
        return still
    spread = _MAD_TO_SIGMA * (median(np.abs(rate[rate > 0] - usual)) or 0.0)
    least = min(PARTIAL_MAX * usual, usual - 2 * spread)

    def part_s(index: int) -> float:
        inside = 0 <= index < len(rate) and np.isfinite(rate[index]) and rate[index] < least
        return width_s * (1 - float(rate[index]) / usual) if inside else 0.0

    widened = []
    for stall in still:
        first, last = (int(np.argmin(np.abs(t_s - end))) for end in (stall.t0_s + width_s, stall.t1_s))
        widened.append(Stall(t0_s=stall.t0_s - part_s(first - 1), t1_s=stall.t1_s + part_s(last + 1)))
    return tuple(widened)


def _waiting(device: Device, queue: Floats | None) -> Mask | None:
    queues = [stall >= 0.9 for stall in (device.in_flight, queue) if stall is not None]
    return None if not queues else np.logical_or.reduce(queues)


def _goes_on(width_s: float, device: Device) -> Mask:
    """Intervals in which what completes is what was in flight, each well within the interval: slow, and no stall.

    By Little's law N = X * W there. Of an interval that is still for a part, what completes beside it is fast and
    leaves N unexplained, or has waited for as long as the stall.
    """
    if device.in_flight is None or device.await_ms is None:
        return np.zeros(len(device.iops), dtype=np.bool_)
    rate, each_s = np.nan_to_num(device.iops), np.nan_to_num(device.await_ms) / 1000
    queue = np.nan_to_num(device.in_flight)
    within = (each_s <= 0.5 * width_s) & (rate * width_s > queue)
    return np.asarray(within & (rate * each_s >= 0.5 * queue) & (queue > 0))


def _stretches(t_s: Floats, width_s: float, mask: Mask) -> tuple[Stall, ...]:
    runs = true_runs(mask)
    return tuple(Stall(t0_s=float(t_s[first]) - width_s, t1_s=float(t_s[end - 1])) for first, end in runs)
