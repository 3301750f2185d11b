"""Episodes: the stretch of a recording in which the volume was worse than in the rest of it.

Circular binary segmentation (Olshen, Venkatraman, Lucito and Wigler, Biostatistics 2004) on ranks: of all stretches
the one whose rank sum stands out most, and how often as much comes about by chance, by permutations. Neighbouring
samples of a real volume resemble each other: they count for as many independent ones as their correlation leaves
(Bayley and Hammersley 1946).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from volbench.analysis.explain.align import Floats, Grid, Mask, median
from volbench.analysis.explain.cliffs import midranks
from volbench.analysis.explain.device import Device
from volbench.analysis.explain.wording import number

SAMPLES_MIN = 16
"""Samples below which no stretch can stand out by enough."""
BUCKETS_MAX = 240
LENGTH_MIN = 3
PERMUTATIONS = 399
P_MAX = 0.01
RISE_MIN = 1.5
"""Least ratio of the waiting time during an episode to that of the rest: what a user notices."""
_SEED = 1


@dataclass(frozen=True, kw_only=True)
class Episode:
    """A stretch in which operations took longer. `p_value`: how often chance gives as much; at least 1/400."""

    t0_s: float
    t1_s: float
    p_value: float


@dataclass(frozen=True, kw_only=True)
class Level:
    """A figure before and during a stretch of time; None: not known there."""

    name: str
    unit: str
    before: float | None
    during: float | None

    @property
    def text(self) -> str:
        """In words."""
        before, during = ("unknown" if value is None else number(value) for value in (self.before, self.during))
        times = ""
        if self.before and self.during is not None:
            times = f" (x{self.during / self.before:.2f})"
        return f"{self.name} {before} before, {during}{' ' + self.unit if self.unit else ''} during{times}"


def find_episode(grid: Grid, values: Floats | None) -> Episode | None:
    """The episode in which values are higher than in the rest; None where chance may have made what there is.

    Args:
        grid: of the recording.
        values: waiting times or latencies on that grid, shape (buckets,); NaN is a gap.
    """
    finite = np.flatnonzero(np.isfinite(values)) if values is not None else np.empty(0, dtype=np.int64)
    if values is None or len(finite) < SAMPLES_MIN:
        return None
    per_bucket = -(-len(finite) // BUCKETS_MAX)
    starts = np.arange(0, len(finite) - per_bucket + 1, per_bucket)
    level = np.array([float(np.median(values[finite[at : at + per_bucket]])) for at in starts])
    first, last, stands_out = _stretch(midranks(level))
    inside = np.zeros(len(level), dtype=bool)
    inside[first:last] = True
    if np.median(level[inside]) < RISE_MIN * np.median(level[~inside]):
        return None
    generator = np.random.default_rng(_SEED)
    ranks = midranks(level)
    stands_out *= _independent_share(ranks, inside)
    as_much = sum(_stretch(generator.permutation(ranks))[2] >= stands_out for _ in range(PERMUTATIONS))
    p_value = (as_much + 1) / (PERMUTATIONS + 1)
    if p_value > P_MAX:
        return None
    t0_s = float(grid.t_s[finite[starts[first]]]) - grid.width_s
    t1_s = float(grid.t_s[finite[min(len(finite), starts[last - 1] + per_bucket) - 1]])
    return Episode(t0_s=t0_s, t1_s=t1_s, p_value=p_value)


def levels(
    grid: Grid, device: Device | None, during: Mask, further_columns: Mapping[str, tuple[Floats | None, str]]
) -> Iterator[Level]:
    """Figures before and during; where nothing was before, the rest of the recording stands for it.

    Args:
        grid: of the recording.
        device: the volume on that grid.
        during: the stretch, shape (buckets,).
        others: further columns with their units, by name.
    """
    first = int(np.flatnonzero(during)[0])
    before = ~during
    if first >= LENGTH_MIN:
        before = before & (np.arange(len(grid)) < first)
    columns: dict[str, tuple[Floats | None, str]] = {}
    if device is not None:
        size = None if device.mib_per_s is None else _size_kib(device)
        columns = {
            "waiting time": (device.await_ms, "ms"),
            "reads' waiting time": (device.r_await_ms, "ms"),
            "writes' waiting time": (device.w_await_ms, "ms"),
            "operations": (device.iops, "1/s"),
            "throughput": (device.mib_per_s, "MiB/s"),
            "operation size": (size, "KiB"),
            "in flight": (device.in_flight, ""),
        }
    for name, (values, unit) in {**columns, **further_columns}.items():
        if values is not None:
            yield Level(name=name, unit=unit, before=median(values[before]), during=median(values[during]))


def _size_kib(device: Device) -> Floats | None:
    if device.mib_per_s is None:
        return None
    size: Floats = np.full(len(device.iops), np.nan)
    np.divide(device.mib_per_s * 1024, device.iops, out=size, where=device.iops > 0)
    return size


def _stretch(ranks: Floats) -> tuple[int, int, float]:
    """First and end of the stretch whose rank sum is furthest above its expectation, and by how many deviations."""
    size = len(ranks)
    sums = np.concatenate([[0.0], np.cumsum(ranks - (size + 1) / 2)])
    first, end = np.triu_indices(size + 1, LENGTH_MIN)
    length = end - first
    usable = size - length >= LENGTH_MIN
    first, end, length = first[usable], end[usable], length[usable]
    z = (sums[end] - sums[first]) / np.sqrt(length * (size - length) * (size + 1) / 12)
    best = int(np.argmax(z))
    return int(first[best]), int(end[best]), float(z[best])


def _independent_share(ranks: Floats, inside: Mask) -> float:
    """What a deviation is worth where neighbours resemble each other: sqrt((1 - r) / (1 + r)).

    r is the correlation of neighbours within the stretch and outside, corrected for its bias (Kendall 1954).
    """
    residuals = np.where(inside, ranks - ranks[inside].mean(), ranks - ranks[~inside].mean())
    total = float((residuals**2).sum())
    r = float((residuals[1:] * residuals[:-1]).sum()) / total if total > 0 else 0.0
    r = min(0.95, max(0.0, r + (1 + 3 * r) / len(ranks)))
    return float(np.sqrt((1 - r) / (1 + r)))
