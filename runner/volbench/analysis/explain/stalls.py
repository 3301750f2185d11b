"""Stalls: stretches in which nothing finishes though something waits, at the client or at the volume."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volbench.analysis.explain import thresholds as limit
from volbench.analysis.explain.align import Floats, Mask, median
from volbench.analysis.explain.device import Device


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
    return _stretches(t_s, width_s, tps == 0) if (tps > 0).any() else ()


def storage_stalls(t_s: Floats, width_s: float, device: Device, queue: Floats | None = None) -> tuple[Stall, ...]:
    """Stretches in which the volume completed next to nothing while operations waited for it.

    Args:
        t_s: shape (buckets,).
        device: the volume on this grid.
        queue: operations in its queue at the tick, where that is known.

    An idle volume does not stall: without a queue nothing is called one. Nor is there one in a volume that never
    does more, see `thresholds.STALL_COMPLETIONS_MAX`.
    """
    usual = median(device.iops[device.iops > 0])
    waiting = _waiting(device, queue)
    if usual is None or waiting is None:
        return ()
    return _stretches(t_s, width_s, (device.iops <= limit.STALL_COMPLETIONS_MAX * usual) & waiting)


def stalled_together(client: tuple[Stall, ...], storage: tuple[Stall, ...], slack_s: float) -> tuple[Stall, ...]:
    """The client's stalls during which, or up to `slack_s` beside which, the volume stood still as well."""
    return tuple(
        one
        for one in client
        if any(other.t0_s - slack_s <= one.t1_s and one.t0_s <= other.t1_s + slack_s for other in storage)
    )


def _waiting(device: Device, queue: Floats | None) -> Mask | None:
    seen = [one >= 0.9 for one in (device.in_flight, queue) if one is not None]
    return None if not seen else np.logical_or.reduce(seen)


def _stretches(t_s: Floats, width_s: float, mask: Mask) -> tuple[Stall, ...]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return tuple(
        Stall(t0_s=float(t_s[first]) - width_s, t1_s=float(t_s[last - 1]))
        for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    )
