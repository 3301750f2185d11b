"""What the evidence of one step has against one finding of it.

Each function looks at one claim. It reads the step's series itself, not the evidence that the finding was made
from, and it compares with numbers whose reasons are beside them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from volbench.core.base.text import counted
from volbench.core.records.named_metrics import Client, PerformanceSchema, Tasks
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.check.contrast import contrast_objections, latency_objections
from volbench.results.explain.check.distance import distance_objections
from volbench.results.explain.check.distribution import distribution_of, slowest_of, stood_still_s
from volbench.results.explain.check.group_limit import group_objections
from volbench.results.explain.check.instance import instance_objections
from volbench.results.explain.check.limit_or_latency import undecided_limit
from volbench.results.explain.check.memory_waits import memory_objections
from volbench.results.explain.check.rebuild import (
    foreign_part,
    served_at_least,
    spread_of_logarithm,
    summed_ms,
    weighted_median,
)
from volbench.results.explain.check.together import recurring_stands
from volbench.results.explain.evidence.device import DIRECTIONS, RESOURCES, Device, Direction, Resource
from volbench.results.explain.evidence.disk_limits import device_of_disks, levels_of_disks
from volbench.results.explain.evidence.processors import CELL, SERVER, task_use
from volbench.results.explain.evidence.size_contrasts import levels_of
from volbench.results.explain.evidence.stands import LONG_MS
from volbench.results.explain.evidence.waited_direction import busy_share_max
from volbench.results.explain.objection import Claim, Objection
from volbench.results.explain.wording import amount, number, percent
from volbench.results.stats.grid import Floats, Mask, mean, median

SERVED_ABOVE = 1.25
SERVED_SAMPLES, SERVED_S = 3, 2.0
"""A level that was exceeded by a quarter for three intervals in a row and two seconds is no limit: one interval may
hold what the one before it had queued, and what lies side by side counts as fewer operations than it makes (EBS
merges up to 256 KiB): a volume of 192 took 633 small writes a second for 0.2 s."""
ENOUGH_FOREIGN = 1 / 3
"""Of the lost share of speed, what others need of the device at least: one large or slow operation may cost three
small ones of the server."""
FOREIGN_BYTES_MIN = 0.05
"""Of the device's bytes: below it operations alone show others, and splitting and merging make as many."""
HOLDS_TIMES = 1.5
"""A share of time that is claimed, against the most that is possible by Little's law."""
SAME_RATE = 0.95
SAME_LATENCY = 1.10
"""Clients that get this part of their rate, with no more than this latency, do not suffer."""
OWN_CPU_PART = 0.5
"""Of the time that is put down to CPUs: what the server's own tasks ran and waited for a CPU at least."""
EVEN_RATE = 0.4
WAITS_SPREAD_MIN = 0.10
"""A rate whose spread is less than this part of that of the waiting time, where that varies, is what is fixed: the
queue varies then, too (Little)."""
QUEUE_SPREAD_MIN = 0.10
"""Below it the queue is the same all along, and what is fixed, rate or time, cannot be told."""


@dataclass(frozen=True, kw_only=True)
class _Named:
    """A finding with its step, and the intervals that it speaks of, shape (buckets,)."""

    case: Case
    cause: Cause
    inside: Mask

    def value(self, metric: str) -> float | None:
        """A number of the finding's evidence."""
        values = (row.value for row in self.cause.evidence if row.metric == metric)
        return next((float(value) for value in values if isinstance(value, int | float)), None)

    @property
    def within(self) -> Mask:
        """Its intervals without those at its edges, which lie partly before or after it, or the load."""
        is_enclosed = np.ones(len(self.inside), dtype=np.bool_)
        is_enclosed[:1] = is_enclosed[-1:] = False
        is_enclosed[1:] &= self.inside[:-1]
        is_enclosed[:-1] &= self.inside[1:]
        return self.inside & is_enclosed

    @property
    def is_bounded(self) -> bool:
        """Whether enough of the step lies outside of the finding's time to compare with."""
        return min(int(self.inside.sum()), int((~self.inside).sum())) >= limit.FOREIGN_SAMPLES


def objections(case: Case, cause: Cause, claims: frozenset[Claim]) -> tuple[Objection, ...]:
    """All that speaks against a finding.

    Args:
        case: the step.
        cause: the finding.
        claims: what it claims, see `CauseInfo.claims`.
    """
    middle = case.grid.t_s - case.grid.width_s / 2
    named = _Named(case=case, cause=cause, inside=(middle > cause.window_s[0]) & (middle <= cause.window_s[1]))
    return tuple(objection for claim in sorted(claims) for objection in _LOOKS[claim](named))


def _limit(named: _Named) -> Iterator[Objection]:
    """A limit does not lie below what was served while it is said to act."""
    for resource, level, values in _claimed(named):
        samples = _samples(named.case)
        most = served_at_least(values, named.within, samples)
        if most is not None and most > SERVED_ABOVE * level:
            text = (
                f"the same seconds show {amount(most, resource)} served for"
                f" {counted(samples, 'interval')} in a row, above the {amount(level, resource)} that the limit is"
                " said to be"
            )
            yield Objection(law="consistency", text=text, claimed=level, recorded=most)
            return
    yield from _contrast(named)
    yield from group_objections(named.case, named.cause, named.inside)


def _contrast(named: _Named) -> Iterator[Objection]:
    """Loads with operations of another size moved no more; a finding that is one of two says itself if they did."""
    case, device = named.case, named.case.device
    if named.cause.one_of_two or named.cause.decided_by == "counted" or not case.size_contrasts:
        return
    for resource in RESOURCES:
        level, of_disks = named.value(resource), named.value(f"disk_{resource}")
        if level is not None and device is not None:
            loads = [*levels_of(case.size_contrasts)]
            yield from contrast_objections(resource, level, device, named.inside, loads)
        below = next((item for item in case.disk_limits if item.plateau.resource == resource), None)
        disks = None if below is None else device_of_disks(case.grid, below.disks)
        if of_disks is not None and below is not None and disks is not None:
            loads = [*levels_of_disks(case.size_contrasts, below.disks)]
            yield from contrast_objections(resource, of_disks, disks, named.inside, loads)


def _claimed(named: _Named) -> Iterator[tuple[Resource, float, Floats]]:
    """Yield each level that a finding states, and what was served of it: by the device, or by disks below it."""
    for resource in RESOURCES:
        level, of_disks = named.value(resource), named.value(f"disk_{resource}")
        values = _carried(named, resource, level)
        if level is not None and values is not None:
            yield resource, level, values
        below = next((item for item in named.case.disk_limits if item.plateau.resource == resource), None)
        if of_disks is not None and below is not None:
            yield resource, of_disks, below.carried


def _samples(case: Case) -> int:
    return max(SERVED_SAMPLES, math.ceil(SERVED_S / case.grid.width_s - 1e-6))


def most_served(case: Case) -> dict[Resource, float]:
    """The most that the volume gave over some intervals in a row and SERVED_S, by resource that is known."""
    everything = np.ones(len(case.grid), dtype=np.bool_)
    columns = {} if case.device is None else {resource: case.device.carried(resource) for resource in RESOURCES}
    return {
        resource: most
        for resource, values in columns.items()
        if values is not None and (most := served_at_least(values, everything, _samples(case))) is not None
    }


def _carried(named: _Named, resource: Resource, level: float | None) -> Floats | None:
    """What the claimed limit is about: both directions together, or the one that its level is of."""
    device = named.case.device
    if device is None or level is None:
        return None
    levels = (*named.case.limits, *named.case.likely_limits)
    direction = next((item.direction for item in levels if item.resource == resource and item.level == level), None)
    if direction is not None:
        view = device.only(direction)
        return None if view is None else view.carried(resource)
    return device.carried(resource)


def _latency(named: _Named) -> Iterator[Objection]:
    """A slow volume gives more with a longer queue; what gives as much whatever waits has a limit."""
    device = named.case.waited_device
    inside = named.within
    if device is None or device.await_ms is None or device.in_flight is None or int(inside.sum()) < 3:
        return
    rate, waits, queue = (
        spread_of_logarithm(values[inside]) for values in (device.iops, device.await_ms, device.in_flight)
    )
    begins = named.cause.decided_by == "before and after" and named.is_bounded
    if not begins and named.case.device is not None:
        yield from latency_objections(named.case.device, inside, [*levels_of(named.case.size_contrasts)])
    level, direction = _held_level(named, device)
    limit_of = f"a limit of {number(median(device.iops[inside]) or 0.0 if level is None else level)}/s"
    if begins and queue < QUEUE_SPREAD_MIN and not named.case.exceeded.is_counted:
        claimed, recorded = QUEUE_SPREAD_MIN, queue
        text = (
            f"{number(median(device.in_flight[inside]) or 0)} operations are in flight all along, and nothing"
            f" counts the volume's limits: {limit_of} that began then looks the same"
        )
    elif waits >= WAITS_SPREAD_MIN and rate < EVEN_RATE * waits and not _flushes_pace(named.case):
        claimed, recorded = waits, rate
        text = (
            f"the rate varies by {percent(rate)} while the queue varies by {percent(queue)} and the waiting time by"
            f" {percent(waits)}: {limit_of} looks like that"
        )
    else:
        return
    comes_and_goes = ", one that comes and goes" if level is None else ""
    yield Objection(
        law="consistency",
        text=text + comes_and_goes,
        claimed=claimed,
        recorded=recorded,
        refutes=False,
        suggests="limit that began" if begins else "limit",
        level=level,
        direction=direction,
    )


def _no_limit(named: _Named) -> Iterator[Objection]:
    """A latency that is there all along is told from a limit, or it is not sure."""
    if named.cause.one_of_two or any(objection.suggests for objection in _latency(named)):
        return
    objection = undecided_limit(named.case, named.within)
    if objection is not None:
        yield objection


def _flushes_pace(case: Case) -> bool:
    """Whether writes come as evenly as flushes end, one of which is under way nearly all the time."""
    return case.flushes_all_along and case.waited_direction != "read"


def _held_level(named: _Named, device: Device) -> tuple[float | None, Direction | None]:
    """Return operations a second that were given while operations waited, and of which; None: more were at times.

    They are all, or those of the direction that waits more where that alone is held: what the other one gets may be
    read from a cache. Each interval counts with its queue.
    """
    one_way = {direction: view for direction in DIRECTIONS if (view := device.only(direction)) is not None}
    waiting = sorted(one_way, key=lambda direction: _queue(one_way[direction], named.within), reverse=True)[:1]
    views: dict[Direction | None, Device] = {
        None: device,
        **{direction: one_way[direction] for direction in waiting},
    }
    for direction, view in views.items():
        if view.in_flight is None:
            continue
        level = weighted_median(view.iops[named.within], view.in_flight[named.within])
        most = served_at_least(view.iops, named.within, _samples(named.case))
        if level and (most is None or most <= SERVED_ABOVE * level):
            return level, direction
    return None, None


def _queue(device: Device, inside: Mask) -> float:
    return 0.0 if device.in_flight is None else float(np.nansum(device.in_flight[inside]))


def _at_device(named: _Named) -> Iterator[Objection]:
    """Clients wait for a device only while an operation is in flight there (Little, Markov): U x N of S seconds."""
    case, share = named.case, named.cause.share
    busy = busy_share_max(case.device, case.waited_device)
    statements = None if case.budget is None else mean(case.budget.statement_s)
    if busy is None or share is None or not statements or not case.threads:
        return
    sessions = max(case.threads, statements)  # others than the load's may be at work as well
    most = min(1.0, busy * sessions / statements)
    if share > HOLDS_TIMES * most and share - most >= limit.SHARE_MIN:
        text = (
            f"an operation is in flight at the device for {percent(min(1.0, busy))} of the time, so that at"
            f" most {percent(most)} of statement time can be waits for it, and not {percent(share)}"
        )
        yield Objection(law="sufficiency", text=text, claimed=share, recorded=most)


def _foreign(named: _Named) -> Iterator[Objection]:
    """Others' I/O that took a share of the speed did a share of what the device did, in bytes or operations."""
    flow, device = named.case.foreign, named.case.device
    if flow is None or device is None:
        return
    operations = foreign_part(flow.operations, np.nan_to_num(device.iops) + flow.discards, named.inside)
    moved = None if device.mib_per_s is None else foreign_part(flow.mib_per_s, device.mib_per_s, named.inside)
    discards = foreign_part(flow.discards, np.nan_to_num(device.iops) + flow.discards, named.inside) or 0.0
    if moved is not None and max(moved, discards) < FOREIGN_BYTES_MIN:
        text = (
            f"cumulated over that time the server accounts for {percent(1 - moved)} of the device's bytes: only"
            " their number of operations differs, as splitting and merging make it"
        )
        yield Objection(law="conservation", text=text, claimed=operations or 0.0, recorded=moved)
        return
    most, loss = max(operations or 0.0, moved or 0.0), named.value("loss")
    if loss is not None and most < ENOUGH_FOREIGN * loss:
        text = (
            f"others did {percent(most)} of what the device did then, which is too little to take {percent(loss)}"
            " of the speed"
        )
        yield Objection(law="sufficiency", text=text, claimed=loss, recorded=most)


def _short(named: _Named) -> Iterator[Objection]:
    """Operations that are said to be short are short in the sum over all of them, not in the median of seconds."""
    device = named.case.device
    each_ms = None if device is None else summed_ms(device.reads, device.r_await_ms)
    if each_ms is not None and each_ms >= limit.READ_SLOW_MS:
        text = (
            f"over all reads together a read took {number(each_ms)} ms, and not the"
            f" {number(median(None if device is None else device.r_await_ms) or 0)} ms of its median second"
        )
        yield Objection(law="conservation", text=text, claimed=limit.READ_SLOW_MS, recorded=each_ms)
    yield from _above_device(named, each_ms)
    yield from _together(named)
    yield from _tail(named, "the reads that are said to be short")


def _above_device(named: _Named, device_ms: float | None) -> Iterator[Objection]:
    """Reads that take long for the server and short at the device wait between both, unless it is for a CPU."""
    grid = named.case.grid
    read_s, rate = (
        grid.column(*metric, "data")
        for metric in (PerformanceSchema.file_read_s_per_s, PerformanceSchema.file_reads_per_s)
    )
    total = 0.0 if rate is None else float(np.nansum(rate))
    if read_s is None or total <= 0 or device_ms is None:
        return
    server_ms = 1000 * float(np.nansum(read_s)) / total
    delay = grid.column(*Tasks.run_delay_s_per_s, CELL)
    above = float(np.nansum(read_s)) * (1 - device_ms / server_ms) if server_ms > 0 else 0.0
    for_cpus = delay is not None and float(np.nansum(delay)) >= above / 2
    if server_ms >= max(limit.READ_SLOW_MS, 2 * device_ms) and not for_cpus:
        text = (
            f"a read of a file took the server {number(server_ms)} ms, of which the device had {number(device_ms)}:"
            " the rest is a wait between both, which no pool explains"
        )
        yield Objection(law="conservation", text=text, claimed=device_ms, recorded=server_ms)


def _own_cpu(named: _Named) -> Iterator[Objection]:
    """Who lacks CPUs uses them or waits for them."""
    case = named.case
    use = task_use(case.grid, SERVER) or task_use(case.grid, CELL)
    sessions = case.threads if case.budget is None else mean(case.budget.statement_s)
    if case.is_throttled or not sessions:
        return
    yield from memory_objections(case, named.inside)
    if use is None:
        text = "how much CPU the server itself used is not recorded"
        yield Objection(law="sufficiency", text=text, claimed=1.0, recorded=0.0, refutes=False)
        return
    used, waited = mean(use.used) or 0.0, mean(use.delay) or 0.0
    needed = OWN_CPU_PART * (named.cause.share or limit.CPU_SHARE_MIN) * sessions
    if used + waited < needed:
        text = (
            f"the server used {number(used)} CPUs and waited for {number(waited)} more, of {number(sessions)}"
            " sessions that are said to wait for CPUs"
        )
        yield Objection(law="sufficiency", text=text, claimed=needed, recorded=used + waited)


def _innocent(named: _Named) -> Iterator[Objection]:
    """Nothing is acquitted beside time that stands still, or a tail that no accounted piece has."""
    still_s = stood_still_s(named.case)
    if still_s > 0:
        text = f"for {number(still_s)} s no transaction ended, and no accounted piece is as long"
        yield Objection(law="acquittal", text=text, claimed=0.0, recorded=still_s)
    yield from _slowest(named)
    yield from _together(named)
    yield from _tail(named, "the accounted pieces")


def _slowest(named: _Named) -> Iterator[Objection]:
    """A slowest transaction of half a second and more that no accounted piece has, and that files had time for."""
    slowest, share, budget = slowest_of(named.case), named.value("storage_share"), named.case.budget
    if slowest is None or not slowest.is_beyond or slowest.recorded_ms < LONG_MS:
        return
    beyond_s = (slowest.recorded_ms - slowest.rebuilt_ms) / 1000
    if share is not None and budget is not None:
        in_files_s = share * float(np.nansum(budget.statement_s)) * named.case.grid.width_s
        if in_files_s < beyond_s:
            return
    text = (
        f"the slowest transaction took {number(slowest.recorded_ms)} ms, and the accounted pieces rebuild"
        f" {number(slowest.rebuilt_ms)} ms for the slowest of as many: something stood still"
    )
    yield Objection(law="acquittal", text=text, claimed=slowest.rebuilt_ms, recorded=slowest.recorded_ms)


def _together(named: _Named) -> Iterator[Objection]:
    """Clients that stand together again and again are no many short waits, and nothing innocent."""
    stands = recurring_stands(named.case)
    if stands is not None:
        text = (
            f"p95 and p99 of nearly every interval are {number(stands.length_ms)} ms beyond its median: all clients"
            f" stand together in {percent(stands.share)} of their time, and no accounted piece is as long"
        )
        yield Objection(law="acquittal", text=text, claimed=0.0, recorded=stands.share)


def _tail(named: _Named, of_what: str) -> Iterator[Objection]:
    """A tail that is many times what the claimed pieces rebuild has another cause."""
    for level in (0.99, 0.95):
        tail = distribution_of(named.case, None, level)
        if tail is not None and tail.is_beyond:
            text = (
                f"p{100 * level:.0f} is {number(tail.recorded_ms)} ms, and {of_what} rebuild"
                f" {number(tail.rebuilt_ms)} ms: something rare and long is not among them"
            )
            yield Objection(law="acquittal", text=text, claimed=tail.rebuilt_ms, recorded=tail.recorded_ms)
            return


def _episode(named: _Named) -> Iterator[Objection]:
    """What clients had before and after as well is no effect of what was there in between."""
    case, inside = named.case, named.inside
    tps, p95 = case.at(Client.tps), case.at(Client.latency_ms_p95)
    if tps is None or not named.is_bounded or named.cause.decided_by == "counted":
        return
    rate, usual = median(tps[inside]), median(tps[~inside])
    late, early = (None if p95 is None else median(p95[mask]) for mask in (inside, ~inside))
    if rate is None or not usual or late is None or not early or (mean(tps[inside]) or 0) < SAME_RATE * usual:
        return
    if rate >= SAME_RATE * usual and late <= SAME_LATENCY * early:
        text = (
            f"clients got {number(rate)} transactions a second at {number(late)} ms p95 meanwhile, and"
            f" {number(usual)} at {number(early)} ms before and after"
        )
        yield Objection(law="time", text=text, claimed=usual, recorded=rate)


_LOOKS: Mapping[Claim, Callable[[_Named], Iterator[Objection]]] = {
    "limit": _limit,
    "latency": _latency,
    "no limit": _no_limit,
    "at the device": _at_device,
    "foreign": _foreign,
    "short operations": _short,
    "own CPU": _own_cpu,
    "distance": lambda named: distance_objections(named.case, named.cause, named.inside),
    "innocent": _innocent,
    "episode": _episode,
    "instance": lambda named: instance_objections(named.case, named.cause),
}
