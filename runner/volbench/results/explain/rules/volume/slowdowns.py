"""Stretches of a step in which operations take longer than in the rest of it, beyond chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.cliffs import cliffs
from volbench.results.explain.evidence.device import Device
from volbench.results.explain.evidence.episodes import RISE_MIN, SeriesChange, find_change
from volbench.results.explain.rules.stretch import change_intervals, fallen
from volbench.results.stats.grid import Floats, Mask, median

SAMPLES_MIN = 5
CLEAR_SPREADS = 10.0
"""Distance of two levels in their own spreads from which chance makes none, however few intervals are on a side."""
FAST_MAX = 0.2
"""Share of a change's intervals that are nearer to the waiting time before than to the one since."""


@dataclass(frozen=True, kw_only=True)
class Slowdown:
    """A stretch in which operations take longer than in the rest of the step. `during` has shape (buckets,)."""

    change: SeriesChange
    during: Mask
    before_ms: float
    during_ms: float

    @property
    def ratio(self) -> float:
        """How many times as long."""
        return self.during_ms / self.before_ms


def slowdowns(case: Case, device: Device) -> list[Slowdown]:
    """All rises of the waiting time of operations, of reads and of writes that are beyond chance.

    Of a load that waits for reads or for writes alone, those of the others are none of its own.
    """
    changes: list[tuple[SeriesChange, Mask, Floats]] = []
    for column in _waits(case, device):
        waits = np.where(case.stalled, np.nan, column)  # operations that a stall held took long once
        if np.isnan(waits).all():
            continue
        abrupt = _abrupt(case, waits)
        change = None if abrupt else find_change(case.grid, waits)
        clear = _abrupt(case, waits, RISE_MIN, CLEAR_SPREADS) if not abrupt and change is None else []
        changes += [
            (candidate, change_intervals(case, candidate, waits), waits)
            for candidate in (*abrupt, *(() if change is None else (change,)), *clear)
        ]
    candidates = [candidate for candidate in changes if candidate[1].sum() >= SAMPLES_MIN]
    bounded = [candidate for candidate in candidates if not _ended(candidate[2], candidate[1])]
    slow = []
    for change, during, waits in bounded or _while_fallen(case, device):
        before_ms, during_ms = median(waits[~during]), median(waits[during])
        if before_ms and during_ms and during_ms >= RISE_MIN * before_ms:
            slow.append(Slowdown(change=change, during=during, before_ms=before_ms, during_ms=during_ms))
    return slow


def _waits(case: Case, device: Device) -> list[Floats]:
    """Waiting times that may be what sessions wait for, each of shape (buckets,)."""
    waited = case.waited_device
    columns = (device.await_ms, device.r_await_ms, device.w_await_ms)
    if waited is not None and waited is not case.device:
        columns = (waited.await_ms, None, None)
    return [waits for waits in columns if waits is not None]


def _abrupt(
    case: Case, waits: Floats, ratio_min: float = limit.DEGRADED_RISE, spreads_min: float = 0.0
) -> list[SeriesChange]:
    """Rises at one time: a step, or an episode where it falls as abruptly later."""
    edges = [edge for edge in cliffs(case.grid.t_s, waits, ratio_min=ratio_min) if edge.clearness >= spreads_min]
    falls = sorted(edge.at_s for edge in edges if edge.ratio < 1)
    changes = []
    for rise in (edge for edge in edges if edge.ratio > 1):
        end_s = next((at_s for at_s in falls if at_s > rise.at_s), None)
        t1_s = rise.at_s if end_s is None else end_s
        changes.append(SeriesChange(shape="step" if end_s is None else "episode", t0_s=rise.at_s, t1_s=t1_s))
    return changes


def _while_fallen(case: Case, device: Device) -> list[tuple[SeriesChange, Mask, Floats]]:
    """The intervals in which the load had collapsed: their bounds are clearer than those of the waiting time."""
    during = fallen(case)
    if during is None:
        return []
    begin_s, end_s = case.grid.window_of(during)
    change = SeriesChange(shape="episode", t0_s=begin_s, t1_s=end_s)
    return [(change, during, waits) for waits in _waits(case, device)]


def _ended(waits: Floats, during: Mask) -> bool:
    """Whether a good part of a change's intervals is as fast as before: then its bounds are not the change's."""
    before, now = median(waits[~during]), median(waits[during])
    if not before or not now:
        return False
    fast = waits[during & np.isfinite(waits)] < np.sqrt(before * now)
    return float(np.mean(fast)) > FAST_MAX
