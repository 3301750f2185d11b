"""Plateaus: the volume gives a constant number of operations or bytes while a queue waits.

A closed loop is steady by itself, so that flatness proves nothing. What tells a limit from mere latency: a longer
queue brings nothing (elasticity), reads and writes take from each other (compensation), operations wait far longer
than without a queue (inflation), the volume counts that its limit was exceeded, or operations come more regularly
than any waiting could make them (regularity). One check that fails refutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from volbench.results.explain import thresholds as limit
from volbench.results.explain.evidence.cliffs import SEGMENT_MIN, change_points
from volbench.results.explain.evidence.device import DIRECTIONS, RESOURCES, Device, Direction, Resource
from volbench.results.explain.evidence.plateau_checks import (
    Exceeded,
    PlateauCheck,
    absorption_check,
    compensation_check,
    elasticity,
    elasticity_check,
    exceeded_check,
    inflation_check,
    may_be_sliced,
    not_made,
    regularity_checks,
)
from volbench.results.stats.grid import Floats, Mask, median, median_of_finite, quantile, quantile_of_finite

LARGE_KIB = 43.0
"""Size of an operation from which bytes are the likelier limit: 125 MiB/s at 3,000 IOPS (gp3 as it comes). It is an
order of names and no proof: gp3 with 16,000 IOPS may have 125 MiB/s, which pages of 16 KiB meet at 8,000."""
SUPPOSED_MAX = 0.02
"""Share of flushes without data among operations, from which their number says little of how regular these are."""
METERED_SAMPLES = 8
QUIET_MAX = 1.5
"""Operations in flight up to which hardly any waits for another one."""
REGULARITY_APART = 4.0
"""Times that one of two plateaus must be more regular to be the metered one."""
_INDEPENDENT = {
    "exceeded": "counter",
    "regularity": "evenness",
    "evenness": "evenness",
    "elasticity": "queue",
    "absorption": "queue",
    "contrast": "queue",
    "compensation": "mix",
    "inflation": "time",
}
"""Check -> what it is evidence of: two checks of one thing are one piece of evidence."""


@dataclass(frozen=True, kw_only=True)
class Plateau:
    """A constant level with a queue. `level` is in operations/s or MiB/s; `checks` say whether it is a limit.

    `direction` names the operations that it is about; None: reads and writes together. `sliced`: it may come in
    slices (`may_be_sliced`). `few`: fewer operations are in flight than a queue has. `supposed`:
    a good part of what is counted is taken for flushes without data, so that it looks less regular than it is.
    """

    resource: Resource
    level: float
    window_s: tuple[float, float]
    first: int
    last: int
    in_flight: float
    await_ms: float | None
    base_await_ms: float | None
    checks: tuple[PlateauCheck, ...]
    direction: Direction | None = None
    sliced: bool = False
    few: bool = False
    supposed: bool = False

    @property
    def unit(self) -> str:
        """Of the level."""
        return "1/s" if self.resource == "iops" else "MiB/s"

    @property
    def is_limit(self) -> bool:
        """A counter that says so, a meter's regularity, or two independent pieces of evidence; nothing against it.

        Regularity needs METERED_SAMPLES by itself: fewer are even by chance. Streams of a constant latency are as
        regular, which no storage is; where their queue varies, what absorbs it refutes a limit. Where `few` are in
        flight a meter's evenness is needed, and something beside it.
        """
        passed = {check.name for check in self.checks if check.holds}
        metered = "regularity" in passed and self.last - self.first >= METERED_SAMPLES
        kinds = {_INDEPENDENT[name] for name in passed}
        several = len(kinds) >= 2 and (not self.few or "evenness" in kinds)
        return not self.is_refuted and ("exceeded" in passed or (metered and not self.few) or several)

    @property
    def is_refuted(self) -> bool:
        """Whether a check speaks against a limit."""
        return any(check.holds is False for check in self.checks)

    @property
    def is_counted(self) -> bool:
        """Whether the volume counts that its limit was exceeded."""
        return any(check.name == "exceeded" and check.holds for check in self.checks)

    @property
    def is_even(self) -> bool:
        """Whether the rate is more even than chance makes it."""
        return any(check.holds for check in self.checks if _INDEPENDENT[check.name] == "evenness")

    @property
    def may_be_limit(self) -> bool:
        """Whether only an even rate speaks for a limit: streams that take a constant time are as even.

        A rate that is no less even than a meter's slices make it says nothing either way, however many wait.
        """
        passed = {check.name for check in self.checks if check.holds}
        is_even = passed == {"evenness"} or (self.sliced and not passed)
        even = is_even and self.in_flight >= limit.LONG_QUEUE
        return not self.is_refuted and (even or passed == {"evenness", "regularity"})


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
            for span in _spans(first, last):
                plateau = _plateau(t_s, device, resource, values, span, counted, base_await_ms, cpu_bound=cpu_bound)
                if plateau is not None:
                    levels.append(plateau)
                    break
    return tuple(sorted(levels, key=lambda level: level.first))


def limits_of(levels: tuple[Plateau, ...], size_kib: float | None) -> tuple[Plateau, ...]:
    """The plateaus that are limits; where operations and bytes are flat together, the one that the size speaks for.

    With operations of one size both are flat. The volume's own counter decides, else which of both is clearly the
    more regular. Where neither does, both stay, the one first that the size of an operation speaks for. A level
    that misses a meter's regularity stays as well, where it is not clearly less regular than the limit.
    """
    limits = [plateau for plateau in levels if plateau.is_limit]
    named = [*limits, *(plateau for plateau in levels if any(_is_as_even(plateau, rival) for rival in limits))]
    clear = [plateau for plateau in named if not any(_yields(plateau, rival) for rival in named)]
    large = size_kib is not None and size_kib >= LARGE_KIB
    return tuple(sorted(clear, key=lambda plateau: (plateau.resource == "iops") == large))


def one_way_limits(directed: tuple[Plateau, ...], together: tuple[Plateau, ...]) -> tuple[Plateau, ...]:
    """Limits of reads alone or of writes alone, as GCP, libvirt, Docker and control groups set them.

    A direction's limit shows in its own rate and queue; the other direction, which is free, hides it in the sum. A
    limit of both together is kept unless one direction is clearly the more regular: that one is metered.

    Args:
        directed: plateaus of each direction, see `one_way_plateaus`.
        together: limits of reads and writes together.
    """
    # No type of volume is known to limit a direction's operations before its bytes: the size decides nothing.
    return tuple(
        plateau
        for plateau in limits_of(directed, None)
        if all(_less_regular(sum_, plateau) for sum_ in together if overlap(plateau, sum_) > 0)
    )


def one_way_plateaus(
    t_s: Floats, device: Device, cell_device: Device | None, *, cpu_bound: bool = False
) -> tuple[Plateau, ...]:
    """Plateaus of reads alone and of writes alone, where both are more than a trace; see `one_way_limits`.

    Args:
        t_s: ends of the buckets, shape (buckets,).
        device: the volume on this grid.
        cell_device: the volume over all of the cell, for its time without a queue.
        cpu_bound: the CPUs were saturated.
    """
    levels: list[Plateau] = []
    for direction in DIRECTIONS:
        rival = device.only("write" if direction == "read" else "read")
        view, quiet = device.only(direction), None if cell_device is None else cell_device.only(direction)
        if view is None or rival is None or not _has_share(rival, device):
            continue
        quiet_ms = None if quiet is None else base_await_ms(quiet)
        directed = plateaus(t_s, view, base_await_ms=quiet_ms, cpu_bound=cpu_bound)
        levels += [replace(plateau, direction=direction) for plateau in directed]
    return tuple(sorted(levels, key=lambda plateau: plateau.first))


def base_await_ms(device: Device, waited: Device | None = None) -> float | None:
    """A waiting time without a queue: the lower decile of buckets with at most QUIET_MAX in flight.

    So few as counted, and by Little's law (rate times waiting time): some drivers give the queue of one moment,
    which is short in seconds in which 30 were in flight. None when fewer than three buckets were so quiet.

    Args:
        device: the volume, whose operations of both directions make a queue.
        waited: the operations whose time it is; None: all.
    """
    if device.in_flight is None or device.await_ms is None:
        return None
    operations = device if waited is None else waited
    if operations.await_ms is None:
        return None
    by_little = device.iops * device.await_ms / 1000
    quiet = (np.fmax(device.in_flight, by_little) <= QUIET_MAX) & (operations.iops > 0) & (operations.await_ms > 0)
    return quantile(operations.await_ms[quiet], 0.1) if int(quiet.sum()) >= 3 else None


def plateau_within(
    t_s: Floats,
    device: Device,
    resource: Resource,
    span: tuple[int, int],
    *,
    base_await_ms: float | None,
    cpu_bound: bool,
) -> Plateau | None:
    """The level of a resource over some intervals, whatever changes within them; None where it is not flat."""
    values = device.carried(resource)
    if values is None:
        return None
    return _plateau(t_s, device, resource, values, span, Exceeded(), base_await_ms, cpu_bound=cpu_bound)


def _segments(values: Floats) -> list[tuple[int, int]]:
    """Stretches between change points, as first and last + 1 bucket."""
    finite = np.flatnonzero(np.isfinite(values))
    if not len(finite):
        return []
    points = [int(finite[point]) for point in change_points(values[finite])]
    bounds = [int(finite[0]), *points, int(finite[-1]) + 1]
    return list(pairwise(bounds))


def _spans(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield what of a stretch may be one level, the longest first.

    Intervals at its ends may be of two levels, and fewer than SEGMENT_MIN of another one are no segment of their
    own: a burst of three seconds before the level of a volume.
    """
    yield first, last
    yield first + 1, last - 1
    for shorter in range(2, SEGMENT_MIN):
        yield from ((first + shorter, last), (first, last - shorter), (first + shorter, last - shorter))


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
    busy_and_few = _busy(values[inside_span], device.in_flight[inside_span])
    if busy_and_few is None:
        return None
    busy, few = busy_and_few
    inside = values[inside_span][busy]
    top = quantile_of_finite(inside, limit.LEVEL_QUANTILE)
    low, high = (top * edge for edge in limit.FLAT_TOLERANCE)
    flat = (inside >= low) & (inside <= high)
    if top <= 0 or flat.mean() < limit.FLAT_SHARE_MIN:
        return None
    level = median_of_finite(inside[flat])
    in_flight = device.in_flight[inside_span][busy]
    waited = None if device.await_ms is None else median(device.await_ms[inside_span][busy])
    counted = exceeded.of(resource)
    width = float(t_s[1] - t_s[0]) if len(t_s) > 1 else 0.0
    operations = _operations(resource, inside, device.served[inside_span][busy], width)
    inflation = inflation_check(waited, base_ms)
    return Plateau(
        resource=resource,
        level=level,
        window_s=(float(t_s[span[0]]) - width, float(t_s[span[1] - 1])),
        first=span[0],
        last=span[1],
        in_flight=median_of_finite(in_flight),
        await_ms=waited,
        base_await_ms=base_ms,
        checks=(
            exceeded_check(None if counted is None else counted[inside_span][busy]),
            elasticity_check(elasticity(inside, in_flight))
            if device.knows_queue and not cpu_bound
            else not_made("elasticity"),
            not_made("compensation") if cpu_bound else compensation_check(device, resource, inside_span, busy),
            inflation,
            absorption_check(inside, in_flight, cpu_bound=cpu_bound, inflated=bool(inflation.holds))
            if device.knows_queue
            else not_made("absorption"),
            *regularity_checks(operations),
        ),
        sliced=may_be_sliced(operations, width),
        few=few,
        supposed=resource == "iops" and _supposes(device, inside_span),
    )


def _supposes(device: Device, inside_span: slice) -> bool:
    """Whether what is supposed of flushes is a good part of all operations."""
    if device.empty_writes is None or not device.supposes_empty:
        return False
    empty, total = np.nansum(device.empty_writes[inside_span]), np.nansum(device.iops[inside_span])
    return bool(empty > SUPPOSED_MAX * total)


def _busy(values: Floats, in_flight: Floats) -> tuple[Mask, bool] | None:
    """The intervals with a queue, or else with an operation in flight, and whether it is the second; None: few."""
    for least in (limit.QUEUE_MIN, limit.FEW_MIN):
        busy: Mask = np.isfinite(values) & (in_flight >= least)
        if int(busy.sum()) >= limit.PLATEAU_SAMPLES_MIN and busy.mean() >= limit.FLAT_SHARE_MIN:
            return busy, least == limit.FEW_MIN
    return None


def _operations(resource: Resource, values: Floats, rate: Floats, width_s: float) -> Floats | None:
    """Operations in each interval; bytes in units of which there are as many as operations, by their medians.

    So a level of bytes has the operations that the same intervals have, and neither of the two is judged without
    the other. The mean size over a cell, with its larger and smaller operations, gave fewer or more of them.
    """
    if resource == "iops":
        return values * width_s
    typical, level = median(rate) or 0.0, median_of_finite(values)
    return values / level * typical * width_s if level > 0 else None


def _regularity(plateau: Plateau) -> float | None:
    return next((check.value for check in plateau.checks if check.name == "regularity"), None)


def _less_regular(plateau: Plateau, rival: Plateau) -> bool | None:
    """Which of two is clearly less regular, so that the other is the metered one; None: neither."""
    mine, rival_value = _regularity(plateau), _regularity(rival)
    if mine is None or rival_value is None or max(mine, rival_value) <= REGULARITY_APART * min(mine, rival_value):
        return None
    return mine > rival_value


def _is_as_even(plateau: Plateau, rival: Plateau) -> bool:
    """Whether a level that is no limit by itself is as regular as that of the other resource, which is one."""
    if plateau.is_limit or plateau.is_refuted or plateau.resource == rival.resource or rival.is_counted:
        return False
    has_spreads = _regularity(plateau) is not None and _regularity(rival) is not None
    return has_spreads and overlap(plateau, rival) > 0 and _less_regular(plateau, rival) is None


def overlap(plateau: Plateau, rival: Plateau) -> int:
    """Buckets that two plateaus share; negative when they are apart."""
    return min(plateau.last, rival.last) - max(plateau.first, rival.first)


def _has_share(direction: Device, device: Device) -> bool:
    """Whether a direction is more than a trace of all operations; else the sum is the other one's own rate."""
    both = np.isfinite(direction.iops) & np.isfinite(device.iops)
    total = float(device.iops[both].sum())
    return total > 0 and float(direction.iops[both].sum()) >= limit.DIRECTION_SHARE_MIN * total


def _yields(plateau: Plateau, rival: Plateau) -> bool:
    """Whether `plateau` is only the shadow of `rival`, the limit of the other resource at the same time."""
    if plateau.resource == rival.resource or overlap(plateau, rival) <= 0:
        return False
    if plateau.is_counted != rival.is_counted:
        return rival.is_counted
    return not plateau.supposed and _less_regular(plateau, rival) is True
