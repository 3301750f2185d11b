"""Rules that name what lies between the server and the device, and who else uses the device.

The layers are counted in `layers`: where a layer holds operations that the layer below it does not, the time is
lost between the two; where a layer has operations that no layer above it sent, somebody else sent them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from volbench.core.records.named_metrics import PerformanceSchema
from volbench.core.records.report import EvidenceRow
from volbench.core.records.steps import step_kind
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import VOLUME_CHANGES_LITTLE, Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.evidence.device import DIRECTIONS, Direction, Resource
from volbench.results.explain.evidence.held_above import held_above, is_held_above
from volbench.results.explain.evidence.layers import (
    cgroup_flow,
    configured_limits,
    device_flow,
    stretches,
)
from volbench.results.explain.evidence.limits import Plateau, limits_of, plateaus
from volbench.results.explain.evidence.processors import CELL, SERVER, task_use
from volbench.results.explain.evidence.stalls import without_stalls
from volbench.results.explain.rule import ABOVE, EXPLAINS_WAITS, Rule
from volbench.results.explain.rules.host.lost_time import LostTime, lost_of_streams, lost_reads, lost_syncs
from volbench.results.explain.rules.log_waits import hidden_write_share, log_elsewhere
from volbench.results.explain.rules.shared_evidence import (
    context,
    effect_rows,
    loss_rows,
    storage_is_negligible,
    without_stands,
)
from volbench.results.explain.topics import USE_OF_VOLUME, WAITS_OF_VOLUME
from volbench.results.explain.wording import amount, number, percent, row
from volbench.results.stats.grid import Floats, Mask, mean

_CHARGED_AT_ONCE = 1.6
"""Of a limit, what one interval may have; more is an interval that was partly without the limit."""
_SLICE = 0.1
"""Of a limit, what intervals of a few seconds may have beyond it: slices of 100 ms that they share with others."""
_MOST = 0.8
_NEAR = 0.6
"""Of a limit: operations that are charged at once leave intervals with less, and the mean is near it."""
_CLEAR_SLOWDOWN = 2.0
GAP_S = 5.0
"""A pause of what is met or active that does not end it."""
HOST_LIMIT, HOST_WAIT = "host.io_limit", "host.io_wait"
_LOOK_ABOVE = (
    "Look above the volume: limits of the server's control group (docker inspect: BlkioDevice*; systemctl show -p"
    " IOReadIOPSMax; io.max, blkio.throttle.* or io.cost.qos of the cgroup), the filesystem, the device's queue."
)
_ELSEWHERE = (
    "A sync waits for more than this volume: {reason}. Look at that device (iostat -x), then above the volume"
    " (limits of the server's control group, the device's queue)."
)
_RAISE = (
    "Raise this limit of the server's control group or one above it (docker run --device-{verb}-{unit},"
    " systemctl set-property IO{Verb}{Unit}Max=, io.max or blkio.throttle.{verb}_*)."
)

CAUSES = (
    CauseInfo(
        name="host.io_limit",
        group="the host or the instance",
        title="A limit above the volume throttles its operations",
        panels=("iops", "await"),
        accounts_for=USE_OF_VOLUME,
        explains_fall=True,
        moment="a limit above the volume is reached",
        meaning="A limit above the volume holds operations back: a control group, a queue of the host.",
        signs=(
            "The server's reads are metered at a plateau and take much longer in the server than at the device."
            " The device itself is fast."
        ),
        advice=(
            "Look for limits: `docker inspect` (`BlkioDevice*`), `systemctl show -p IOReadIOPSMax`, `io.max` or"
            " `blkio.throttle.*` of the pod's control group. A faster volume does not help."
        ),
        waits="slices",
    ),
    CauseInfo(
        name="host.io_wait",
        group="the host or the instance",
        title="Operations wait above the volume, on the host",
        panels=("await", "queue"),
        accounts_for=WAITS_OF_VOLUME,
        yields_to=frozenset({HOST_LIMIT}),
        effect_of=frozenset({HOST_LIMIT, "interference.io", "interference.backup"}),
        explains_fall=True,
        by_medians=True,
        meaning="Operations wait on the host, above the device, and no limit is visible.",
        signs=(
            "The same reads take longer in the server than at the device (Little's law, layer by layer). There"
            " is no plateau. Of a step of fio, at least half of its streams' time is neither at the device nor on"
            " a CPU nor waiting for one; where what passes is as even as a meter lets it, that is"
            " `host.io_limit`. Waits for CPUs do not hide it where in 30 % of the time a task of the host waits"
            " for I/O (PSI) and no disk is busy. Where others use the disk, or a task of the suite or a limit above"
            " the volume is named, it must show in the time without them: a sync waits for what others have in the"
            " journal."
        ),
        advice=(
            "Look at the file system, the device's queue and the host's CPU pressure. A faster volume does not"
            " help."
        ),
    ),
)


def host_findings(case: Case) -> list[Cause]:
    """Time lost above the device: a configured limit that is met, a meter without a name, else a wait."""
    if storage_is_negligible(case) or case.device is None:
        return []
    findings = []
    moving_grid = without_stalls(case.grid, case.storage_stalls)
    moving = case if moving_grid is case.grid else replace(case, grid=moving_grid)
    for direction in DIRECTIONS:
        finding = _configured(case, direction, _lost(case, direction))
        lost = _lost(moving, direction)
        if finding is None and lost is not None:
            finding = _unnamed(moving, lost)
        if finding is not None:
            findings.append(finding)
    return findings


def _configured(case: Case, direction: Direction, lost: LostTime | None) -> Cause | None:
    """A limit of the server's control group that its operations meet while they wait."""
    limits = configured_limits(case.grid, direction)
    flows = [cgroup_flow(case.grid, direction, case.device.entity if case.device is not None else "")]
    flows.append(device_flow(case.device, direction) if case.device is not None else None)
    for flow, (resource, maximum) in product([effect for effect in flows if effect is not None], limits.items()):
        carried = flow.rate if resource == "iops" else flow.mib_per_s
        if carried is None:
            continue
        for during in (limit_met(carried, maximum), _limited(case, carried, maximum, lost)):
            finding = _limit_of_group(case, direction, resource, during, carried, maximum)
            if finding is not None:
                return finding
    return None


def _limit_of_group(
    case: Case, direction: Direction, resource: Resource, during: Mask, carried: Floats, maximum: Floats
) -> Cause | None:
    """A configured limit in the intervals in which it acts; None where nobody waits for it then."""
    spans = stretches(during, gap=max(2, round(GAP_S / case.grid.width_s)), least=limit.LIMIT_MET_SAMPLES)
    if not spans:
        return None
    set_all_along, free = set_and_free(maximum, was_read=np.isfinite(carried))
    during = during | (set_all_along & (np.nan_to_num(carried) >= _NEAR * np.nan_to_num(maximum, nan=np.inf)))
    limited = case if during.all() else replace(case, grid=case.grid.where(during))
    lost = _lost(limited, direction)
    share = lost.share if lost is not None else _share_of(limited, direction)
    effects = [effect for effect in effect_rows(case, during, without=free) if effect.is_worse]
    at_it = np.abs(carried[during] / maximum[during] - 1) <= 1 - limit.LIMIT_MET
    if during.mean() > _MOST and at_it.mean() > _MOST and case.unseen_share is not None:
        share = max(share or 0.0, case.unseen_share)  # reads ahead of who waits for them have no instrument
    waits = share is not None and share >= limit.SHARE_MIN and bool(during.mean() > _MOST)
    if lost is None and not waits and not effects:  # a rate that happens to be near the limit harms nobody
        return None
    level, level_now = mean(maximum[during]) or 0.0, mean(carried[during]) or 0.0
    first, last = spans[0][0], spans[-1][1]
    text = (
        f"the server's control group may {direction} {amount(level, resource)} and did"
        f" {amount(level_now, resource)} in {percent(float(during.mean()))} of the time"
    )
    names = {"verb": direction, "Verb": direction.capitalize()}
    names |= {"unit": "iops", "Unit": "IOPS"} if resource == "iops" else {"unit": "bps", "Unit": "Bandwidth"}
    return Cause(
        cause=HOST_LIMIT,
        window_s=(float(case.grid.t_s[first]) - case.grid.width_s, float(case.grid.t_s[last - 1])),
        share=None if share is None else share * case.time_share_of(during),
        checks=(True, True, True if lost is not None or effects else None),
        evidence=(
            row(f"{direction}_{resource}", level, "1/s" if resource == "iops" else "MiB/s", text),
            *(() if lost is None else _layer_rows(lost)),
            *(effect.evidence for effect in effects),
            *loss_rows(effects),
            *context(case),
        ),
        advice=_RAISE.format(**names),
        volume_advice=VOLUME_CHANGES_LITTLE,
        decided_by="counted",
    )


def _limited(case: Case, carried: Floats, maximum: Floats, lost: LostTime | None) -> Mask:
    """Intervals with a limit whose rate is not even enough to meet it in each, shape (buckets,).

    A limit that comes and goes within seconds, or few long operations that are charged at once: it acts where the
    server was clearly slower while it was set, or where time is lost above the device, and what passed is near it.
    """
    finite = np.isfinite(carried) & np.isfinite(maximum)
    nothing = np.zeros(len(finite), dtype=np.bool_)
    limited_all_along = bool(
        (finite == np.isfinite(carried)).all()
    )  # an interval without samples is not without it
    if not finite.any() or float(np.median(np.minimum(carried[finite] / maximum[finite], 1.0))) < _NEAR:
        near = finite.any() and float(np.mean(carried[finite])) >= _NEAR * float(np.mean(maximum[finite]))
        if not near or float(np.mean(carried[finite])) > _CHARGED_AT_ONCE * float(np.mean(maximum[finite])):
            return nothing
    if limited_all_along:
        return finite if lost is not None else nothing
    set_all_along, free = set_and_free(maximum, was_read=np.isfinite(carried))
    slower = [effect.slowdown for effect in effect_rows(case, set_all_along, without=free) if effect.is_worse]
    return finite if slower and max(slower) >= _CLEAR_SLOWDOWN else nothing


def limit_met(carried: Floats, maximum: Floats) -> Mask:
    """Intervals in which a configured limit is met, shape (buckets,).

    Args:
        carried: what passed, a second; shape (buckets,).
        maximum: the limit, NaN where there is none.

    An interval by itself, or a running mean over LIMIT_MET_SAMPLES intervals with the limit, is within LIMIT_MET of
    it. A limit that is exceeded most of the time is none of what was counted: no interval with it counts.
    """
    finite = np.isfinite(carried) & np.isfinite(maximum)
    met = np.zeros(len(carried), dtype=np.bool_)
    for first, last in stretches(finite, gap=1, least=1):
        ratios = np.minimum(carried[first:last] / maximum[first:last], _CHARGED_AT_ONCE)
        met[first:last] = np.abs(ratios - 1) <= 1 - limit.LIMIT_MET
        beyond = 0
        for at in range(len(ratios) - limit.LIMIT_MET_SAMPLES + 1):
            share = float(ratios[at : at + limit.LIMIT_MET_SAMPLES].mean())
            if share > 2 - limit.LIMIT_MET + _SLICE:
                beyond += 1
            elif share >= limit.LIMIT_MET:
                met[first + at : first + at + limit.LIMIT_MET_SAMPLES] = True
        if beyond > (last - first) / 2:
            met[first:last] = False
    return met


def set_and_free(maximum: Floats, *, was_read: Mask | None = None) -> tuple[Mask, Mask | None]:
    """Intervals with a limit all along, and those wholly without it, shape (buckets,); None: there are none.

    Args:
        maximum: the limit as it was read at the end of each interval, NaN where there was none.
        was_read: intervals in which the group was read, shape (buckets,); None: all. One that was not is neither.

    What passes is counted over an interval, a limit is read at its ends. One that was there at one end only was set
    or taken away in between: that interval is partly both, and is compared with neither.
    """
    finite = np.isfinite(maximum)
    before = np.concatenate([finite[:1], finite[:-1]])
    free: Mask = ~finite & ~before
    if was_read is not None:
        free &= was_read
    return finite & before, free if free.any() else None


def _lost(case: Case, direction: Direction) -> LostTime | None:
    if not step_kind(case.kind).has_statements:
        return lost_of_streams(case, direction)
    return lost_reads(case) if direction == "read" else lost_syncs(case)


def _share_of(case: Case, direction: Direction) -> float | None:
    if case.budget is None:
        return None
    if direction == "read":
        return case.budget.share("data_reads")
    syncs = case.budget.share("redo_sync", "binlog_sync", "binlog_group", "doublewrite")
    return syncs + hidden_write_share(case)


def _unnamed(case: Case, lost: LostTime) -> Cause | None:
    """A meter that nothing names, where what passes it comes as regularly as only a meter lets it; else a wait."""
    limits = host_limits(case, lost)
    cpus_lack = case.cpu_bound or case.is_throttled or _cpus_had_as_much(case, lost)
    if not limits and cpus_lack and not _cpu_is_little(case, lost) and not is_held_above(case.grid):
        return None  # an operation that is done waits for a CPU, too
    if not limits and _lost_in_stands_only(case, lost.direction):
        return None
    rows = [*_layer_rows(lost)]
    checks: list[bool | None] = [True]
    window_s = case.window_s
    if limits:
        plateau = max(limits, key=lambda effect: effect.last - effect.first)
        rows.insert(0, _limit_row(lost, plateau, either=len({effect.resource for effect in limits}) > 1))
        rows += [row(check.name, check.value, "1", check.text) for check in plateau.checks if check.holds]
        checks += [check.holds for check in plateau.checks]
        window_s = plateau.window_s
    elif lost.direction == "write":
        checks.append(None)  # what a sync is made of is bounded, not counted
    elsewhere = log_elsewhere(case) if lost.direction == "write" else None
    return Cause(
        cause=HOST_LIMIT if limits else HOST_WAIT,
        window_s=window_s,
        share=lost.share,
        checks=tuple(checks),
        evidence=(*rows, *_held_rows(case), *context(case)),
        advice=_LOOK_ABOVE if elsewhere is None else _ELSEWHERE.format(reason=elsewhere),
        volume_advice=VOLUME_CHANGES_LITTLE if elsewhere is None else "",
        one_of_two=elsewhere is not None,
        decided_by="metered" if limits else "level",
    )


def _held_rows(case: Case) -> Iterator[EvidenceRow]:
    """That tasks wait for I/O while no disk has any, where they do so for much of the time."""
    share = held_above(case.grid)
    if share is not None and is_held_above(case.grid):
        text = f"in {percent(share)} of the time, at least, a task waits for I/O while no disk is busy (PSI)"
        yield row("held_above_ratio", share, "1", text)


def _lost_in_stands_only(case: Case, direction: Direction) -> bool:
    """Whether operations lose little time while clients go on: a server that is paused holds what is done, too."""
    moving = without_stands(case)
    return moving is not case and _lost(moving, direction) is None


def _cpus_had_as_much(case: Case, lost: LostTime) -> bool:
    """Whether the server's tasks waited for CPUs for as long as its operations are lost above the device.

    A quota lets tasks wait on idle CPUs, and is not always counted: these waits may be all that is lost.
    """
    use = task_use(case.grid, SERVER) or task_use(case.grid, CELL)
    waited_s = None if use is None else mean(use.delay)
    return waited_s is not None and waited_s >= lost.above_ms / 1000 * (mean(lost.upper.rate) or 0.0)


def _cpu_is_little(case: Case, lost: LostTime) -> bool:
    """Whether a part worth naming of the time lost above the device is no running and no waiting for a CPU.

    The cell's processes did both for a share `cpu_share_max` of statement time at most: the rest of what is lost,
    they were blocked.
    """
    return (
        case.cpu_share_max is not None
        and lost.share is not None
        and lost.share - case.cpu_share_max >= limit.SHARE_MIN
    )


def host_limits(case: Case, lost: LostTime) -> tuple[Plateau, ...]:
    """Levels of what passes from the server to the device that are limits, with the queue that waits above it.

    What passes is counted exactly at the device, or in the server's control group; who waits is counted by the
    server. A queue at the device itself would be the device's own.
    """
    device = case.device
    view = None if device is None else device.only(lost.direction)
    if view is None or lost.upper.in_flight is None:
        return ()
    waiting = lost.upper.in_flight
    groups = case.at(PerformanceSchema.wait_s_per_s, "binlog_group") if lost.direction == "write" else None
    if groups is not None:
        waiting = waiting + np.nan_to_num(groups)
    own = cgroup_flow(case.grid, lost.direction, view.entity)
    passed = replace(view, in_flight=waiting, await_ms=lost.upper.each_ms_series)
    if own is not None:
        passed = replace(passed, iops=own.rate, mib_per_s=own.mib_per_s, empty_writes=None)
    levels = plateaus(case.grid.t_s, passed, base_await_ms=lost.lower.each_ms, cpu_bound=case.cpu_bound)
    return tuple(replace(effect, direction=lost.direction) for effect in limits_of(levels, None))


def _limit_row(lost: LostTime, plateau: Plateau, *, either: bool) -> EvidenceRow:
    resource: Resource = plateau.resource
    size_kib = lost.lower.size_kib
    text = f"{lost.who}'s {lost.direction}s are limited to {amount(plateau.level, resource)}"
    if size_kib is not None and resource == "iops":
        text += f" ({number(plateau.level * size_kib / 1024)} MiB/s)"
    text += " above the device"
    if either and size_kib is not None:
        text += (
            f"; all are of one size ({number(size_kib)} KiB), so it may be a limit of operations or of bytes:"
            " io.max or blkio.throttle.* of the server's control group say which"
        )
    return row(f"{lost.direction}_{resource}", plateau.level, plateau.unit, text)


def _layer_rows(lost: LostTime) -> Iterator[EvidenceRow]:
    """The same operations at both layers."""
    sent, arrived = mean(lost.upper.rate) or 0.0, mean(lost.lower.rate) or 0.0
    device_text = "the device" if lost.direction == "read" else "the device, with all that a journal may add,"
    text = (
        f"a {lost.noun} takes {lost.who} {number(lost.each_ms)} ms and {device_text} {number(lost.below_ms)} ms, at"
        f" {number(sent)} a second in {lost.who} and {number(arrived)} {lost.direction}s at the device:"
        f" {number(lost.above_ms)} ms are lost above the device"
    )
    yield row("above_device_ms", lost.above_ms, "ms", text)
    queued, served = mean(lost.upper.in_flight) or 0.0, mean(lost.lower.in_flight) or 0.0
    text = f"{number(queued)} of them wait in {lost.who}, {number(served)} {lost.direction}s are at the device"
    yield row(f"{lost.direction}s_in_flight", queued, "1", text)


RULES = (
    Rule(
        name=ABOVE,
        causes=frozenset({HOST_LIMIT, HOST_WAIT}),
        subject="volume",
        find=host_findings,
        yields_to=EXPLAINS_WAITS,
    ),
)
