"""Plateaus: the volume gives a constant number of operations or bytes while a queue waits.

A closed loop is steady by itself, so that flatness proves nothing. What tells a limit from mere latency: a longer
queue brings nothing (elasticity), reads and writes take from each other (compensation), operations wait far longer
than without a queue (inflation), the volume counts that its limit was exceeded, or operations come more regularly
than any waiting could make them (regularity). One check that fails refutes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from volbench.analysis.explain import thresholds as limit
from volbench.analysis.explain.evidence.align import Floats, Mask, median, quantile
from volbench.analysis.explain.evidence.cliffs import change_points
from volbench.analysis.explain.evidence.device import DIRECTIONS, RESOURCES, Device, Direction, Resource
from volbench.base.text import percent

LARGE_KIB = 43.0
"""Size of an operation from which bytes are the likelier limit: 125 MiB/s at 3,000 IOPS (gp3 as it comes). It is an
order of names and no proof: gp3 with 16,000 IOPS may have 125 MiB/s, which pages of 16 KiB meet at 8,000."""
METERED_SAMPLES = 8
REGULARITY_APART = 4.0
"""Times that one of two plateaus must be more regular to be the metered one."""
_INDEPENDENT = {
    "exceeded": "counter",
    "regularity": "evenness",
    "evenness": "evenness",
    "elasticity": "queue",
    "absorption": "queue",
    "compensation": "mix",
    "inflation": "time",
}
"""Check -> what it is evidence of: two checks of one thing are one piece of evidence."""
_MAD_TO_SIGMA = 1.4826
_SLOPE_SAMPLES = 500
"""Theil and Sen's slope takes all pairs; of a long step, every n-th interval will do."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One physical test of a plateau. `holds` None: it could not be made, and says nothing."""

    name: str
    holds: bool | None
    value: float | None
    text: str


@dataclass(frozen=True, kw_only=True)
class Plateau:
    """A constant level with a queue. `level` is in operations/s or MiB/s; `checks` say whether it is a limit.

    `direction` names the operations that it is about; None: reads and writes together.
    """

    resource: Resource
    level: float
    window_s: tuple[float, float]
    first: int
    last: int
    in_flight: float
    await_ms: float | None
    base_await_ms: float | None
    checks: tuple[Check, ...]
    direction: Direction | None = None

    @property
    def unit(self) -> str:
        """Of the level."""
        return "1/s" if self.resource == "iops" else "MiB/s"

    @property
    def is_limit(self) -> bool:
        """A counter that says so, a meter's regularity, or two independent pieces of evidence; nothing against it.

        Regularity needs METERED_SAMPLES by itself: fewer are even by chance. Streams of a constant latency are as
        regular, which no storage is; where their queue varies, what absorbs it refutes a limit.
        """
        passed = {check.name for check in self.checks if check.holds}
        refuted = any(check.holds is False for check in self.checks)
        metered = "regularity" in passed and self.last - self.first >= METERED_SAMPLES
        return not refuted and (
            "exceeded" in passed or metered or len({_INDEPENDENT[name] for name in passed}) >= 2
        )

    @property
    def may_be_limit(self) -> bool:
        """Whether only an even rate speaks for a limit: streams that take a constant time are as even."""
        passed = {check.name for check in self.checks if check.holds}
        refuted = any(check.holds is False for check in self.checks)
        even = passed == {"evenness"} and self.in_flight >= limit.LONG_QUEUE
        return not refuted and (even or passed == {"evenness", "regularity"})


@dataclass(frozen=True, kw_only=True)
class Exceeded:
    """Share of time above a limit as the volume counts it; None: it does not count."""

    volume_iops: Floats | None = None
    volume_throughput: Floats | None = None
    instance_iops: Floats | None = None
    instance_throughput: Floats | None = None

    def of(self, resource: Resource) -> Floats | None:
        """The volume's own counter of a resource."""
        return self.volume_iops if resource == "iops" else self.volume_throughput


def plateaus(
    t_s: Floats,
    device: Device,
    *,
    exceeded: Exceeded | None = None,
    base_await_ms: float | None = None,
    cpu_bound: bool = False,
) -> tuple[Plateau, ...]:
    """All plateaus with a queue, of operations and of bytes, in order of time.

    Args:
        t_s: ends of the buckets, shape (buckets,).
        device: the volume on this grid.
        exceeded: what it counts of its limits, on the same grid.
        base_await_ms: its waiting time without a queue, see `base_await_ms`.
        cpu_bound: the CPUs were saturated: then they may be what keeps the rate from following the queue.
    """
    levels = []
    counted = exceeded or Exceeded()
    for resource in RESOURCES:
        values = device.carried(resource)
        if values is None:
            continue
        for first, last in _segments(values):
            for span in ((first, last), (first + 1, last - 1)):  # intervals at its ends may be of two levels
                plateau = _plateau(t_s, device, resource, values, span, counted, base_await_ms, cpu_bound=cpu_bound)
                if plateau is not None:
                    levels.append(plateau)
                    break
    return tuple(sorted(levels, key=lambda level: level.first))


def limits_of(levels: tuple[Plateau, ...], size_kib: float | None) -> tuple[Plateau, ...]:
    """The plateaus that are limits; where operations and bytes are flat together, the one that the size speaks for.

    With operations of one size both are flat. The volume's own counter decides, else which of both is clearly the
    more regular. Where neither does, both stay, the one first that the size of an operation speaks for.
    """
    named = [plateau for plateau in levels if plateau.is_limit]
    clear = [plateau for plateau in named if not any(_yields(plateau, rival) for rival in named)]
    large = size_kib is not None and size_kib >= LARGE_KIB
    return tuple(sorted(clear, key=lambda plateau: (plateau.resource == "iops") == large))


def one_way_limits(
    t_s: Floats, device: Device, whole: Device | None, *, together: tuple[Plateau, ...], cpu_bound: bool = False
) -> tuple[Plateau, ...]:
    """Limits of reads alone or of writes alone, as GCP, libvirt, Docker and control groups set them.

    A direction's limit shows in its own rate and queue; the other direction, which is free, hides it in the sum. A
    limit of both together is kept unless one direction is clearly the more regular: that one is metered.

    Args:
        t_s: ends of the buckets, shape (buckets,).
        device: the volume on this grid.
        whole: the volume over all of the cell, for its time without a queue.
        together: limits of reads and writes together.
        cpu_bound: the CPUs were saturated.
    """
    # No type of volume is known to limit a direction's operations before its bytes: the size decides nothing.
    limits = limits_of(one_way_plateaus(t_s, device, whole, cpu_bound=cpu_bound), None)
    return tuple(
        plateau
        for plateau in limits
        if all(_less_regular(sum_, plateau) for sum_ in together if _overlap(plateau, sum_) > 0)
    )


def one_way_plateaus(
    t_s: Floats, device: Device, whole: Device | None, *, cpu_bound: bool = False
) -> tuple[Plateau, ...]:
    """Plateaus of reads alone and of writes alone, where both are more than a trace; see `one_way_limits`."""
    levels: list[Plateau] = []
    for direction in DIRECTIONS:
        rival = device.only("write" if direction == "read" else "read")
        view, quiet = device.only(direction), None if whole is None else whole.only(direction)
        if view is None or rival is None or not _has_share(rival, device):
            continue
        quiet_ms = None if quiet is None else base_await_ms(quiet)
        directed = plateaus(t_s, view, base_await_ms=quiet_ms, cpu_bound=cpu_bound)
        levels += [replace(plateau, direction=direction) for plateau in directed]
    return tuple(sorted(levels, key=lambda plateau: plateau.first))


def base_await_ms(device: Device) -> float | None:
    """The volume's waiting time without a queue: the lower decile of buckets with at most 1.5 in flight.

    None when fewer than three buckets were so quiet.
    """
    if device.in_flight is None or device.await_ms is None:
        return None
    quiet = (device.in_flight <= 1.5) & (device.iops > 0) & np.isfinite(device.await_ms) & (device.await_ms > 0)
    return quantile(device.await_ms[quiet], 0.1) if int(quiet.sum()) >= 3 else None


def elasticity(rate: Floats, in_flight: Floats) -> float | None:
    """Slope of log rate over log queue (Theil and Sen); None when the queue hardly varies.

    Args:
        rate, in_flight: shape (buckets,).
    """
    both = (rate > 0) & (in_flight > 0)
    x, y = np.log(in_flight[both]), np.log(rate[both])
    if len(x) < limit.PLATEAU_SAMPLES_MIN or np.subtract(*np.quantile(x, [0.75, 0.25])) < limit.QUEUE_SPREAD_MIN:
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
    return _MAD_TO_SIGMA * float(np.median(np.abs(values - np.median(values))))


def dispersion(counts: Floats) -> float | None:
    """Variance of operations in an interval against their mean; None for too few intervals or operations.

    By deviations from the median, since the first and last interval of a level may belong half to another.
    """
    counts = counts[np.isfinite(counts)]
    if len(counts) < limit.REGULARITY_SAMPLES or np.median(counts) < limit.REGULARITY_OPERATIONS:
        return None
    middle = float(np.median(counts))
    return (_MAD_TO_SIGMA * float(np.median(np.abs(counts - middle)))) ** 2 / middle


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


def _segments(values: Floats) -> list[tuple[int, int]]:
    """Stretches between change points, as first and last + 1 bucket."""
    finite = np.flatnonzero(np.isfinite(values))
    if not len(finite):
        return []
    points = [int(finite[point]) for point in change_points(values[finite])]
    bounds = [int(finite[0]), *points, int(finite[-1]) + 1]
    return list(pairwise(bounds))


def _plateau(
    t_s: Floats,
    device: Device,
    resource: Resource,
    values: Floats,
    span: tuple[int, int],
    exceeded: Exceeded,
    base_ms: float | None,
    *,
    cpu_bound: bool,
) -> Plateau | None:
    inside_span = slice(*span)
    if device.in_flight is None or span[1] - span[0] < limit.PLATEAU_SAMPLES_MIN:
        return None
    busy: Mask = np.isfinite(values[inside_span]) & (device.in_flight[inside_span] >= limit.QUEUE_MIN)
    if int(busy.sum()) < limit.PLATEAU_SAMPLES_MIN or busy.mean() < limit.FLAT_SHARE_MIN:
        return None
    inside = values[inside_span][busy]
    top = float(np.quantile(inside, limit.LEVEL_QUANTILE))
    low, high = (top * edge for edge in limit.FLAT_TOLERANCE)
    flat = (inside >= low) & (inside <= high)
    if top <= 0 or flat.mean() < limit.FLAT_SHARE_MIN:
        return None
    level = float(np.median(inside[flat]))
    in_flight = device.in_flight[inside_span][busy]
    waited = None if device.await_ms is None else median(device.await_ms[inside_span][busy])
    counted = exceeded.of(resource)
    width = float(t_s[1] - t_s[0]) if len(t_s) > 1 else 0.0
    return Plateau(
        resource=resource,
        level=level,
        window_s=(float(t_s[span[0]]) - width, float(t_s[span[1] - 1])),
        first=span[0],
        last=span[1],
        in_flight=float(np.median(in_flight)),
        await_ms=waited,
        base_await_ms=base_ms,
        checks=(
            _exceeded_check(None if counted is None else counted[inside_span][busy]),
            _not_made("elasticity") if cpu_bound else _elasticity_check(elasticity(inside, in_flight)),
            _not_made("compensation") if cpu_bound else _compensation_check(device, resource, inside_span, busy),
            _inflation_check(waited, base_ms),
            _absorption_check(inside, in_flight, cpu_bound=cpu_bound),
            *_regularity_checks(_operations(device, resource, inside, width)),
        ),
    )


def _not_made(name: str) -> Check:
    return Check(name=name, holds=None, value=None, text="not known here")


def _exceeded_check(counted: Floats | None) -> Check:
    share = None if counted is None or not np.isfinite(counted).any() else float(np.nanmean(counted))
    if share is None:
        return _not_made("exceeded")
    holds = share >= limit.EXCEEDED_MIN or (False if share <= limit.EXCEEDED_SILENT else None)
    text = f"the volume counts its limit exceeded in {percent(share)} of the time"
    return Check(name="exceeded", holds=holds, value=share, text=text)


def _elasticity_check(slope: float | None) -> Check:
    if slope is None:
        return _not_made("elasticity")
    holds = slope <= limit.ELASTICITY_CAPPED or (False if slope >= limit.ELASTICITY_FREE else None)
    text = f"1 % more in the queue brings {slope:.2f} % more"
    return Check(name="elasticity", holds=holds, value=slope, text=text)


def _compensation_check(device: Device, resource: Resource, inside_span: slice, busy: Mask) -> Check:
    both = {
        "iops": (device.reads, device.writes),
        "throughput": (device.read_mib_per_s, device.write_mib_per_s),
    }
    reads, writes = both[resource]
    if reads is None or writes is None:
        return _not_made("compensation")
    levels = compensation(reads[inside_span][busy], writes[inside_span][busy])
    if levels is None:
        return _not_made("compensation")
    # Reads that cause writes rise together in a free volume, too: only the fall is proof.
    holds = True if levels <= limit.COMPENSATION_CAPPED else None
    text = f"reads and writes take from each other: their sum varies {levels:.2f} times as much as both alone"
    return Check(name="compensation", holds=holds, value=levels, text=text)


def _inflation_check(waited: float | None, base_ms: float | None) -> Check:
    if waited is None or not base_ms:
        return _not_made("inflation")
    times = waited / base_ms
    holds = times >= limit.INFLATION_CAPPED or (False if times <= limit.INFLATION_FREE else None)
    text = f"an operation takes {times:.1f} times as long as without a queue ({base_ms:.2g} ms)"
    return Check(name="inflation", holds=holds, value=times, text=text)


def _absorption_check(rate: Floats, in_flight: Floats, *, cpu_bound: bool) -> Check:
    value = absorption(rate, in_flight)
    if value is None:
        return _not_made("absorption")
    # Saturated CPUs keep a rate constant, too; but then the queue is theirs, not the volume's.
    holds = value <= limit.ABSORPTION_CAPPED and (not cpu_bound or float(np.median(in_flight)) >= limit.LONG_QUEUE)
    refuted = value >= limit.ABSORPTION_FREE and not cpu_bound
    text = f"a longer queue brings longer waits and no more operations: their variances are as {value:.2g} to 1"
    return Check(name="absorption", holds=holds or (False if refuted else None), value=value, text=text)


def _operations(device: Device, resource: Resource, values: Floats, width_s: float) -> Floats | None:
    """Operations in each interval; bytes in units of the mean operation."""
    if resource == "iops":
        return values * width_s
    return values * width_s * 1024 / device.size_kib if device.size_kib else None


def _regularity_checks(counts: Floats | None) -> tuple[Check, Check]:
    """A meter's regularity, which is proof; and a rate more even than chance, which needs a second check."""
    spread = None if counts is None else dispersion(counts)
    if spread is None:
        return _not_made("regularity"), _not_made("evenness")
    text = f"it is as regular as a meter: its variance is {spread:.2g} of the mean"
    even = f"it is far more even than chance makes it: its variance is {spread:.2g} of the mean"
    return (
        Check(name="regularity", holds=spread <= limit.REGULARITY_CAPPED or None, value=spread, text=text),
        Check(name="evenness", holds=spread <= limit.EVENNESS_CAPPED or None, value=spread, text=even),
    )


def _regularity(plateau: Plateau) -> float | None:
    return next((check.value for check in plateau.checks if check.name == "regularity"), None)


def _less_regular(plateau: Plateau, rival: Plateau) -> bool | None:
    """Which of two is clearly less regular, so that the other is the metered one; None: neither."""
    mine, rival_value = _regularity(plateau), _regularity(rival)
    if mine is None or rival_value is None or max(mine, rival_value) <= REGULARITY_APART * min(mine, rival_value):
        return None
    return mine > rival_value


def _overlap(plateau: Plateau, rival: Plateau) -> int:
    """Buckets that two plateaus share; negative when they are apart."""
    return min(plateau.last, rival.last) - max(plateau.first, rival.first)


def _has_share(direction: Device, device: Device) -> bool:
    """Whether a direction is more than a trace of all operations; else the sum is the other one's own rate."""
    both = np.isfinite(direction.iops) & np.isfinite(device.iops)
    total = float(device.iops[both].sum())
    return total > 0 and float(direction.iops[both].sum()) >= limit.DIRECTION_SHARE_MIN * total


def _yields(plateau: Plateau, rival: Plateau) -> bool:
    """Whether `plateau` is only the shadow of `rival`, the limit of the other resource at the same time."""
    if plateau.resource == rival.resource or _overlap(plateau, rival) <= 0:
        return False
    mine, rival_value = (any(c.name == "exceeded" and c.holds for c in p.checks) for p in (plateau, rival))
    if mine != rival_value:
        return rival_value
    return _less_regular(plateau, rival) is True
