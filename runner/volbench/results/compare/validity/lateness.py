"""By how much late operations of an emulated volume can have changed a step's figures.

The number of late operations says little: 2 % of them, late by a millisecond, change nothing where an operation
takes ten, and much where it takes one. The question is whether the figures are right.

**Throughput.** A step takes as long as the longest path through its work (see `disturbance`); without the lateness
on that path it would take that much less. Let operations of kind k take the time t_k in a window of T, of which
they were late for l_k. A path that spends the share f_k of the window in operations of kind k, which are as late
as the others of the kind, is late for the share

    L = sum over k of  f_k l_k / t_k,      f_k <= t_k / T,  the sum of all f_k <= 1

The f_k are not known, so the largest L counts: all that is possible of the kind whose time is late for the largest
share, then of the next one. So writes in the background do not hide reads that are late, and flushes that take 2 %
of the window cannot change more than 2 % of it.

**p50 and p95.** A transaction that took x spent f_k x in operations of kind k, so it waited for f_k x c_k / t_k of
them (c_k: their count in the window), each late by a draw from the kind's lateness. As much is
added once more to every latency that the clients measured (a Poisson number of operations, independent draws): it
changes a quantile as the lateness itself did, but for terms of second order. A tail that the sum hides shows in
p95.

**Calibration.** The model takes off what FUSE, the loop device and the timer add to an operation on an idle machine
(`overhead` of the profiles, 50 us). Half of that is the timer's: GRACE_US of an operation's lateness are no error.

It rests on lateness that does not choose its operations: within a kind, those on the path are as late as others.
What the client waits for a CPU is no lateness, and is judged by rules of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volbench.core.records.latency_bins import LatencyBins

GRACE_US = 25.0
"""Of an operation's lateness: what the timer of an idle machine adds, half of what profiles' models take off."""
THROUGHPUT = "throughput"
LEVELS = {"p50": 0.5, "p95": 0.95}
_DRAWS = 10_000
_SEED = 20_261_127
_EVENTS_MIN = 20
"""Fewer latencies have no 95th percentile to speak of."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class LateOperations:
    """Operations of one kind in a window: how many, the time that they took, and by how much they were late."""

    count: float
    time_s: float
    lateness: LatencyBins

    @property
    def excess(self) -> tuple[Floats, Floats]:
        """Lateness beyond GRACE_US, us, and the share of the operations that had it; zeros are left out."""
        events = self.lateness.events
        rows = [
            (middle_us - GRACE_US, count / events)
            for number, count in sorted(self.lateness.counts.items())
            if (middle_us := self.lateness.edge_ms(number + 0.5) * 1e3) > GRACE_US
        ]
        table = np.asarray(rows, dtype=np.float64).reshape(-1, 2)
        return table[:, 0], table[:, 1]

    @property
    def share(self) -> float:
        """The lateness as a share of the operations' time."""
        sizes_us, shares = self.excess
        return min(1.0, float(sizes_us @ shares) * self.count / 1e6 / self.time_s)


def changes_by_lateness(
    kinds: Mapping[str, LateOperations], latencies: LatencyBins | None, *, window_s: float
) -> dict[str, float]:
    """Return by which share of each figure lateness can have changed it; empty without operations.

    Args:
        kinds: the volume's operations in the window.
        latencies: of the clients' transactions in the window; None: the step has none.
        window_s: its length.
    """
    usable = [kind for kind in kinds.values() if kind.count > 0 and kind.time_s > 0 and kind.lateness.events]
    if not usable:
        return {}
    largest = _largest_parts(usable, window_s)
    changes = {THROUGHPUT: sum(time_share * kind.share for kind, time_share in largest)}
    if latencies is not None and latencies.events >= _EVENTS_MIN:
        measured_us = _spread_us(latencies)
        delayed_us = measured_us + _drawn_lateness_us(measured_us, largest)
        for name, level in LEVELS.items():
            before, after = (float(np.quantile(values, level)) for values in (measured_us, delayed_us))
            changes[name] = min(1.0, after / before - 1)
    return changes


def pooled_change(lateness_s_per_s: float, time_s_per_s: float) -> dict[str, float]:
    """Return the change of throughput where nothing but sums over all kinds is known, as of earlier daemons."""
    return {THROUGHPUT: min(1.0, lateness_s_per_s / time_s_per_s)}


def _largest_parts(kinds: list[LateOperations], window_s: float) -> list[tuple[LateOperations, float]]:
    """Return each kind with the part of a path's time that lets its lateness count the most."""
    left, chosen = 1.0, []
    for kind in sorted(kinds, key=lambda kind: kind.share, reverse=True):
        time_share = min(left, kind.time_s / window_s)
        left -= time_share
        chosen.append((kind, time_share))
    return chosen


def _drawn_lateness_us(latencies_us: Floats, kinds: list[tuple[LateOperations, float]]) -> Floats:
    """Return what a draw of the lateness adds to each latency, us; the same draw at each call."""
    random = np.random.default_rng(_SEED)
    added_us = np.zeros_like(latencies_us)
    for kind, time_share in kinds:
        operations = latencies_us * time_share * kind.count / (kind.time_s * 1e6)
        for size_us, share in zip(*kind.excess, strict=True):
            added_us += size_us * random.poisson(operations * share)
    return added_us


def _spread_us(latencies: LatencyBins) -> Floats:
    """Return _DRAWS latencies as the bins have them, evenly on the log scale within each."""
    numbers = np.asarray(sorted(latencies.counts), dtype=np.float64)
    counts = np.asarray([latencies.counts[int(number)] for number in numbers], dtype=np.float64)
    first, last = (0.0, 0.0) if not len(numbers) else (numbers[0], numbers[-1] + 1)
    edges = np.concatenate([[first], numbers, [last]])
    widths = np.concatenate([[0.0], np.ones(len(numbers)), [0.0]])
    weights = np.concatenate([[latencies.below], counts, [latencies.above]])
    ends = np.cumsum(weights)
    ranks = (np.arange(_DRAWS) + 0.5) / _DRAWS * ends[-1]
    entry = np.searchsorted(ends, ranks)
    inside = (ranks - ends[entry] + weights[entry]) / weights[entry]
    position = edges[entry] + widths[entry] * inside
    return np.asarray(np.exp(position / latencies.edge_mult + latencies.edge_deduct) * 1e3, dtype=np.float64)
