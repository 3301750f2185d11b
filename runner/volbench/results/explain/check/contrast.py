"""What a load with operations of another size has against a limit: a volume that moved more has no limit there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from volbench.results.explain import thresholds as limit
from volbench.results.explain.evidence.device import RESOURCES, Device, Resource
from volbench.results.explain.evidence.levels_elsewhere import KIB_PER_MIB, SIZES_APART
from volbench.results.explain.evidence.limited_levels import QUEUE_TIMES
from volbench.results.explain.evidence.size_contrasts import ContrastLevel, mix_of
from volbench.results.explain.objection import Objection
from volbench.results.explain.wording import amount, number
from volbench.results.stats.grid import Mask, median

MOVED_ABOVE = 1.25
"""A load that is a quarter above a level for three intervals and more: what a meter saved up makes up for less."""


def contrast_objections(
    resource: Resource, level: float, device: Device, inside: Mask, loads: Sequence[ContrastLevel]
) -> Iterator[Objection]:
    """Yield what loads with operations of other sizes have against a limit.

    More of the other resource as well tells that the limit was a higher one by then, where the load came right
    after the step, or that there is none.

    Args:
        resource, level: what is said to be limited, and to how much, in operations or MiB a second.
        device: what has the limit, in the step.
        inside: the intervals of the finding, shape (buckets,).
        loads: levels of contrasts.
    """
    rates = _rates(device, inside)
    iops, mib_per_s = rates["iops"], rates["throughput"]
    if not iops or not mib_per_s:
        return
    second: Resource = "throughput" if resource == "iops" else "iops"
    mix, size_kib = mix_of(device, inside), mib_per_s * KIB_PER_MIB / iops
    for load in loads:
        low, high = sorted((load.size_kib, size_kib))
        if mix is None or load.mix != mix or high < SIZES_APART * low or load.of(resource) <= MOVED_ABOVE * level:
            continue
        both = load.of(second) > MOVED_ABOVE * (rates[second] or 0.0)
        if both and not load.follows:
            continue
        text = (
            f"{_when(load)} the volume gave {amount(load.of(resource), resource)} with operations of"
            f" {number(load.size_kib)} KiB, above the {amount(level, resource)} that the limit is said to be"
        )
        yield Objection(law="consistency", text=text, claimed=level, recorded=load.of(resource), refutes=not both)
        return


def latency_objections(device: Device, inside: Mask, loads: Sequence[ContrastLevel]) -> Iterator[Objection]:
    """Yield what smaller operations with a longer queue have against a volume that takes long for each.

    Each of them takes no longer by itself, so that as many times as many would pass as wait.

    Args:
        device: the volume in the step.
        inside: the intervals of the finding, shape (buckets,).
        loads: levels of contrasts.
    """
    queue, iops = _queue(device, inside), _rates(device, inside)["iops"]
    for load, slope in _slopes(device, inside, loads):
        if slope > limit.ELASTICITY_CAPPED:
            continue
        text = (
            f"{_when(load)} {number(load.in_flight)} operations of {number(load.size_kib)} KiB in flight gave"
            f" {amount(load.iops, 'iops')}, and {number(queue or 0.0)} in the step {amount(iops or 0.0, 'iops')}: a"
            " limit looks like that"
        )
        yield Objection(law="consistency", text=text, claimed=limit.ELASTICITY_FREE, recorded=slope, refutes=False)
        return


def grows_with_depth(device: Device, inside: Mask, loads: Sequence[ContrastLevel]) -> bool:
    """Whether smaller operations with a longer queue passed in proportion to it, as no limit lets them.

    Args:
        device: the volume in the step.
        inside: the intervals of the finding, shape (buckets,).
        loads: levels of contrasts.
    """
    return any(slope >= limit.ELASTICITY_FREE for _, slope in _slopes(device, inside, loads))


def _slopes(device: Device, inside: Mask, loads: Sequence[ContrastLevel]) -> Iterator[tuple[ContrastLevel, float]]:
    """Yield loads of smaller operations with a longer queue, each with the slope of log rate over log queue."""
    rates, queue = _rates(device, inside), _queue(device, inside)
    iops, mib_per_s, mix = rates["iops"], rates["throughput"], mix_of(device, inside)
    if not iops or not mib_per_s or not queue or mix is None:
        return
    for load in loads:
        is_smaller = load.size_kib * SIZES_APART <= mib_per_s * KIB_PER_MIB / iops
        if load.mix == mix and is_smaller and load.in_flight >= QUEUE_TIMES * queue:
            yield load, math.log(load.iops / iops) / math.log(load.in_flight / queue)


def _queue(device: Device, inside: Mask) -> float | None:
    return median(None if device.in_flight is None else device.in_flight[inside])


def _rates(device: Device, inside: Mask) -> dict[Resource, float | None]:
    return {
        resource: None if (values := device.carried(resource)) is None else median(values[inside])
        for resource in RESOURCES
    }


def _when(load: ContrastLevel) -> str:
    return "after the step" if load.follows else "after the last step of the volume's first cell"
