"""What a contrast of sizes says: short loads with operations of another size, run to tell operations from bytes.

Operations of one size meet a limit of operations and one of bytes alike. With another size only what is limited
keeps its level. A volume has both limits, so that larger operations may meet the limit of bytes where the step met
that of operations: then neither level stays, and a second size decides.

A busy host may hold a load back, which then gives less than the volume would. Less refutes no limit; more does: a
volume that moved four times the bytes has no limit of bytes there. So a limit of operations remains where larger
operations moved more bytes and neither larger nor smaller ones were more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from volbench.core.records.size_contrast import SAME_RATE, SizeContrast
from volbench.results.explain import thresholds as limit
from volbench.results.explain.evidence.device import RESOURCES, Device, Direction, Resource, device_of
from volbench.results.explain.evidence.levels_elsewhere import (
    KIB_PER_MIB,
    SIZES_APART,
    LevelElsewhere,
    ratio_between,
)
from volbench.results.explain.evidence.limits import Plateau
from volbench.results.stats.grid import Floats, Grid, Mask, median, median_of_finite

INTERVALS_MIN = 3
"""Whole sampling intervals in a contrast, that agree."""
ALIKE = 0.15
"""Deviation of an interval's operations from their median: with more it is not at the level. Of few operations,
MARGIN_OPERATIONS more or less are no deviation."""
MARGIN_OPERATIONS = 1.5
KIB_BYTES = 1024
SIDE_MIN = 1 - limit.DIRECTION_SHARE_MIN
"""Share of reads among operations, from which a load is one of reads."""
QUEUED_MIN = 0.8
"""Share of the bytes that a load keeps under way, that wait at the volume: with less the host held the load back,
and a rate that is the step's is one by chance. In bytes, since the kernel may merge operations."""
Mix = Literal["read", "write", "both"]
_RIVALS: Mapping[Resource, Resource] = {"iops": "throughput", "throughput": "iops"}
Reason = Literal["decided", "remains", "neither", "both", "less", "more", "each"]


@dataclass(frozen=True, kw_only=True)
class SampledContrast:
    """A load of a contrast with the series of its time.

    `disk`: of the cell that it was in. `follows`: it came right after the step; else after its cell's last one.
    """

    contrast: SizeContrast
    grid: Grid
    disk: str | None
    follows: bool


@dataclass(frozen=True, kw_only=True)
class ContrastLevel:
    """What the volume gave in a contrast: operations/s, MiB/s, operations in flight, and the mix of its load.

    `queued`: share of the bytes that the load keeps under way, that waited at the volume.
    """

    iops: float
    mib_per_s: float
    in_flight: float
    mix: Mix | None
    window_s: tuple[float, float]
    follows: bool = False
    queued: float = 1.0

    @property
    def size_kib(self) -> float:
        """Of an operation."""
        return self.mib_per_s * KIB_PER_MIB / self.iops

    def of(self, resource: Resource) -> float:
        """The level of a resource."""
        return self.iops if resource == "iops" else self.mib_per_s


@dataclass(frozen=True, kw_only=True)
class ContrastOutcome:
    """What a contrast says of a level of operations and one of bytes.

    `decided`: the one that is limited. `level`: the load that `reason` is about. `size_now_kib`: of an operation of
    the step. `exceeded`: of what a load moved more than the step.
    """

    reason: Reason
    level: ContrastLevel
    size_now_kib: float
    decided: LevelElsewhere | None = None
    exceeded: frozenset[Resource] = frozenset()

    @property
    def contradicts(self) -> bool:
        """Whether a load right after the step had less, or more, of both than what is taken for limits."""
        return self.level.follows and self.reason in ("less", "more", "each")


def levels_of(contrasts: Sequence[SampledContrast]) -> Iterator[ContrastLevel]:
    """Yield the levels of the volume in contrasts, where they were sampled well enough."""
    for sampled in contrasts:
        device = device_of(sampled.grid, sampled.disk)
        level = None if device is None else level_of(device, sampled)
        if level is not None:
            yield level


def level_of(device: Device, sampled: SampledContrast) -> ContrastLevel | None:
    """Return the level of a device in a contrast; None where it has no queue or fewer than INTERVALS_MIN agree."""
    served, mib_per_s, in_flight = device.served, device.mib_per_s, device.in_flight
    if mib_per_s is None or in_flight is None:
        return None
    finite = np.isfinite(served) & np.isfinite(mib_per_s) & np.isfinite(in_flight)
    busy = finite & (np.nan_to_num(in_flight) >= limit.QUEUE_MIN)  # fio takes its time to end
    if int(busy.sum()) < INTERVALS_MIN:
        return None
    typical = median_of_finite(served[busy])
    off = np.abs(np.nan_to_num(served) - typical)
    alike = busy & (off <= np.maximum(ALIKE * typical, MARGIN_OPERATIONS / sampled.grid.width_s))
    enough = max(INTERVALS_MIN, limit.FLAT_SHARE_MIN * float(busy.sum()))
    if int(alike.sum()) < enough or typical <= 0:
        return None
    iops, moved = float(served[alike].mean()), float(mib_per_s[alike].mean())
    if moved <= 0:
        return None
    waiting = median_of_finite(in_flight[alike])
    contrast = sampled.contrast
    kept_kib = contrast.in_flight * contrast.block_size_bytes / KIB_BYTES
    return ContrastLevel(
        iops=iops,
        mib_per_s=moved,
        in_flight=waiting,
        mix=mix_of(device, alike),
        window_s=contrast.window_s,
        follows=sampled.follows,
        queued=waiting * moved * KIB_PER_MIB / iops / kept_kib,
    )


def mix_of(device: Device, during: slice | Mask) -> Mix | None:
    """Return whether a load reads, writes or does both; None where the source does not tell them apart."""
    if device.reads is None or device.writes is None:
        return None
    reads, writes = _sum_of(device.reads[during]), _sum_of(device.writes[during])
    if reads + writes <= 0:
        return None
    share = reads / (reads + writes)
    if share >= SIDE_MIN:
        return "read"
    return "write" if share <= 1 - SIDE_MIN else "both"


def outcome_of(
    now: Mapping[Resource, Plateau], device: Device, levels: Sequence[ContrastLevel]
) -> ContrastOutcome | None:
    """Return what contrasts say of operations and bytes; None where none has the step's mix and another size.

    Args:
        now: the levels of both at one time and of one direction, or the one that the step itself tells.
        device: the volume in the step, in that direction where there is one.
        levels: of contrasts.
    """
    rates = _rates(now, device)
    if rates is None:
        return None
    first, last = _span(now)
    mix: Mix | Direction | None = next(iter(now.values())).direction or mix_of(device, slice(first, last))
    size_now_kib = rates["throughput"] * KIB_PER_MIB / rates["iops"]
    usable = [
        level
        for level in levels
        if mix is not None and level.mix == mix and ratio_between(level.size_kib, size_now_kib) >= SIZES_APART
    ]
    if not usable:
        return None
    exceeded = frozenset(
        resource
        for resource in RESOURCES
        if any(level.of(resource) > rates[resource] * SAME_RATE for level in usable)
    )
    reason, resource, level = _judged(usable, rates, exceeded, size_now_kib)
    decided = None
    if resource is not None:
        decided = LevelElsewhere(
            resource=resource,
            level=level.of(resource),
            window_s=level.window_s,
            size_kib=level.size_kib,
            size_now_kib=size_now_kib,
            is_contrast=True,
        )
    return ContrastOutcome(
        reason=reason, level=level, size_now_kib=size_now_kib, decided=decided, exceeded=exceeded
    )


def _span(now: Mapping[Resource, Plateau]) -> tuple[int, int]:
    return max(level.first for level in now.values()), min(level.last for level in now.values())


def _rates(now: Mapping[Resource, Plateau], device: Device) -> dict[Resource, float] | None:
    """What the step gave of each resource at the levels' time; None where one of them is not known."""
    first, last = _span(now) if now else (0, 0)
    if first >= last:
        return None
    rates: dict[Resource, float] = {}
    for resource in RESOURCES:
        carried = device.carried(resource)
        typical = None if carried is None else median(carried[first:last])
        rate = now[resource].level if resource in now else typical
        if not rate:
            return None
        rates[resource] = rate
    return rates


def _judged(
    usable: Sequence[ContrastLevel],
    rates: Mapping[Resource, float],
    exceeded: frozenset[Resource],
    size_now_kib: float,
) -> tuple[Reason, Resource | None, ContrastLevel]:
    """Return why something is decided or not, what is limited, and the load that says so."""
    staying = [
        (resource, level)
        for level in usable
        for resource in RESOURCES
        if ratio_between(level.of(resource), rates[resource]) <= SAME_RATE
        and (level.queued >= QUEUED_MIN or exceeded == {_RIVALS[resource]})
    ]
    more = [
        level for level in usable if all(level.of(resource) > rates[resource] * SAME_RATE for resource in RESOURCES)
    ]
    less = [
        level for level in usable if all(level.of(resource) * SAME_RATE < rates[resource] for resource in RESOURCES)
    ]
    if more:
        return "more", None, more[0]
    if len({resource for resource, _ in staying}) > 1:
        return "both", None, staying[0][1]
    if len(exceeded) > 1:
        return "each", None, usable[0]
    if staying:
        resource, level = staying[0]
        return "decided", resource, level
    for resource in RESOURCES:
        if exceeded == {_RIVALS[resource]} and len({level.size_kib > size_now_kib for level in usable}) > 1:
            passed = max(usable, key=lambda level: level.of(_RIVALS[resource]))
            return "remains", resource, passed
    return ("less", None, less[0]) if less else ("neither", None, usable[0])


def _sum_of(values: Floats) -> float:
    return float(np.nansum(values))
