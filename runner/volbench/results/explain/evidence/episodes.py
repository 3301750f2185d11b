"""Episodes: the stretches of a step or a recording in which it was worse than in the rest, and the shape of a
change.

Circular binary segmentation (Olshen, Venkatraman, Lucito and Wigler, Biostatistics 2004) on ranks: of all stretches
the one whose rank sum stands out most, and how often as much comes about by chance, by permutations. Neighbouring
samples of a real volume resemble each other: they count for as many independent ones as their correlation leaves
(Bayley and Hammersley 1946).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from volbench.results.explain.evidence.device import Device
from volbench.results.explain.wording import number
from volbench.results.stats.grid import Floats, Grid, Mask, median, quantile_of_finite, true_runs
from volbench.results.stats.segmentation import midranks

SAMPLES_MIN = 12
"""Samples below which no stretch can stand out by enough: 3 of 12 lie side by side by chance in 1 of 22 orders."""
RANKS_MIN = 18
"""Samples from which ranks count: of fewer, no ranks of a short stretch stand out by enough; logarithms may."""
BUCKETS_MAX = 240
LENGTH_MIN = 3
PERMUTATIONS = 399
P_MAX = 0.01
RISE_MIN = 1.5
"""Least ratio of the waiting time during an episode to that of the rest: what a user notices."""
Z_NEVER = 3.0
"""The largest deviation of 16 to 240 independent samples is above it in more than P_MAX of all cases (3.1 for 16,
4.0 for 120, of 600 permutations each): what stays below needs no permutations."""
Z_NEVER_SHORT = 2.2
RAMP_BUCKETS_MIN = 4
"""Intervals that a rise takes at least to be called a ramp: the samples beside a step may be half of each level."""
RAMP_GAIN = 0.7
"""A ramp is said only where it leaves at most this share of what a step leaves unexplained."""
RECURRING_SAMPLES_MIN = 16
PERIODS_MIN = 3
PERIOD_SPREAD_MAX = 0.15
"""Spread of the distances of recurring stretches, as a share of their mean, up to which they are periodic."""
BETWEEN_MAX = 0.1
"""Share of the samples in the middle third of the range that two separate levels may have."""
_GRID_MAX = 40
_SEED = 1
Shape = Literal["step", "ramp", "episode", "periodic"]


@dataclass(frozen=True, kw_only=True)
class Episode:
    """A stretch in which operations took longer. `p_value`: how often chance gives as much; at least 1/400."""

    t0_s: float
    t1_s: float
    p_value: float


@dataclass(frozen=True, kw_only=True)
class SeriesChange:
    """How a series changed. Times in s on its grid.

    Args:
        shape: `step` and `ramp` last to the end, an `episode` ends, a `periodic` one recurs.
        t0_s, t1_s: when it began, and when the rise was complete (a ramp) or the episode ended; else t0_s.
        period_s: of a periodic one; else None.
    """

    shape: Shape
    t0_s: float
    t1_s: float
    period_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class FigureChange:
    """A figure before and during a stretch of time; None: not known there."""

    name: str
    unit: str
    before: float | None
    during: float | None

    @property
    def text(self) -> str:
        """In words."""
        before, during = ("unknown" if figure is None else number(figure) for figure in (self.before, self.during))
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
    level = np.median(values[finite[: len(starts) * per_bucket]].reshape(len(starts), per_bucket), axis=1)
    scores = midranks(level) if len(level) >= RANKS_MIN else np.log(np.maximum(level, 1e-12))
    first, last, stands_out = _stretch(scores)
    inside = np.zeros(len(level), dtype=bool)
    inside[first:last] = True
    if np.median(level[inside]) < RISE_MIN * np.median(level[~inside]):
        return None
    generator = np.random.default_rng(_SEED)
    stands_out *= _independent_share(scores, inside)
    if stands_out < (Z_NEVER if len(level) >= RANKS_MIN else Z_NEVER_SHORT):
        return None
    as_much = sum(_stretch(generator.permutation(scores))[2] >= stands_out for _ in range(PERMUTATIONS))
    p_value = (as_much + 1) / (PERMUTATIONS + 1)
    if p_value > P_MAX:
        return None
    t0_s = float(grid.t_s[finite[starts[first]]]) - grid.width_s
    t1_s = float(grid.t_s[finite[min(len(finite), starts[last - 1] + per_bucket) - 1]])
    return Episode(t0_s=t0_s, t1_s=t1_s, p_value=p_value)


def find_change(grid: Grid, values: Floats | None) -> SeriesChange | None:
    """The change of a series to higher values and back, with its shape; None where chance may have made it.

    Args:
        grid: of the step.
        values: waiting times or latencies on that grid, shape (buckets,); NaN is a gap.
    """
    if values is None or int(np.isfinite(values).sum()) < SAMPLES_MIN:
        return None
    recurring = _recurring(grid, values)
    if recurring is not None:
        return recurring
    episode = find_episode(grid, values)
    if episode is None:
        return None
    if int((grid.t_s > episode.t1_s + grid.width_s / 2).sum()) >= LENGTH_MIN:
        return SeriesChange(shape="episode", t0_s=episode.t0_s, t1_s=episode.t1_s)
    ramp = _ramp(np.log(values[np.isfinite(values) & (values > 0)]))
    if ramp is None or ramp.unexplained > RAMP_GAIN:
        return SeriesChange(shape="step", t0_s=episode.t0_s, t1_s=episode.t0_s)
    finite = grid.t_s[np.isfinite(values) & (values > 0)]
    return SeriesChange(shape="ramp", t0_s=float(finite[ramp.begin]), t1_s=float(finite[ramp.end]))


def _recurring(grid: Grid, values: Floats) -> SeriesChange | None:
    """At least PERIODS_MIN stretches on the upper of two separate levels, at even distances; else None."""
    finite = values[np.isfinite(values)]
    if len(finite) < RECURRING_SAMPLES_MIN:
        return None
    low, high = quantile_of_finite(finite, 0.1), quantile_of_finite(finite, 0.9)
    third = (high - low) / 3
    between = (finite > low + third) & (finite < high - third)
    if high < RISE_MIN * low or between.mean() > BETWEEN_MAX:
        return None
    above = np.nan_to_num(values, nan=low) > (low + high) / 2
    starts, ends = np.array(true_runs(above), dtype=np.intp).reshape(-1, 2).T
    if len(starts) < PERIODS_MIN or (ends - starts)[1:-1].min() < LENGTH_MIN:
        return None
    distances = np.diff(starts)
    if distances.std() > PERIOD_SPREAD_MAX * distances.mean():
        return None
    return SeriesChange(
        shape="periodic",
        t0_s=float(grid.t_s[starts[0]]) - grid.width_s,
        t1_s=float(grid.t_s[ends[-1] - 1]),
        period_s=float(distances.mean()) * grid.width_s,
    )


@dataclass(frozen=True, kw_only=True)
class _Ramp:
    """A rise by a straight line from `begin` to `end`; `unexplained`: squares left, against the best step's."""

    begin: int
    end: int
    unexplained: float
    residuals: Floats


def _ramp(values: Floats) -> _Ramp | None:
    """The best ramp by least squares, begins and ends on a grid of _GRID_MAX points; None for too few samples."""
    size = len(values)
    if size < SAMPLES_MIN or np.ptp(values) == 0:
        return None
    points = np.unique(np.linspace(1, size - 2, min(size - 2, _GRID_MAX)).astype(int))
    pairs = [(int(begin), int(end)) for begin in points for end in points if end - begin >= RAMP_BUCKETS_MIN]
    at = np.arange(size)
    ramps = np.clip((at - np.array(pairs)[:, :1]) / np.diff(np.array(pairs)), 0.0, 1.0)
    steps = (at >= np.arange(1, size)[:, None]).astype(np.float64)
    left, rests = _left(values, ramps)
    step_left, _ = _left(values, steps)
    best, least = int(np.argmin(left)), float(step_left.min())
    unexplained = float(left[best]) / least if least > 0 else math.inf  # a step that leaves nothing is one
    return _Ramp(begin=pairs[best][0], end=pairs[best][1], unexplained=unexplained, residuals=rests[best])


def _left(values: Floats, shapes: Floats) -> tuple[Floats, Floats]:
    """What each shape (a row) leaves of the values by least squares: sums of squares, and the residuals."""
    centred, target = shapes - shapes.mean(axis=1, keepdims=True), values - values.mean()
    slopes = (centred @ target) / np.maximum((centred**2).sum(axis=1), 1e-12)
    rests = target - slopes[:, None] * centred
    return (rests**2).sum(axis=1), rests


def levels(
    grid: Grid, device: Device | None, during: Mask, extra: Mapping[str, tuple[Floats | None, str]]
) -> Iterator[FigureChange]:
    """Figures before and during; where nothing was before, the rest of the recording stands for it.

    Args:
        grid: of the recording.
        device: the volume on that grid.
        during: the stretch, shape (buckets,).
        extra: further columns with their units, by name.
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
    for name, (values, unit) in {**columns, **extra}.items():
        if values is not None:
            yield FigureChange(name=name, unit=unit, before=median(values[before]), during=median(values[during]))


def _size_kib(device: Device) -> Floats | None:
    if device.mib_per_s is None:
        return None
    size: Floats = np.full(len(device.iops), np.nan)
    np.divide(device.mib_per_s * 1024, device.iops, out=size, where=device.iops > 0)
    return size


def _stretch(scores: Floats) -> tuple[int, int, float]:
    """First and end of the stretch whose sum is furthest above its expectation, and by how many deviations."""
    first, end, spread = _stretches(len(scores))
    sums = np.concatenate([[0.0], np.cumsum(scores - scores.mean())])
    deviation = float(scores.std(ddof=1)) or 1.0
    z = (sums[end] - sums[first]) / (deviation * spread)
    best = int(np.argmax(z))
    return int(first[best]), int(end[best]), float(z[best])


@lru_cache(maxsize=16)
def _stretches(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Of the stretches of a series that leave enough outside: first, end, and the deviation of a sum of unit ones.

    Args:
        size: samples of the series, at most BUCKETS_MAX.
    """
    first, end = np.triu_indices(size + 1, LENGTH_MIN)
    length = end - first
    usable = size - length >= LENGTH_MIN
    first, end, length = first[usable], end[usable], length[usable]
    return first, end, np.sqrt(length * (size - length) / size)


def _independent_share(ranks: Floats, inside: Mask) -> float:
    """What a deviation is worth where neighbours resemble each other: sqrt((1 - r) / (1 + r)).

    r is the correlation of neighbours within the stretch and outside, corrected for its bias (Kendall 1954),
    twice: the stretch was chosen to leave little outside of it.
    """
    residuals = np.where(inside, ranks - ranks[inside].mean(), ranks - ranks[~inside].mean())
    ramp = _ramp(ranks)  # a straight rise leaves neighbours alike that are not alike around it
    if ramp is not None and float((ramp.residuals**2).sum()) <= RAMP_GAIN * float((residuals**2).sum()):
        residuals = ramp.residuals
    total = float((residuals**2).sum())
    r = float((residuals[1:] * residuals[:-1]).sum()) / total if total > 0 else 0.0
    r = min(0.95, max(0.0, r + 2 * (1 + 3 * r) / len(ranks)))
    return float(np.sqrt((1 - r) / (1 + r)))
