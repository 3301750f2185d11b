"""Rules that name a limit of the volume: of its operations or bytes, or of its burst."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.evidence.burst import BALANCE_EMPTY_PERCENT, Burst
from volbench.results.explain.evidence.device import Resource
from volbench.results.explain.evidence.limits import Plateau
from volbench.results.explain.evidence.plateau_checks import dispersion
from volbench.results.explain.rule import (
    BALANCE,
    BURST,
    DISK_LIMIT,
    EXPLAINS_WAITS,
    INSTANCE,
    LIKELY_LIMIT,
    OUTSIDE,
    PLATEAU,
    SHARED_LIMIT,
    SLOW,
    SLOW_FILES,
    STREAMS,
    Rule,
)
from volbench.results.explain.rules.advice import p95_text, raise_limit_advice
from volbench.results.explain.rules.log_waits import hidden_write_share
from volbench.results.explain.rules.shared_evidence import (
    context,
    explains_little,
    latency_rise,
    queue_holds,
    throughput_fall,
)
from volbench.results.explain.rules.volume.credits import MET_BECAUSE_OF
from volbench.results.explain.rules.volume.instance_figure import beside_instance
from volbench.results.explain.rules.volume.plateau_rows import (
    COUNTED_FULL,
    DECIDED_ELSEWHERE_MAX,
    LIMIT_CAUSE,
    contrast_rows,
    decided_by,
    either_rows,
    elsewhere_rows,
    is_mean_of_bursts,
    likely_limits,
    plateau_rows,
)
from volbench.results.explain.topics import USE_OF_VOLUME
from volbench.results.explain.wording import amount, clock, number, percent, row
from volbench.results.stats.grid import mean, median, quantile

CAUSES = (
    CauseInfo(
        name="storage.iops_limit",
        explains_collapse="always",
        suggested_as="limit",
        claims=frozenset({"limit", "at the device"}),
        yields_to=MET_BECAUSE_OF,
        left_by=frozenset({"interference.shared_volume"}),
        contradicts=frozenset({"storage.degraded"}),
        group="the volume is at a limit",
        title="The volume is at its limit of operations per second",
        panels=("exceeded", "iops"),
        accounts_for=USE_OF_VOLUME,
        options=frozenset({"innodb_buffer_pool_size", "iops", "osd", "osds", "size"}),
        moment="the limit of operations is reached",
        meaning="The volume serves no more operations per second, however many wait.",
        signs=(
            "IOPS form a plateau while operations queue. The volume's own counter says that the limit was exceeded"
            " in at least 20 % of the time, or two signs agree and none contradicts: a longer queue brings no more"
            " operations; reads and writes compete for one budget; an operation waits at least 3 times as long as"
            " without a queue; operations complete as evenly as a rate limiter spaces them. With 1 to 2 operations"
            " in flight (commits of a server), evenness must be one of the signs. Without the volume's own"
            " counters, equal-sized operations cannot distinguish a limit of IOPS from one of bytes: the finding"
            " then says that it is one of the two, unless another time of the cell decides: the same level with"
            " operations of other sizes. Mostly that is a contrast of sizes: loads of 5 s after a step of"
            " `fio`, or of reads after the last step of a volume's first cell (`size_contrast`). The rate that"
            " stays within 5 % is limited, and so is one that neither larger nor smaller operations raise while"
            " they raise the other; a load of reads decides nothing of writes. A limit of which such a load moves"
            " more is not named, whatever named it. Where neither stays, or the"
            " volume gives less or more of both (credits came back), it remains one of the two, and the finding"
            " says why. Of a stack of devices (LVM, md, dm-crypt, thin volumes) or a btrfs over"
            " several disks, the disks' own counters are judged as well, one by one and together: a layer merges"
            " operations and has flushes of its own, so that a limit may show in the disks alone."
        ),
        advice=(
            "Give the volume more IOPS as its kind allows (gp3 and io2: provision them; gp2: enlarge it; Ceph RBD:"
            " more OSDs), or choose a volume type that has them. Or reduce the demand: for transactions a larger"
            " buffer pool for reads, or fewer writes. The finding estimates the throughput with more IOPS"
            " and names the next limit; `--what-if` predicts another volume. To check: `fio` with random reads of"
            " 4 KiB and then of 64 KiB, 32 at a time; a limit of operations keeps the operations per second, a"
            " limit of bytes the MiB/s. CloudWatch: `VolumeReadOps` and `VolumeWriteOps`,"
            " `VolumeIOPSExceededCheck`."
        ),
        waits="even",
    ),
    CauseInfo(
        name="storage.throughput_limit",
        explains_collapse="always",
        claims=frozenset({"limit", "at the device"}),
        yields_to=MET_BECAUSE_OF,
        left_by=frozenset({"interference.shared_volume"}),
        contradicts=frozenset({"storage.degraded"}),
        group="the volume is at a limit",
        title="The volume is at its limit of bytes per second",
        panels=("exceeded", "throughput_mib"),
        accounts_for=USE_OF_VOLUME,
        options=frozenset({"nconnect", "osds", "size", "throughput"}),
        moment="the limit of bytes is reached",
        meaning="The volume transfers no more bytes per second.",
        signs=(
            "MiB/s form a plateau while operations queue, with the same signs as for IOPS. Operations are mostly"
            " large: scans, dumps, page flushes. Where other programs' I/O begins within the step, a rate that"
            " stays the same (within 15 %) while operations per second change at least twofold, with a queue on"
            " both sides, is the limit of bytes that all share; with the roles exchanged it is a limit of IOPS."
        ),
        advice=(
            "Give the volume more throughput, as its kind allows. Move dumps and scans to another time or to a"
            " replica."
        ),
        waits="even",
    ),
)


def plateau_findings(case: Case) -> list[Cause]:
    """Limits of the volume, one finding for each resource, beside the instance's where one is at its figure."""
    return beside_instance(case, [*_limits(case)])


def burst_findings(case: Case) -> list[Cause]:
    """A burst that ended within the step, or credits that were gone all the time."""
    return beside_instance(case, [*_burst(case)])


def _limits(case: Case) -> Iterator[Cause]:
    """One finding for each resource: its longest plateau."""
    either = [*either_rows(case, case.limits)]
    likely_first = sorted(
        LIMIT_CAUSE.items(), key=lambda pair: [*(level.resource for level in case.limits), pair[0]].index(pair[0])
    )
    shares: list[float | None] = []
    for resource, cause in likely_first:
        named = [level for level in case.limits if level.resource == resource]
        if explains_little(case):
            continue
        if not named:
            yield from _counted_only(case, resource, cause)
            continue
        plateau = max(named, key=lambda level: level.last - level.first)
        checks = [queue_holds(case), *(check.holds for check in plateau.checks)]
        shares.append(queue_share(case, plateau))
        yield Cause(
            cause=cause,
            window_s=plateau.window_s,
            share=shares[0] if either else shares[-1],  # of two that cannot be told apart, the likely one is first
            checks=tuple(checks),
            one_of_two=bool(either),
            decided_by=decided_by(plateau),
            confidence_max=DECIDED_ELSEWHERE_MAX if case.limited.is_decided_elsewhere else 1.0,
            evidence=(
                *plateau_rows(case, plateau),
                *elsewhere_rows(case, case.level_elsewhere),
                *contrast_rows(case.size_contrast),
                *either,
                *context(case),
            ),
            advice=raise_limit_advice(case, resource, None if is_mean_of_bursts(case, plateau) else plateau.level),
        )


def _counted_only(case: Case, resource: Resource, cause: str) -> Iterator[Cause]:
    """A limit that the volume counts as exceeded, met too seldom or too briefly for a plateau."""
    counted, device = case.exceeded.of(resource), case.device
    share = mean(counted)
    if counted is None or device is None or share is None or share < limit.EXCEEDED_MIN:
        return
    values = device.carried(resource)
    window_s = case.grid.window_of(counted >= limit.EXCEEDED_MIN)
    level = None if values is None else quantile(values[counted >= COUNTED_FULL], 0.5)
    text = f"the volume counts its limit exceeded in {percent(share)} of the time"
    rows = [row(f"volume_exceeded_{resource}_ratio", share, "1", text)]
    if level is not None:
        unit = "1/s" if resource == "iops" else "MiB/s"
        rows.append(row(resource, level, unit, f"it then gave {amount(level, resource)}"))
    checks = [True, None if level is None else True, queue_holds(case), None]
    yield Cause(
        cause=cause,
        decided_by="counted",
        window_s=window_s,
        share=None if case.storage_share is None else case.storage_share * min(1.0, share),
        checks=tuple(checks),
        evidence=(*rows, *context(case)),
        advice=raise_limit_advice(case, resource, level),
    )


def _burst(case: Case) -> Iterator[Cause]:
    if explains_little(case):
        return
    if case.burst is not None:
        burst = _burst_within(case, case.burst)
        yield burst
        if burst.one_of_two:
            yield from _limit_begun(case, burst)
        return
    balance = median(case.balance_percent)
    if balance is None or balance > BALANCE_EMPTY_PERCENT:
        return
    for plateau in case.limits[:1]:  # empty all the time: the baseline is all there is to see
        checks = [True, queue_holds(case), *(check.holds for check in plateau.checks)]
        text = f"the credits were at {balance:.1f} % all the time: the volume gives its baseline"
        yield Cause(
            cause="storage.burst_exhausted",
            decided_by="counted",
            window_s=plateau.window_s,
            share=queue_share(case, plateau),
            checks=tuple(checks),
            evidence=(
                row("balance_percent", balance, "%", text),
                *plateau_rows(case, plateau),
                *context(case),
            ),
            advice=raise_limit_advice(case, plateau.resource, plateau.level),
        )


def _limit_begun(case: Case, burst: Cause) -> Iterator[Cause]:
    """The limits that may as well have begun then: without credits and a metered burst, they look alike."""
    for plateau in case.plateaus:
        if case.burst is not None and plateau.first == case.burst.index:
            yield replace(
                burst,
                cause=LIMIT_CAUSE[plateau.resource],
                evidence=(*plateau_rows(case, plateau), *burst.evidence),
                advice=raise_limit_advice(case, plateau.resource, plateau.level),
            )


def _was_metered(case: Case, burst: Burst) -> bool | None:
    """Whether the volume metered its burst as well: a bucket has two rates, each as even as a meter makes it."""
    values = None if case.active_device is None else case.active_device.carried(burst.resource)
    size_kib = None if case.active_device is None else case.active_device.size_kib
    if values is None or (burst.resource == "throughput" and not size_kib):
        return None
    counts = values * case.grid.width_s * (1.0 if burst.resource == "iops" else 1024 / (size_kib or 1.0))
    spread = dispersion(counts[: burst.index])
    return None if spread is None else spread <= limit.IRREGULAR_MIN


def _burst_within(case: Case, burst: Burst) -> Cause:
    at, unit = burst.exhausted_at_s, "1/s" if burst.resource == "iops" else "MiB/s"
    fell = (
        f"the volume fell from {number(burst.burst)} to {amount(burst.baseline, burst.resource)} (burst exhausted)"
    )
    rose, when = latency_rise(case, burst.index), clock(at, case.clock_zero_s)
    text = f"{rose} at {when}, when {fell}" if rose else f"at {when} {fell}"
    plateau = next(level for level in case.plateaus if level.level == burst.baseline)
    emptied = None if burst.balance_percent is None else burst.balance_percent <= BALANCE_EMPTY_PERCENT
    unmetered = _was_metered(case, burst) is False and emptied is None
    checks = [True, rose is not None, emptied, queue_holds(case), *(check.holds for check in plateau.checks)]
    spent_unit = "I/Os" if burst.resource == "iops" else "MiB"
    rows = [
        row("exhausted_at", at, "s", text),
        row("baseline", burst.baseline, unit, f"baseline {amount(burst.baseline, burst.resource)}"),
        row("burst", burst.burst, unit, f"burst {amount(burst.burst, burst.resource)}"),
        row(
            "credits_spent",
            burst.spent,
            spent_unit,
            f"{number(burst.spent)} {spent_unit} above the baseline were spent until then, so the bucket held at"
            f" least that; at rest it has them again after {number(burst.refill_s)} s",
        ),
    ]
    if burst.await_before_ms is not None and burst.await_after_ms is not None:
        waited = (
            f"an operation took {number(burst.await_before_ms)} ms before, {number(burst.await_after_ms)} ms after"
        )
        rows.append(row("await_ms", burst.await_after_ms, "ms", waited))
    rows.append(row("in_flight", burst.in_flight_after, "1", f"a queue of {burst.in_flight_after:.0f} waits"))
    rows += throughput_fall(case, burst.index)
    if burst.balance_percent is not None:
        left = f"the volume says {burst.balance_percent:.1f} % of its credits are left"
        rows.append(row("balance_percent", burst.balance_percent, "%", left))
    if unmetered:
        text = (
            "before it the volume gave no even rate, so that a limit that began then would look alike: CloudWatch"
            " BurstBalance, or the volume's own balance of credits, decides"
        )
        rows.append(row("decide", None, "1", text))
    after = replace(case, grid=case.grid.within(at, case.window_s[1]))
    advice = (
        f"A volume whose baseline is what this load wants: it took {amount(burst.burst, burst.resource)} while it"
        f" could, and gets {amount(burst.baseline, burst.resource)} as long as it goes on. What was measured before"
        f" {when} is the burst, not the volume."
        f"{p95_text(after, burst.resource, level=burst.baseline, within='after that')}"
    )
    return Cause(
        cause="storage.burst_exhausted",
        decided_by="before and after" if emptied is None else "counted",
        one_of_two=unmetered,
        window_s=(at, case.window_s[1]),
        share=queue_share(case, plateau),
        checks=tuple(checks),
        evidence=(*rows, *context(case)),
        advice=advice,
    )


def _writes_are_slow(case: Case) -> bool:
    waited = None if case.device is None else median(case.device.w_await_ms)
    return waited is not None and waited >= limit.SYNC_SLOW_MS


def queue_share(case: Case, plateau: Plateau) -> float | None:
    """Share of statement time spent in the volume's queue: storage's share, less what it takes without a queue.

    Commits without an instrument wait for writes: where writes are limited, they are in it.
    """
    share = case.storage_share
    if plateau.direction != "read" and case.budget is not None and _writes_are_slow(case):
        share = min(1.0, case.budget.storage_share + hidden_write_share(case))
    if share is None:
        return None
    share *= case.time_share(plateau.window_s)
    if plateau.await_ms is None or not plateau.base_await_ms:
        return share
    return share * max(0.0, 1 - plateau.base_await_ms / plateau.await_ms)


def may_be_limited(case: Case) -> Iterator[Cause]:
    """Limits that may as well be what makes the volume slow; what they explain is what that explains."""
    yield from likely_limits(case, None)


_INSTANCE = "instance.storage_limit"
_ONE_LIMIT = frozenset(LIMIT_CAUSE.values())
RULES = (
    Rule(
        name=BURST,
        causes=_ONE_LIMIT | {"storage.burst_exhausted", _INSTANCE},
        subject="volume",
        find=burst_findings,
        yields_to=EXPLAINS_WAITS | {SHARED_LIMIT, INSTANCE},
        after=OUTSIDE,
    ),
    Rule(
        name=PLATEAU,
        causes=_ONE_LIMIT | {_INSTANCE},
        subject="volume",
        find=plateau_findings,
        yields_to=EXPLAINS_WAITS | {SHARED_LIMIT, INSTANCE, BURST, BALANCE, DISK_LIMIT},
        after=OUTSIDE,
    ),
    Rule(
        name=LIKELY_LIMIT,
        causes=_ONE_LIMIT,
        subject="volume",
        find=may_be_limited,
        needs=frozenset({STREAMS, SLOW_FILES}),
        sound_beside=OUTSIDE,
        one_of_two_with=SLOW,
    ),
)
