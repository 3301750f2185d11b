"""Levels of a volume at other times of the cell, with operations of another size.

Operations of one size are flat in operations and in bytes, whichever is limited. At another time of the same cell
the load may send other sizes, or sizes that vary: the level that is the same then is the limit, and the other one
changes with the size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from volbench.results.explain.evidence.device import Device, Resource
from volbench.results.explain.evidence.limits import Plateau, base_await_ms, plateaus
from volbench.results.stats.grid import Floats, median

SAME_LEVEL = 1.02
"""What counts as one level at two times: a meter's rate over five seconds and more is known to an operation or two
of a hundred."""
SIZES_APART = 1.3
"""Sizes of operations, between which a limit of the one cannot be taken for one of the other."""
KIB_PER_MIB = 1024.0


@dataclass(frozen=True, kw_only=True)
class LevelElsewhere:
    """A level of `resource` at another time, and typical sizes of operations then and now, in KiB.

    `sizes_vary`: they did so then, so that the other resource was not flat. `is_contrast`: it was a contrast of
    sizes, see `size_contrasts`, and may be one of another cell.
    """

    resource: Resource
    level: float
    window_s: tuple[float, float]
    size_kib: float
    size_now_kib: float
    sizes_vary: bool = False
    is_contrast: bool = False


def level_elsewhere(
    now: Mapping[Resource, Plateau], t_s: Floats, device: Device, *, counts_flushes: bool = False
) -> LevelElsewhere | None:
    """Return the level that decides between operations and bytes; None where none does, or they contradict.

    Args:
        now: the levels of both, at one time.
        t_s: ends of the buckets of all of the cell, shape (buckets,).
        device: what is limited, over all of the cell.
        counts_flushes: what is counted beside operations with data is known; else levels with much of it are not.
    """
    if len(now) < 2 or device.mib_per_s is None:
        return None
    if max(plateau.first for plateau in now.values()) >= min(plateau.last for plateau in now.values()):
        return None
    size_now_kib = now["throughput"].level * KIB_PER_MIB / now["iops"].level
    begin_s = min(plateau.window_s[0] for plateau in now.values())
    end_s = max(plateau.window_s[1] for plateau in now.values())
    at_level = (t_s > begin_s) & (t_s <= end_s)
    apart = replace(
        device, iops=np.where(at_level, np.nan, device.iops), mib_per_s=np.where(at_level, np.nan, device.mib_per_s)
    )
    levels = plateaus(t_s, apart, base_await_ms=base_await_ms(device))
    agreeing = []
    for level in levels:
        size_kib = _size_kib(apart, level)
        if not level.is_limit or size_kib is None or (level.supposed and not counts_flushes):
            continue
        alike = ratio_between(level.level, now[level.resource].level) <= SAME_LEVEL
        if alike and (_is_alone(level, levels) or ratio_between(size_kib, size_now_kib) >= SIZES_APART):
            agreeing.append(
                LevelElsewhere(
                    resource=level.resource,
                    level=level.level,
                    window_s=level.window_s,
                    size_kib=size_kib,
                    size_now_kib=size_now_kib,
                    sizes_vary=_is_alone(level, levels),
                )
            )
    return agreeing[0] if len({level.resource for level in agreeing}) == 1 else None


def _is_alone(level: Plateau, levels: Sequence[Plateau]) -> bool:
    """Whether the other resource is not flat then: sizes vary from interval to interval, and this stays."""
    return all(
        rival.resource == level.resource or rival.first >= level.last or level.first >= rival.last
        for rival in levels
    )


def _size_kib(device: Device, plateau: Plateau) -> float | None:
    inside = slice(plateau.first, plateau.last)
    moved = None if device.mib_per_s is None else median(device.mib_per_s[inside])
    operations = median(device.served[inside])
    return None if not moved or not operations else moved * KIB_PER_MIB / operations


def ratio_between(first: float, second: float) -> float:
    """Return the larger over the smaller of two levels; infinite over 0."""
    low, high = sorted((first, second))
    return high / low if low > 0 else np.inf
