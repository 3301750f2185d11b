"""What a contrast of sizes says: short loads with operations of another size, run to tell operations from bytes.

Operations of one size meet a limit of operations and one of bytes alike. With another size only what is limited
keeps its level. A volume has both limits, so that larger operations may meet the limit of bytes where the step met
that of operations: then neither level stays, and a second size decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from volbench.core.records.size_contrast import SAME_RATE, SizeContrast
from volbench.results.explain import thresholds as limit
from volbench.results.explain.evidence.device import RESOURCES, Device, Direction, Resource, device_of
from volbench.results.explain.evidence.levels_elsewhere import KIB_PER_MIB, SIZES_APART, LevelElsewhere
from volbench.results.explain.evidence.limits import Plateau
from volbench.results.stats.grid import Floats, Grid, Mask, median_of_finite

INTERVALS_MIN = 3
"""Whole sampling intervals in a contrast, that agree."""
ALIKE = 0.15
"""Deviation of an interval's operations from their median: with more it is not at the level. Of few operations,
MARGIN_OPERATIONS more or less are no deviation."""
MARGIN_OPERATIONS = 1.5
SIDE_MIN = 1 - limit.DIRECTION_SHARE_MIN
"""Share of reads among operations, from which a load is one of reads."""
Mix = Literal["read", "write", "both"]
Reason = Literal["decided", "neither", "both", "less", "more"]


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
    """What the volume gave in a contrast: operations/s, MiB/s, operations in flight, and the mix of its load."""

    iops: float
    mib_per_s: float
    in_flight: float
    mix: Mix | None
    window_s: tuple[float, float]
    follows: bool = False

    @property
    def size_kib(self) -> float:
        """Of an operation."""
        return self.mib_per_s * KIB_PER_MIB / self.iops

    def of(self, resource: Resource) -> float:
        """The level of a resource."""
        return self.iops if resource == "iops" else self.mib_per_s


@dataclass(frozen=True, kw_only=True)
class ContrastOutcome:
    """What a contrast says of two levels that are one of two.

    `decided`: the level that stayed, where one did and no load had more of both. `level`: the load that `reason` is
    about. `size_now_kib`: of an operation of the step.
    """

    reason: Reason
    level: ContrastLevel
    size_now_kib: float
    decided: LevelElsewhere | None = None

    @property
    def contradicts(self) -> bool:
        """Whether a load right after the step had less, or more, of both than what is taken for limits."""
        return self.level.follows and self.reason in ("less", "more")


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
    known = np.isfinite(served) & np.isfinite(mib_per_s) & np.isfinite(in_flight)
    busy = known & (np.nan_to_num(in_flight) >= limit.QUEUE_MIN)  # fio takes its time to end
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
    return ContrastLevel(
        iops=iops,
        mib_per_s=moved,
        in_flight=median_of_finite(in_flight[alike]),
        mix=mix_of(device, alike),
        window_s=sampled.contrast.window_s,
        follows=sampled.follows,
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
    """Return what contrasts say of two levels; None where none has the step's mix and operations of another size.

    Args:
        now: the levels of both, at one time and of one direction.
        device: the volume in the step.
        levels: of contrasts.
    """
    if len(now) < len(RESOURCES):
        return None
    first, last = max(level.first for level in now.values()), min(level.last for level in now.values())
    if first >= last:
        return None
    mix: Mix | Direction | None = now["iops"].direction or mix_of(device, slice(first, last))
    size_now_kib = now["throughput"].level * KIB_PER_MIB / now["iops"].level
    usable = [
        level
        for level in levels
        if mix is not None and level.mix == mix and _ratio(level.size_kib, size_now_kib) >= SIZES_APART
    ]
    if not usable:
        return None
    staying = [
        (resource, level)
        for level in usable
        for resource in RESOURCES
        if _ratio(level.of(resource), now[resource].level) <= SAME_RATE
    ]
    more = [level for level in usable if _gives_more(level, now)]
    less = [level for level in usable if _gives_less(level, now)]
    if more or len({resource for resource, _ in staying}) != 1:
        reason: Reason = "more" if more else "both" if staying else "less" if less else "neither"
        witnesses = (*more, *(level for _, level in staying), *less, *usable)
        return ContrastOutcome(reason=reason, level=witnesses[0], size_now_kib=size_now_kib)
    resource, level = staying[0]
    decided = LevelElsewhere(
        resource=resource,
        level=level.of(resource),
        window_s=level.window_s,
        size_kib=level.size_kib,
        size_now_kib=size_now_kib,
        is_contrast=True,
    )
    return ContrastOutcome(reason="decided", level=level, size_now_kib=size_now_kib, decided=decided)


def _gives_less(level: ContrastLevel, now: Mapping[Resource, Plateau]) -> bool:
    return all(level.of(resource) * SAME_RATE < now[resource].level for resource in RESOURCES)


def _gives_more(level: ContrastLevel, now: Mapping[Resource, Plateau]) -> bool:
    return all(level.of(resource) > now[resource].level * SAME_RATE for resource in RESOURCES)


def _sum_of(values: Floats) -> float:
    return float(np.nansum(values))


def _ratio(first: float, second: float) -> float:
    low, high = sorted((first, second))
    return high / low if low > 0 else np.inf
