"""Physical tests of a plateau, each of which speaks for a limit, against one, or not at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volbench.core.base.text import number, percent
from volbench.results.explain import thresholds as limit
from volbench.results.explain.evidence.device import Device, Resource
from volbench.results.stats.grid import Floats, Mask, median_of_finite, quantile_of_finite

_MAD_TO_SIGMA = 1.4826
_SLOPE_SAMPLES = 500
"""Theil and Sen's slope takes all pairs; of a long step, every n-th interval will do."""


@dataclass(frozen=True, kw_only=True)
class PlateauCheck:
    """One physical test of a plateau. `holds` None: it could not be made, and says nothing."""

    name: str
    holds: bool | None
    value: float | None
    text: str


@dataclass(frozen=True, kw_only=True)
class Exceeded:
    """Share of time above a limit as the volume counts it; None: it does not count."""

    volume_iops: Floats | None = None
    volume_throughput: Floats | None = None
    instance_iops: Floats | None = None
    instance_throughput: Floats | None = None

    @property
    def is_counted(self) -> bool:
        """Whether the volume counts any of its limits."""
        return self.volume_iops is not None or self.volume_throughput is not None

    def of(self, resource: Resource) -> Floats | None:
        """The volume's own counter of a resource."""
        return self.volume_iops if resource == "iops" else self.volume_throughput


def elasticity(rate: Floats, in_flight: Floats) -> float | None:
    """Slope of log rate over log queue (Theil and Sen); None when the queue hardly varies.

    Args:
        rate, in_flight: shape (buckets,).
    """
    both = (rate > 0) & (in_flight > 0)
    x, y = np.log(in_flight[both]), np.log(rate[both])
    if len(x) < limit.PLATEAU_SAMPLES_MIN:
        return None
    if quantile_of_finite(x, 0.75) - quantile_of_finite(x, 0.25) < limit.QUEUE_SPREAD_MIN:
        return None
    x, y = (values[:: len(values) // _SLOPE_SAMPLES + 1] for values in (x, y))
    i, j = np.triu_indices(len(x), 1)
    apart = np.abs(x[j] - x[i]) > limit.QUEUE_SPREAD_MIN / 2
    return float(np.median((y[j] - y[i])[apart] / (x[j] - x[i])[apart])) if apart.any() else None


def absorption(rate: Floats, in_flight: Floats) -> float | None:
    """What absorbs the fluctuation of the queue: variance of log rate over variance of log time; None: not known.

    Little's law in logarithms is log N = log X + log W. At a meter the rate X is constant, so the time W takes all
    of what the queue N varies: 0. Where each operation takes its own time, X follows N: far above 1. It needs less
    variation of the queue than a slope does. Spreads are scaled median deviations.

    Args:
        rate, in_flight: shape (buckets,).
    """
    both = (rate > 0) & (in_flight > 0)
    if int(both.sum()) < limit.REGULARITY_SAMPLES:
        return None
    x, n = np.log(rate[both]), np.log(in_flight[both])
    spread_x, spread_w, spread_n = (_spread(values) for values in (x, n - x, n))
    if spread_n < limit.ABSORPTION_SPREAD_MIN:
        return None
    return (spread_x / max(spread_w, 1e-9)) ** 2


def _spread(values: Floats) -> float:
    """Scaled median deviation."""
    return _MAD_TO_SIGMA * median_of_finite(np.abs(values - median_of_finite(values)))


def dispersion(counts: Floats) -> float | None:
    """Variance of operations in an interval against their mean; None for too few intervals or operations.

    By deviations from the median, since the first and last interval of a level may belong half to another.
    """
    counts = counts[np.isfinite(counts)]
    typical = median_of_finite(counts) if len(counts) >= limit.REGULARITY_SAMPLES else 0.0
    if typical < limit.REGULARITY_OPERATIONS:
        return None
    return _spread(counts) ** 2 / typical


def compensation(reads: Floats, writes: Floats) -> float | None:
    """Variance of reads + writes against the sum of their variances; None when either hardly varies.

    1 when they vary by themselves, 0 when one gets exactly what the other leaves.
    """
    both = np.isfinite(reads) & np.isfinite(writes)
    r, w = reads[both], writes[both]
    total = float((r + w).mean()) if len(r) >= limit.PLATEAU_SAMPLES_MIN else 0.0
    if total <= 0 or min(r.std(), w.std()) < limit.MIX_SPREAD_MIN * total:
        return None
    return float(np.var(r + w) / (np.var(r) + np.var(w)))


def not_made(name: str) -> PlateauCheck:
    """Return a check that could not be made."""
    return PlateauCheck(name=name, holds=None, value=None, text="not known here")


def exceeded_check(counted: Floats | None) -> PlateauCheck:
    """Return whether the volume's own counter says that its limit was exceeded."""
    share = None if counted is None or not np.isfinite(counted).any() else float(np.nanmean(counted))
    if share is None:
        return not_made("exceeded")
    holds = share >= limit.EXCEEDED_MIN or (False if share <= limit.EXCEEDED_SILENT else None)
    text = f"the volume counts its limit exceeded in {percent(share)} of the time"
    return PlateauCheck(name="exceeded", holds=holds, value=share, text=text)


def elasticity_check(slope: float | None) -> PlateauCheck:
    """Return whether a longer queue brings nothing; see `elasticity`."""
    if slope is None:
        return not_made("elasticity")
    holds = slope <= limit.ELASTICITY_CAPPED or (False if slope >= limit.ELASTICITY_FREE else None)
    text = f"1 % more in the queue brings {slope:.2f} % more"
    return PlateauCheck(name="elasticity", holds=holds, value=slope, text=text)


def compensation_check(device: Device, resource: Resource, inside_span: slice, busy: Mask) -> PlateauCheck:
    """Return whether reads and writes take from each other; see `compensation`."""
    both = {
        "iops": (device.reads, device.writes),
        "throughput": (device.read_mib_per_s, device.write_mib_per_s),
    }
    reads, writes = both[resource]
    if reads is None or writes is None:
        return not_made("compensation")
    levels = compensation(reads[inside_span][busy], writes[inside_span][busy])
    if levels is None:
        return not_made("compensation")
    # Reads that cause writes rise together in a free volume, too: only the fall is proof.
    holds = True if levels <= limit.COMPENSATION_CAPPED else None
    text = f"reads and writes take from each other: their sum varies {levels:.2f} times as much as both alone"
    return PlateauCheck(name="compensation", holds=holds, value=levels, text=text)


def inflation_check(waited: float | None, base_ms: float | None) -> PlateauCheck:
    """Return whether operations wait far longer than without a queue, both in ms."""
    if waited is None or not base_ms:
        return not_made("inflation")
    times = waited / base_ms
    holds = times >= limit.INFLATION_CAPPED or (False if times <= limit.INFLATION_FREE else None)
    text = f"an operation takes {times:.1f} times as long as without a queue ({number(base_ms)} ms)"
    return PlateauCheck(name="inflation", holds=holds, value=times, text=text)


def absorption_check(rate: Floats, in_flight: Floats, *, cpu_bound: bool, inflated: bool = False) -> PlateauCheck:
    """Return whether a longer queue brings longer waits and no more operations; see `absorption`.

    Where operations are `inflated` against those without a queue, a queue that hardly varies refutes nothing: at a
    fixed depth it varies by how it is sampled.
    """
    value = absorption(rate, in_flight)
    if value is None:
        return not_made("absorption")
    # Saturated CPUs keep a rate constant, too; but then the queue is theirs, not the volume's.
    holds = value <= limit.ABSORPTION_CAPPED and (not cpu_bound or float(np.median(in_flight)) >= limit.LONG_QUEUE)
    both = (rate > 0) & (in_flight > 0)
    varies = _spread(np.log(in_flight[both])) >= limit.ABSORPTION_REFUTES_SPREAD
    refuted = value >= limit.ABSORPTION_FREE and (varies or not inflated) and not cpu_bound
    text = f"a longer queue brings longer waits and no more operations: their variances are as {number(value)} to 1"
    return PlateauCheck(name="absorption", holds=holds or (False if refuted else None), value=value, text=text)


def sliced_dispersion_max(per_interval: float, width_s: float) -> float:
    """Variance against mean of the operations in an interval that a meter with slices gives at most.

    Linux hands out a limit in slices of 100 ms (blk-throttle: throtl_slice), and what a slice has may pass at any
    time in it. Both ends of an interval are off by up to a slice, evenly distributed: X * SLICE_S operations, with
    a variance of (X * SLICE_S)^2 / 12 each. For X * w operations in an interval of w seconds that is

        2 * (X * SLICE_S)^2 / 12 / (X * w) = X * SLICE_S^2 / (6 * w)

    Args:
        per_interval: operations in an interval, X * w.
        width_s: of an interval, w.
    """
    return per_interval * (limit.SLICE_S / width_s) ** 2 / 6


def may_be_sliced(counts: Floats | None, width_s: float) -> bool:
    """Whether a rate is as even as a meter that comes in slices: then its unevenness refutes no meter.

    Args:
        counts: operations in each interval, shape (buckets,); None: not known.
        width_s: of an interval.
    """
    spread = None if counts is None else dispersion(counts)
    if spread is None or counts is None or width_s <= 0:
        return False
    return spread <= sliced_dispersion_max(float(np.nanmedian(counts)), width_s)


def regularity_checks(counts: Floats | None) -> tuple[PlateauCheck, PlateauCheck]:
    """A meter's regularity, which is proof; and a rate more even than chance, which needs a second check."""
    spread = None if counts is None else dispersion(counts)
    if spread is None:
        return not_made("regularity"), not_made("evenness")
    text = f"it is as regular as a meter: its variance is {number(spread)} of the mean"
    even = f"it is far more even than chance makes it: its variance is {number(spread)} of the mean"
    return (
        PlateauCheck(name="regularity", holds=spread <= limit.REGULARITY_CAPPED or None, value=spread, text=text),
        PlateauCheck(name="evenness", holds=spread <= limit.EVENNESS_CAPPED or None, value=spread, text=even),
    )
