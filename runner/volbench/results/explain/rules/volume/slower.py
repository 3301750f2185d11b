"""A volume that got slower by itself: from some time on each operation takes longer, and it does no more work.

By Little's law N = X * W at the device. A longer time W with more operations X is a heavier load; with as many or
fewer, the volume serves each of them more slowly, whatever the number N in a closed loop becomes then. An exhausted
burst and a limit that begins look alike at first: what tells them apart is a meter's regularity, and what a longer
queue brings afterwards, nothing at a limit and as much more where latency alone rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from volbench.core.records.named_metrics import CPU
from volbench.core.records.steps import step_kind
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.evidence.device import Device
from volbench.results.explain.evidence.episodes import RISE_MIN
from volbench.results.explain.evidence.plateau_checks import dispersion, elasticity
from volbench.results.explain.rule import EXPLAINS_WAITS, LIMITS, OUTSIDE, SLOWER, Rule
from volbench.results.explain.rules.shared_evidence import (
    context,
    effect_rows,
    loss_rows,
    volume_share_max,
    waited_operation,
)
from volbench.results.explain.rules.volume.slowdowns import Slowdown, slowdowns
from volbench.results.explain.topics import WAITS_OF_VOLUME
from volbench.results.explain.wording import clock, number, row
from volbench.results.stats.grid import Floats, Mask, mean, median

WORK_RISE_MAX = 1.1
"""Rise of operations or bytes while they take longer, up to which the load is no heavier."""
SIZE_RISE_MAX = 1.3
QUEUE_FALL_MAX = 0.8
"""Of the operations in flight before: with fewer the device is not what got slower."""
CPU_RISE_MAX = 0.15
"""Rise of the CPUs' use to saturation while operations take longer: then they may be what is slow."""

CAUSES = (
    CauseInfo(
        name="storage.degraded",
        claims=frozenset({"latency", "at the device", "episode"}),
        contradicts=frozenset({"storage.iops_limit", "storage.throughput_limit"}),
        group="the volume is slow",
        title="The volume became slower",
        panels=("await", "iops"),
        accounts_for=WAITS_OF_VOLUME,
        explains_fall=True,
        is_change=True,
        moment="the volume becomes slower",
        meaning="The volume itself became slower; the load did not become heavier.",
        signs=(
            "From one moment on, each operation takes at least 5 times as long, without a longer queue and without"
            " a limit that is reached; 1.5 times is enough where the load or the server's own reads and syncs"
            " became clearly worse at that time or, in recordings without them, where at least 2 operations are in"
            " flight and the device completes at least 10 % fewer. Or the volume is busy and slow (50 ms and more)"
            " at a rate that is below every known limit (75 IOPS and 8 MiB/s), and nothing shows a limit there,"
            " such as a rate as even as a meter's: control groups and hypervisors set lower ones; not where others"
            " have half of what it, or the disks below it, do. Of a server that waits for reads alone, or for"
            " writes alone, by nine tenths of its waits for files, the time of these operations counts."
            " A volume explains at most the share of statement"
            " time in which one of its operations was in flight: where that is under 15 %, neither"
            " this nor a limit is named; recordings without statement times have the share of time in which the"
            " device is busy in its place. On saturated CPUs, a rise no greater than the increase in a task's wait"
            " for a CPU is not the volume's: operations are completed by tasks and interrupts of this host."
        ),
        advice=(
            "Look at the storage's own history: volume status, credit balance, provider events, snapshots,"
            " neighbours. More provisioned IOPS do not help."
        ),
    ),
)


def slower_findings(case: Case) -> Iterator[Cause]:
    """One finding for the largest rise of the waiting time that no limit and no heavier load explains."""
    device = case.device
    if device is None or device.await_ms is None or device.in_flight is None or step_kind(case.kind).queue_swept:
        return  # in a sweep, waiting times rise with the queue by design
    for slowdown in sorted(slowdowns(case, device), key=lambda candidate: -candidate.ratio):
        finding = _finding(case, device, slowdown)
        if finding is not None:
            yield from (
                finding,
                *((_perhaps_limited(case, device, slowdown, finding),) if finding.one_of_two else ()),
            )
            return


def _finding(case: Case, device: Device, slowdown: Slowdown) -> Cause | None:
    during = slowdown.during
    if _heavier(device, during) or _cpus_filled(case, during) or _queue_fell(case, during):
        return None
    if _waits_for_cpus(case, device, slowdown):
        return None
    spreads = [_spread(rates, during, case.grid.width_s) for rates in (device.reads, device.writes)]
    finite = [spread for spread in spreads if spread is not None]
    if any(spread <= limit.REGULARITY_CAPPED for spread in finite):
        return None
    slope = _slope(case, during)
    silent = _silent(case, during)
    unmetered = _unmetered(device, during, case.grid.width_s)
    free = _free(slope)
    if free is False and (silent or unmetered):
        free = None  # a queue that hardly varies has no slope to speak of
    if free is False or silent is False:
        return None
    share, share_max = _share(case, slowdown)
    effects = [*effect_rows(case, during)]
    harmed = any(candidate.is_worse for candidate in effects)
    counts = harmed if effects else _counts_unwitnessed(device, slowdown)
    if share_max < limit.SHARE_MIN or not counts:
        return None
    alike = _both_rose(device.r_await_ms, device.w_await_ms, during)
    decided = bool(free or silent or unmetered)
    even = any(spread <= limit.EVENNESS_CAPPED for spread in finite)
    doubtful = not decided or (even and not silent)
    rates = median(device.iops[~during]) or 0.0, median(device.iops[during]) or 0.0
    queued = np.asarray((case.waited_device or device).in_flight)
    queues = median(queued[~during]) or 0.0, median(queued[during]) or 0.0
    rate_text = (
        f"it does {number(rates[1])} operations a second, and did {number(rates[0])} before:"
        f" {'no limit is reached' if decided else 'whether a limit began is not known'}"
    )
    time_share = case.time_share_of(during)
    return Cause(
        cause="storage.degraded",
        decided_by="before and after",
        window_s=case.grid.window_of(during),
        share=None if share is None else share * time_share,
        checks=(
            True,
            free,
            silent,
            unmetered,
            alike or None,
            harmed or None,
        ),
        one_of_two=doubtful,
        evidence=(
            row("await_ms", slowdown.during_ms, "ms", _text(case, slowdown, queues)),
            row("iops", rates[1], "1/s", rate_text),
            *(candidate.evidence for candidate in effects if candidate.is_worse),
            *loss_rows(effects),
            *(() if decided else (row("decide", None, "1", _DECIDE),)),
            *context(case),
        ),
        advice=f"{_what_changed(clock(slowdown.change.t0_s, case.clock_zero_s), doubtful=doubtful)}, not this load"
        " heavier: look at the storage's own history and at its other users.",
    )


def _what_changed(when: str, *, doubtful: bool) -> str:
    if doubtful:
        return f"Either the volume itself got slower or a limit began at {when}"
    return f"The volume itself got slower at {when}"


def _perhaps_limited(case: Case, device: Device, slowdown: Slowdown, finding: Cause) -> Cause:
    """The other of two causes that look alike: a limit that began."""
    level = median(device.served[slowdown.during]) or 0.0
    when = clock(slowdown.change.t0_s, case.clock_zero_s)
    text = f"from {when} on it gives {number(level)} operations a second: a limit that began would look alike"
    return replace(
        finding,
        cause="storage.iops_limit",
        checks=(True, None),
        evidence=(row("iops", level, "1/s", text), *finding.evidence),
        advice="Look for a limit that began then (provisioned IOPS or bytes, a host's or a hypervisor's throttle).",
    )


_DECIDE = (
    "this decides: the volume's own counters of its limits (CloudWatch VolumeIOPSExceededCheck, nvme log of the"
    " volume), or the same step with half the threads; a limit keeps its rate, a slow volume halves it"
)


def _text(case: Case, slowdown: Slowdown, queues: tuple[float, float]) -> str:
    change, (before, now) = slowdown.change, (number(slowdown.before_ms), number(slowdown.during_ms))
    start, end = (clock(t_s, case.clock_zero_s) for t_s in (change.t0_s, change.t1_s))
    when = {
        "step": f"from {start} on",
        "ramp": f"after a rise from {start} to {end}",
        "episode": f"from {start} to {end}",
        "periodic": f"from {start} on, each {number(change.period_s or 0.0)} s again,",
    }[change.shape]
    return (
        f"{when} {waited_operation(case)} takes {now} ms, else {before} ms"
        f" ({number(slowdown.ratio)} times as long), with {number(queues[1])} in flight, else {number(queues[0])}"
    )


def _heavier(device: Device, during: Mask) -> bool:
    """Whether the volume does more than before: more operations of a direction, more bytes, or larger ones."""
    for values in (device.iops, device.reads, device.writes, device.mib_per_s):
        before, now = (None, None) if values is None else (median(values[~during]), median(values[during]))
        least = 0.0 if values is device.mib_per_s else 1.0
        if before is not None and now is not None and now > WORK_RISE_MAX * max(before, least):
            return True
    if device.mib_per_s is None:
        return False
    sizes = [
        float(np.nansum(device.mib_per_s[mask])) / max(float(np.nansum(device.iops[mask])), 1e-9)
        for mask in (~during, during)
    ]
    return sizes[0] > 0 and sizes[1] > SIZE_RISE_MAX * sizes[0]


def _queue_fell(case: Case, during: Mask) -> bool:
    """Whether clearly fewer operations that sessions wait for are in flight at the device than before.

    In a closed network a station that gets slower has more of the clients, whatever the others do (mean value
    analysis), and at a constant rate X the number X * W rises with W. Fewer mean that the time is spent elsewhere.
    """
    queue = None if case.waited_device is None else case.waited_device.in_flight
    before, now = (_mean_of(queue, mask) or 0.0 for mask in (~during, during))
    return now < QUEUE_FALL_MAX * before


def _counts_unwitnessed(device: Device, slowdown: Slowdown) -> bool:
    """Whether a rise is a slower volume where neither the server nor a client says that it became slower.

    An almost idle device takes a little longer and shorter by chance, and nobody waits for it. A closed loop keeps
    its queue: a device that has one, and ends fewer operations while each takes longer, is what it waits for.
    """
    during = slowdown.during
    if _hardly_busy(device, during):
        return False
    sides = (~during, during)
    before, now = (_mean_of(device.iops, mask) or 0.0 for mask in sides)
    queue = min(_mean_of(device.in_flight, mask) or 0.0 for mask in sides)
    closed_loop = queue >= limit.QUEUE_MIN and now <= (1 - limit.INTERFERENCE_MIN) * before
    return closed_loop or slowdown.ratio >= limit.DEGRADED_RISE


def _hardly_busy(device: Device, during: Mask) -> bool:
    """Whether the device has an operation in flight in too small a part of the time to be what anybody waits for.

    The share of time with an operation is at most the mean number in flight (Markov's inequality).
    """
    busy = [share for values in (device.util, device.in_flight) if (share := _mean_of(values, during)) is not None]
    return bool(busy) and min(busy) < limit.SHARE_MIN


def _mean_of(values: Floats | None, during: Mask) -> float | None:
    return None if values is None else mean(values[during])


def _cpus_filled(case: Case, during: Mask) -> bool:
    """Whether the CPUs became saturated meanwhile: completions that wait for a CPU look like slow operations."""
    user, system = case.at(CPU.user_ratio), case.at(CPU.system_ratio)
    if user is None or system is None:
        return False
    before, now = median((user + system)[~during]), median((user + system)[during])
    return before is not None and now is not None and now >= limit.CPU_BUSY_MIN and now - before > CPU_RISE_MAX


def _waits_for_cpus(case: Case, device: Device, slowdown: Slowdown) -> bool:
    """Whether the longer time of an operation is no more than a wait for a CPU became longer meanwhile.

    An operation is completed by a task or an interrupt of this host, and some devices are one (loop, NFS, FUSE): on
    CPUs that are saturated it waits for one as any task does. The cell's tasks wait D seconds a second (schedstat).
    Each operation wakes one of them at least, so that one wake-up waits D / X on average at X operations/s.
    """
    account, busy = case.cpu_account, case.cpu_s_per_s
    if account is None or account.delay is None or busy is None:
        return False
    waits = []
    for intervals in (~slowdown.during, slowdown.during):
        delay, rate = mean(account.delay[intervals]), mean(device.iops[intervals])
        if delay is None or not rate:
            return False
        waits.append(1000 * delay / rate)
    saturated = (median(busy[slowdown.during]) or 0.0) >= limit.CPU_BUSY_MIN * account.cpus
    return saturated and waits[1] - waits[0] >= slowdown.during_ms - slowdown.before_ms


def _spread(rates: Floats | None, during: Mask, width_s: float) -> float | None:
    """How regularly the operations of one direction come; a control group limits each by itself."""
    return None if rates is None else dispersion(rates[during] * width_s)


def _slope(case: Case, during: Mask) -> float | None:
    """How the rate follows the queue, of the direction that sessions wait for, or else of the one that waits most.

    A free one would hide the other's limit.
    """
    device = case.waited_device
    if device is None:
        return None
    views = [view for view in (device.only("read"), device.only("write")) if view is not None]
    view = max(views or [device], key=lambda candidate: mean(np.asarray(candidate.in_flight)[during]) or 0.0)
    return elasticity(view.iops[during], np.asarray(view.in_flight)[during])


def _unmetered(device: Device, during: Mask, width_s: float) -> bool | None:
    """Whether reads and writes each come too irregularly for a meter; None where that is not known of both.

    A sum of metered reads and free writes is irregular, too: it tells nothing.
    """
    total = mean(device.iops[during]) or 0.0
    for rates in (device.reads, device.writes):
        if rates is None:
            return None
        if (mean(rates[during]) or 0.0) < limit.DIRECTION_SHARE_MIN * total:
            continue
        spread = _spread(rates, during, width_s)
        if spread is None or spread < limit.IRREGULAR_MIN:
            return None
    return True


def _share(case: Case, slowdown: Slowdown) -> tuple[float | None, float]:
    """Of the statement time in the slow intervals, what the volume takes more than before: known, and at most.

    The server's file waits hold what a thread then waits for a CPU, too: they are no more than `volume_share_max`.
    """
    later = replace(case, grid=case.grid.where(slowdown.during))
    added = 1 - 1 / slowdown.ratio
    most = volume_share_max(later)
    shares = [share for share in (later.storage_share, most) if share is not None]
    at_most = added * min(shares, default=1.0)
    return None if later.storage_share is None else at_most, at_most


def _free(slope: float | None) -> bool | None:
    """Whether a longer queue brings as much more; None between that and a limit, too."""
    if slope is None or limit.ELASTICITY_CAPPED < slope < limit.ELASTICITY_FREE:
        return None
    return slope >= limit.ELASTICITY_FREE


def _silent(case: Case, during: Mask) -> bool | None:
    """Whether the volume's counters say that no limit was exceeded meanwhile; None: it does not count."""
    counted = case.exceeded
    columns = (
        counted.volume_iops,
        counted.volume_throughput,
        counted.instance_iops,
        counted.instance_throughput,
    )
    shares = [mean(column[during]) for column in columns if column is not None]
    finite = [share for share in shares if share is not None]
    if not finite or limit.EXCEEDED_SILENT < max(finite) < limit.EXCEEDED_MIN:
        return None
    return max(finite) <= limit.EXCEEDED_SILENT


def _both_rose(reads: Floats | None, writes: Floats | None, during: Mask) -> bool | None:
    """Whether reads and writes both take longer; None when only one kind is known."""
    ratios = []
    for waits in (reads, writes):
        before, now = (None, None) if waits is None else (median(waits[~during]), median(waits[during]))
        if before and now is not None:
            ratios.append(now / before)
    return None if len(ratios) < 2 else min(ratios) >= RISE_MIN


RULES = (
    Rule(
        name=SLOWER,
        causes=frozenset({"storage.degraded", "storage.iops_limit", "storage.throughput_limit"}),
        subject="volume",
        find=slower_findings,
        yields_to=EXPLAINS_WAITS | LIMITS,
        yields_to_leading=OUTSIDE,
        after=OUTSIDE,
    ),
)
