"""The work that a volume is given: a constant load, or a history of intervals with what is unknown marked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from volbench.core.base.parse import EPOCH_MAX_S
from volbench.core.base.text import counted
from volbench.core.profile.arrays import Floats
from volbench.core.profile.limits import Charge, VolumeLimit
from volbench.errors import UsageError
from volbench.results.stats.grid import Mask, true_runs

AMOUNT_MAX = 1e15
"""Operations or bytes a second."""
GAP_FACTOR = 1.5  # two points further apart than this many intervals have a gap between them
DEFAULT_IO_BYTES = 16 * 2**10  # InnoDB's page

Gaps = Literal["idle", "baseline"]
Clock = Literal["date", "day", "none"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Work:
    """Requests over consecutive intervals; all arrays have shape (intervals,).

    Args:
        start_s: begin of the first interval, s: since the epoch, since midnight of the first day, or 0.
        clock: which of these: date, day or none.
        interval_s: length of each interval; a constant load has one, of infinite length.
        reads_per_s, writes_per_s: requests.
        read_bytes, write_bytes: mean size of a request.
        is_known: False where nothing is known (a gap); rates are 0 there and mean nothing.
        sequential: whether requests follow one another on the volume, so that some types merge them.
    """

    start_s: float
    clock: Clock
    interval_s: Floats
    reads_per_s: Floats
    writes_per_s: Floats
    read_bytes: Floats
    write_bytes: Floats
    is_known: Mask
    sequential: bool = False
    _demands: dict[Charge, Floats] = field(default_factory=dict, repr=False)

    def demand(self, charge: Charge) -> Floats:
        """Return units per second that a limit is asked for in each interval; 0 in gaps."""
        demand = self._demands.get(charge)
        if demand is None:
            read = charge.per_request(self.read_bytes, sequential=self.sequential)
            write = charge.per_request(self.write_bytes, sequential=self.sequential)
            demand = charge.read_weight * read * self.reads_per_s + charge.write_weight * write * self.writes_per_s
            self._demands[charge] = demand
        return demand

    def demand_with_gaps(self, limit: VolumeLimit, gaps: Gaps) -> Floats:
        """Return what `demand` does; in gaps a bucket is asked for nothing, or for just what it earns."""
        demand = self.demand(limit.charge)
        if gaps == "idle" or limit.capacity is None or self.is_known.all():
            return demand
        return np.where(self.is_known, demand, limit.rate_per_s)

    @property
    def iops(self) -> Floats:
        """Requests per second."""
        return self.reads_per_s + self.writes_per_s

    @property
    def read_bytes_per_s(self) -> Floats:
        """Bytes read per second."""
        return self.reads_per_s * self.read_bytes

    @property
    def write_bytes_per_s(self) -> Floats:
        """Bytes written per second."""
        return self.writes_per_s * self.write_bytes

    @property
    def ends_s(self) -> Floats:
        """End of each interval, seconds since the first one's begin."""
        return np.cumsum(self.interval_s)

    @property
    def gap_s(self) -> float:
        """Seconds of which nothing is known."""
        return float(self.interval_s[~self.is_known].sum())

    @property
    def gaps(self) -> list[tuple[float, float]]:
        """Begin and end of every gap, seconds since the begin."""
        return stretches(~self.is_known, self.ends_s)

    def as_sequential(self) -> Work:
        """Return the same requests, following one another on the volume."""
        return replace(self, sequential=True, _demands={})

    def mean(self) -> Work:
        """Return a constant load of the mean rates of what is known."""
        weights = np.where(self.is_known, self.interval_s, 0.0)
        if np.isinf(weights).any() or weights.sum() == 0:
            return self
        total = weights.sum()
        rates = [float((rate * weights).sum() / total) for rate in (self.reads_per_s, self.writes_per_s)]
        traffic = [
            float((rate * weights).sum() / total) for rate in (self.read_bytes_per_s, self.write_bytes_per_s)
        ]
        sizes = [
            per_s / rate if rate > 0 else float(DEFAULT_IO_BYTES)
            for per_s, rate in zip(traffic, rates, strict=True)
        ]
        return constant(
            reads_per_s=rates[0],
            writes_per_s=rates[1],
            read_bytes=sizes[0],
            write_bytes=sizes[1],
            sequential=self.sequential,
        )


def constant(
    *, reads_per_s: float, writes_per_s: float, read_bytes: float, write_bytes: float, sequential: bool = False
) -> Work:
    """Return a load that never changes. Raises UsageError for a negative or infinite number."""
    for name, value in (
        ("reads per second", reads_per_s),
        ("writes per second", writes_per_s),
        ("bytes of a read", read_bytes),
        ("bytes of a write", write_bytes),
    ):
        if not (0 <= value < np.inf):
            raise UsageError(f"a load has {name} of 0 or more, not {value:g}")
    return Work(
        start_s=0.0,
        clock="none",
        interval_s=np.array([np.inf]),
        reads_per_s=np.array([reads_per_s]),
        writes_per_s=np.array([writes_per_s]),
        read_bytes=np.array([read_bytes]),
        write_bytes=np.array([write_bytes]),
        is_known=np.array([True]),
        sequential=sequential,
    )


def from_points(
    *,
    t_s: Floats,
    reads_per_s: Floats,
    writes_per_s: Floats,
    read_bytes_per_s: Floats | None = None,
    write_bytes_per_s: Floats | None = None,
    interval_s: float | None = None,
    io_bytes: float = DEFAULT_IO_BYTES,
    clock: Clock = "none",
    where: str = "history",
) -> Work:
    """Return a history of points, each about the interval that ends at its `t_s`.

    Args:
        t_s: shape (points,), ascending.
        reads_per_s, writes_per_s: shape (points,); NaN is unknown.
        read_bytes_per_s, write_bytes_per_s: traffic, shape (points,); None or NaN: requests of `io_bytes`.
        interval_s: length of an interval; None: the median distance of the points.
        clock: what `t_s` counts from: the epoch, midnight of the first day, or any other time.
        where: names the history in messages.

    Raises UsageError for no points, times that do not ascend, and negative rates.
    """
    times = np.asarray(t_s, dtype=np.float64)
    _check_times(times, where)
    has_rates = np.isfinite(reads_per_s) & np.isfinite(writes_per_s)
    if not has_rates.any():
        raise UsageError(
            "no point of the history has a rate", where=where, evidence=f"{counted(len(times), 'point')}"
        )
    rates = [np.where(has_rates, rate, 0.0) for rate in (reads_per_s, writes_per_s)]
    for name, rate in zip(("reads", "writes"), rates, strict=True):
        _check_sign(rate, times, name, where)
    sizes = [
        _sizes(rate, traffic, io_bytes, times, where)
        for rate, traffic in zip(rates, (read_bytes_per_s, write_bytes_per_s), strict=True)
    ]
    distances = np.diff(times)
    width_s = interval_s or (float(np.median(distances)) if len(distances) else 1.0)
    distances = np.concatenate([[width_s], distances])
    gapped = np.flatnonzero(distances > GAP_FACTOR * width_s)
    intervals = distances.copy()
    intervals[gapped] = width_s
    columns = [np.insert(column, gapped, 0.0) for column in rates]
    spans = [np.insert(column, gapped, io_bytes) for column in sizes]
    return Work(
        start_s=float(times[0] - width_s) if clock != "none" else 0.0,
        clock=clock,
        interval_s=np.insert(intervals, gapped, distances[gapped] - width_s),
        reads_per_s=columns[0],
        writes_per_s=columns[1],
        read_bytes=spans[0],
        write_bytes=spans[1],
        is_known=np.insert(has_rates, gapped, False),
    )


def stretches(mask: Mask, ends_s: Floats) -> list[tuple[float, float]]:
    """Begin and end of every run of intervals in which a mask is true."""
    starts = np.concatenate([[0.0], ends_s])
    return [(float(starts[first]), float(starts[end])) for first, end in true_runs(mask)]


def _check_times(times: Floats, where: str) -> None:
    if len(times) == 0:
        raise UsageError("the history has no point", where=where)
    if (np.abs(times) > EPOCH_MAX_S).any():
        raise UsageError("a time is none", where=where, evidence=f"{np.abs(times).max():g} s")
    if not np.isfinite(times).all():
        raise UsageError("a time is missing", where=where, evidence=f"point {_first(~np.isfinite(times)) + 1}")
    back = np.diff(times) <= 0
    if back.any():
        at = _first(back)
        raise UsageError(
            "the times do not ascend",
            where=where,
            evidence=f"point {at + 2} is at {times[at + 1]:.15g} s, after {times[at]:.15g} s",
            next_step="sort the points by time, and give every time once",
        )


def _check_sign(values: Floats, times: Floats, name: str, where: str) -> None:
    if (values > AMOUNT_MAX).any():
        at = _first(values > AMOUNT_MAX)
        raise UsageError(
            f"{name} beyond what any volume does",
            where=where,
            evidence=f"point {at + 1}: {values[at]:g} per second",
        )
    if (values < 0).any():
        at = _first(values < 0)
        raise UsageError(
            f"{name} below 0", where=where, evidence=f"point {at + 1} at {times[at]:.15g} s: {values[at]:g}"
        )


def _sizes(rate: Floats, traffic: Floats | None, io_bytes: float, times: Floats, where: str) -> Floats:
    """Return mean size of a request: traffic over rate, or `io_bytes` where either is unknown."""
    if traffic is None:
        return np.full(rate.shape, float(io_bytes))
    traffic_known = np.where(np.isfinite(traffic), traffic, 0.0)
    _check_sign(traffic_known, times, "traffic", where)
    usable = (rate > 0) & (traffic_known > 0)
    return np.where(usable, traffic_known / np.where(usable, rate, 1.0), float(io_bytes))


def _first(flags: Iterable[bool]) -> int:
    return int(np.flatnonzero(np.asarray(flags))[0])
