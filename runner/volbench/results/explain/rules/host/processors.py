"""Rules that name CPUs: the server's own use, a quota, other programs by `evidence.processors`, the hypervisor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from volbench.core.records.named_metrics import PSI, CgroupCpu, Client, Tasks
from volbench.core.records.report import EvidenceRow
from volbench.core.records.steps import step_kind
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.evidence.layers import stretches
from volbench.results.explain.evidence.processors import (
    CELL,
    CLIENT,
    MOST_OF_CPUS,
    SERVER,
    CpuAccount,
)
from volbench.results.explain.rule import CLIENT_BUSY, CLIENT_HELD, CPUS, SYNCS_ON_CPUS, Rule
from volbench.results.explain.rules.advice import cpus_text
from volbench.results.explain.rules.host.cpu_evidence import (
    bound_rows,
    cpu_rows,
    host_rows,
    lost_rows,
    quota_rows,
    waits_elsewhere,
)
from volbench.results.explain.rules.host.fair_share import fair_rows, may_be_held
from volbench.results.explain.rules.host.syncs_on_cpus import sync_by_volume
from volbench.results.explain.rules.log_waits import slowest_sync_ms
from volbench.results.explain.rules.shared_evidence import Effect, effect_rows, loss_rows
from volbench.results.explain.wording import clock, number, percent, row
from volbench.results.stats.grid import Mask, mean, median

SATURATED, CLIENT_SATURATED, OTHER_PROGRAMS = "cpu.server_saturated", "cpu.client_saturated", "interference.cpu"
SIDES = {SERVER: SATURATED, CLIENT: CLIENT_SATURATED}
"""Whose CPUs run out -> the cause."""
_GAP_S = 5.0
"""A pause of others' work that does not end it."""
_MOST_OF_RISE = 0.5
OWN_MIN = 0.15
"""Of the host's CPUs: a server and load that use less, and lose little to others, have CPUs enough."""
_MORE_CPU = "More CPU for the server (a larger quota where one holds it back), or less other work on this host."
MORE_FOR_CLIENT = "The load generator is the limit: give it more CPUs, or fewer threads. The cell is invalid."
_LESS_WORK = "Less other work on this host, or more CPUs."
_VOLUME = "A faster volume changes little here."
_MOVE_THEM = (
    "Find the programs (ps -eo pid,pcpu,comm --sort=-pcpu | head; systemd-cgtop; docker stats) and move them to"
    " another host or time, or give the server CPUs of its own (cpuset, CPUWeight)."
)

CAUSES = (
    CauseInfo(
        name="cpu.server_saturated",
        uses_up_cpus=True,
        explains_collapse="where CPUs are what became longer",
        claims=frozenset({"own CPU"}),
        share_of="clients where waits for CPUs are counted",
        state="busy CPUs",
        effect_of=frozenset({"memory.reclaim"}),
        group="the server or the client",
        title="The server has no CPU left",
        panels=("cpu", "pressure"),
        accounts_for=frozenset({"CPUs"}),
        all_along=True,
        meaning="The server has no CPU left, or a CPU quota holds it back.",
        signs=(
            "The host's CPUs are at least 90 % busy and tasks wait for a CPU, or the quota throttles the server in"
            " at least half of its periods, and keeps tasks from CPUs for at least 15 % of the time where that is"
            " counted (of its group, of one around it, or of one that load and server share); and most of"
            " statement time is no wait for files or locks. In place of"
            " pressure, the scheduler's own count of the cell's waits counts: 15 % of the clients' time. It"
            " explains at most what clients do not wait for locks, or for reads and log syncs at the device. Where"
            " other programs use the CPUs that it needs, the cause is `interference.cpu`; both are named, each with"
            " its share, where both use much. A server and load that use less than 15 % of the CPUs, and lose less"
            " than half to others, have CPUs enough. Where the server's tasks wait for a CPU while CPUs are idle, a"
            " quota or a cpuset holds them back that nothing here counts: N tasks wait for at most N × the share of"
            " time in which the CPU with least to do is busy."
        ),
        advice="Give the server more CPU or a larger quota. A faster volume changes little.",
        waits="queue for CPUs",
        wait_time="CPUs",
    ),
    CauseInfo(
        name="interference.cpu",
        explains_collapse="where CPUs are what became longer",
        claims=frozenset({"own CPU", "episode"}),
        share_of="clients where waits for CPUs are counted",
        state="CPUs busy with others",
        group="something else uses the disk or the CPUs",
        title="Other programs use the CPUs that the server needs",
        panels=("cpu", "pressure"),
        accounts_for=frozenset({"CPUs"}),
        all_along=True,
        meaning=(
            "Other programs on the same host use the CPUs that this load needs. Neither the server's"
            " configuration nor the volume is at fault."
        ),
        signs=(
            "The host's CPUs are at least 90 % busy, and running and waiting for a CPU is at least half of the"
            " clients' time. Of the CPUs that this load would keep busy alone, others have at least half, or a"
            " smaller part that explains 15 % of the latency. Others are the host's busy time less that of the"
            " cell's own processes (agent, server, client, sampler, or their control groups) and of an emulated"
            " volume's daemon; kernel threads are among them. Where no account of the server's control group"
            " exists and it gets clearly less than the part of its runnable tasks, a quota that nothing counts"
            " may hold it: the finding is one of two. What the cell lost to them is at most what they ran, and at"
            " most the time for which its own tasks were runnable without a CPU (`/proc/PID/schedstat`). Where"
            " they begin or end within the step, the finding has their time. A server that its own quota holds"
            " back is `cpu.server_saturated`; a load that a quota holds back is `cpu.client_saturated`. For"
            " `observe`, an application on the server's host counts as other programs. Without an account of the"
            " cell's own processes (recordings of sar) the users of the CPUs cannot be distinguished, and the"
            " finding is `cpu.server_saturated`. Where the load does twice as much for two seconds, on CPUs"
            " as busy, CPUs explain no more than a whole transaction takes then."
        ),
        advice=(
            "Find them (`ps -eo pid,pcpu,comm --sort=-pcpu`, `systemd-cgtop`, `docker stats`) and move them to"
            " another host or time, or give the server CPUs of its own (cpuset, `CPUWeight`)."
        ),
        waits="queue for CPUs",
        wait_time="CPUs",
    ),
)


def cpu_findings(case: Case) -> Iterator[Cause]:
    """Attribute CPU time and CPU queueing to the server, its quota or other programs."""
    if not case.is_served:
        yield from _saturated(case)


def syncs_on_cpus(case: Case) -> Iterator[Cause]:
    """Attribute waits of syncs for a CPU, where the CPUs themselves are not what most of the time goes to."""
    if not case.is_served:
        yield from _starved_syncs(case)


def cpus_explain_fall(case: Case, fallen: Mask) -> bool:
    """Whether running and waiting for CPUs is most of what a transaction took longer in some intervals.

    Args:
        fallen: intervals in which the load did little, shape (buckets,).
    """
    share = cpu_part_of_rise(case, fallen)
    return share is not None and share >= _MOST_OF_RISE


def cpu_part_of_rise(case: Case, slower: Mask) -> float | None:
    """Running and waiting for CPUs as a part of what a transaction took longer in some intervals; None: not known.

    Args:
        slower: intervals in which the load did less, shape (buckets,).

    Little's law for a closed loop of N clients at X transactions/s, U + D of them on or before a CPU: a transaction
    takes N / X in all, (U + D) / X of it for CPUs. The part is the rise of the second over that of the first.
    """
    account, tps = case.cpu_account, case.at(Client.tps)
    if account is None or account.delay is None or tps is None or not case.threads or case.rate is not None:
        return None
    runnable = account.own + account.delay
    finite = np.isfinite(runnable) & np.isfinite(tps)
    took = []
    for intervals in (slower & finite, ~slower & finite):
        rate = float(tps[intervals].sum())
        if rate <= 0:
            return None
        took.append((float(intervals.sum()) * case.threads / rate, float(runnable[intervals].sum()) / rate))
    (total, cpu), (whole_before, cpu_before) = took
    return (cpu - cpu_before) / (total - whole_before) if total > whole_before else None


def _saturated(case: Case) -> Iterator[Cause]:
    """CPU phases that take most of the time, divided into the load's own and what others took (`lost_share`)."""
    throttled = case.is_throttled
    cpu_share = load_cpu_share(case, throttled=throttled)
    if not (throttled or case.cpu_bound or _waits_are_counted(case)) or (
        cpu_share is not None and cpu_share < limit.CPU_SHARE_MIN
    ):
        return
    account = None if throttled else case.cpu_account
    by_others = 0.0 if account is None else account.lost_share()
    side = None if account is None or by_others < MOST_OF_CPUS else may_be_held(case, account)
    if account is not None and side is not None:
        own_side = _own_finding(case, cpu_share, cpu_share, throttled=throttled)
        alike = (
            own_side if side != CLIENT else replace(own_side, cause=CLIENT_SATURATED, advice=MORE_FOR_CLIENT),
            _foreign_finding(case, account, None if cpu_share is None else cpu_share * by_others, cpu_share),
        )
        rows = (*fair_rows(case, account, side),)
        yield from (replace(cause, one_of_two=True, evidence=(*cause.evidence, *rows)) for cause in alike)
        return
    own_cpus = mean(case.at(Tasks.cpus_used, SERVER) if account is None else account.own)
    if (
        not throttled
        and by_others < MOST_OF_CPUS
        and own_cpus is not None
        and own_cpus < OWN_MIN * (case.cpus or 1)
    ):
        return  # more CPU is no help to a server that uses next to none
    most = None if cpu_share is None else min(cpu_share, 1 - waits_elsewhere(case))
    most = None if most is None else min(most, case.best_seconds_share or 1.0)  # by the seconds as busy
    if throttled and case.withheld_s is not None:
        most = min(case.withheld_s, 1.0 if most is None else most)  # nobody waits for a quota for longer
    own, foreign = (None if most is None else most * share for share in (1 - by_others, by_others))
    if by_others < MOST_OF_CPUS or (own is not None and own >= limit.CPU_SHARE_MIN):
        yield _own_finding(case, own, cpu_share, throttled=throttled)
    named = by_others >= MOST_OF_CPUS or (foreign is not None and foreign >= limit.SHARE_MIN)
    if account is not None and named:
        yield _foreign_finding(case, account, foreign, cpu_share)


def _waits_are_counted(case: Case) -> bool:
    """Whether the CPUs are busy and the cell's tasks waited for one in a part of the clients' time worth naming.

    Pressure (PSI) counts the time in which any task of the machine waits, once however many they are; the
    scheduler's own count of the cell's tasks says how long these did.
    """
    account, busy = case.cpu_account, case.cpu_busy
    if account is None or account.delay is None or busy is None or not case.threads or case.cpu_cycle_share is None:
        return False
    return busy >= limit.CPU_BUSY_MIN and (mean(account.delay) or 0.0) >= limit.SHARE_MIN * case.threads


def load_cpu_share(case: Case, *, throttled: bool) -> float | None:
    """Share of the time in which this load runs or waits for a CPU; None where nothing tells."""
    if case.cpu_cycle_share is not None:
        return case.cpu_cycle_share
    cpu_share = case.budget.no_wait if case.budget is not None else None
    if case.waiting_share is not None:
        cpu_share = 1 - case.waiting_share
    reach = None if throttled else case.cpu_share_max
    # Others may fill the CPUs of a host whose server waits for something else.
    return cpu_share if cpu_share is None or reach is None else min(cpu_share, reach)


def _own_finding(case: Case, own: float | None, cpu_share: float | None, *, throttled: bool) -> Cause:
    """The CPUs of the host, or the part of them that a quota leaves the server."""
    pressure, throttled_ratio = median(case.at(PSI.cpu_some_ratio)), case.server_throttled
    of_quota = _throttled_rows(case, throttled_ratio) if throttled and throttled_ratio is not None else ()
    rows = [*of_quota, *host_rows(case), *cpu_rows(case, cpu_share), *bound_rows(case, cpu_share)]
    counted = throttled or case.cpu_cycle_share is not None
    return Cause(
        cause=SATURATED,
        decided_by="counted" if counted else "level",
        window_s=case.window_s,
        share=own,
        checks=(True, throttled or (None if pressure is None else True), None if cpu_share is None else True),
        one_of_two=not counted and _commits_may_be_hidden(case),
        evidence=tuple(rows),
        advice=(_MORE_CPU if step_kind(case.kind).has_statements else _LESS_WORK) + cpus_text(case),
        volume_advice=_VOLUME,
    )


def _throttled_rows(case: Case, throttled_ratio: float) -> Iterator[EvidenceRow]:
    """How often a quota held the server back, and for how long."""
    is_shared = throttled_ratio == case.shared_throttled
    used = mean(case.at(CgroupCpu.cpus_used, CELL if is_shared else SERVER))
    whom, them = ("server and load, which are in one group,", "them") if is_shared else ("the server", "it")
    left = "" if used is None else f" and left {them} {number(used)} CPUs"
    text = f"a CPU quota held {whom} back in {percent(throttled_ratio)} of its periods{left}"
    yield row("server_throttled_ratio", throttled_ratio, "1", text)
    if case.withheld_s is not None:
        text = f"for {number(case.withheld_s)} s in each second it kept tasks from CPUs, all CPUs added up"
        yield row("withheld_s_per_s", case.withheld_s, "s/s", text)


def _foreign_finding(case: Case, account: CpuAccount, share: float | None, cpu_share: float | None) -> Cause:
    """Other programs on the CPUs that this load wanted; with their time where they began or ended in the step."""
    active = _busy_with_others(case, account)
    bounded = active is not None and _is_bounded(active)
    effects = [*effect_rows(case, active)] if active is not None and bounded else []
    window_s = case.window_s if active is None or not bounded else case.grid.window_of(active)
    counted = account.delay is not None and case.cpu_cycle_share is not None
    return Cause(
        cause=OTHER_PROGRAMS,
        decided_by="counted" if counted else "level",
        window_s=window_s,
        share=share,
        checks=(True, None if account.delay is None else True, None if cpu_share is None else True),
        evidence=(
            _foreign_row(case, account, window_s if bounded else None),
            *lost_rows(account),
            *quota_rows(case),
            *(effect.evidence for effect in effects if effect.is_worse),
            *_losses(effects),
            *host_rows(case),
            *cpu_rows(case, cpu_share),
        ),
        advice=_MOVE_THEM,
        volume_advice=_VOLUME,
    )


def _losses(effects: list[Effect]) -> Iterator[EvidenceRow]:
    yield from loss_rows([effect for effect in effects if effect.is_worse])


def _busy_with_others(case: Case, account: CpuAccount) -> Mask | None:
    """Intervals in which the cell loses a good part of the CPUs to others, shape (buckets,); None: there are none.

    Not those in which others use much: where the cell waits for something else they may take what it leaves.
    """
    active = np.nan_to_num(account.lost) >= limit.FOREIGN_SHARE_MIN * account.cpus
    gap = max(2, round(_GAP_S / case.grid.width_s))
    spans = stretches(active, gap=gap, least=limit.FOREIGN_SAMPLES)
    mask = np.zeros(len(active), dtype=np.bool_)
    for first, last in spans:
        mask[first:last] = True
    return mask if spans else None


def _is_bounded(active: Mask) -> bool:
    """Whether they began or ended within the step."""
    inside = np.flatnonzero(active)
    return bool(inside[0] >= limit.FOREIGN_SAMPLES or len(active) - 1 - inside[-1] >= limit.FOREIGN_SAMPLES)


def _foreign_row(case: Case, account: CpuAccount, window_s: tuple[float, float] | None) -> EvidenceRow:
    """How many CPUs others and the cell used, and when."""
    grid = case.grid if window_s is None else case.grid.within(*window_s)
    inside = np.isin(case.grid.t_s, grid.t_s)
    foreign, own = mean(account.foreign[inside]) or 0.0, mean(account.own[inside]) or 0.0
    when = ""
    if window_s is not None:
        begin, end = (clock(t_s, case.clock_zero_s) for t_s in window_s)
        when = f"from {begin} to {end} "
    text = (
        f"{when}other programs use {number(foreign)} of the host's {account.cpus} CPUs;"
        f" this server, volbench and its load use {number(own)}"
    )
    return row("foreign_cpus", foreign, "1", text)


def _commits_may_be_hidden(case: Case) -> bool:
    """Whether time that no wait shows may be commits that wait for limited writes, not computing."""
    hides = case.budget is not None and case.budget.hides_commits and case.cpu_share_max is None
    return hides and any(effect.direction != "read" for effect in case.limits)


def _starved_syncs(case: Case) -> Iterator[Cause]:
    """Commits whose fsyncs wait for a CPU: no fault of the volume, nor of the server where others have the CPUs."""
    by_volume, sync_ms, budget = sync_by_volume(case), slowest_sync_ms(case), case.budget
    if by_volume is None or sync_ms is None or budget is None or case.cpu_busy is None:
        return
    volume_ms = by_volume.sync_ms
    share = budget.share("redo_sync", "binlog_sync", "binlog_group") * (1 - volume_ms / sync_ms)
    if share < limit.SHARE_MIN or sync_ms < limit.SYNC_SLOW_MS:
        return
    own = budget.share("cpu")
    text = (
        f"an fsync of the log takes {number(sync_ms)} ms, a write and a flush of the volume {number(volume_ms)} ms:"
        " most of it is waiting for a CPU"
    )
    used = f"the host's CPUs are {percent(case.cpu_busy)} busy; {percent(own)} of statement time is CPU time"
    rows = [row("sync_ms", sync_ms, "ms", text), row("cpu_busy_ratio", case.cpu_busy, "1", used)]
    checks = (True, sync_ms >= 2 * limit.SYNC_BY_VOLUME * volume_ms or None, own < limit.CPU_SHARE_MIN or None)
    account = case.cpu_account
    is_mostly_lost = account is not None and account.is_mostly_lost
    if account is not None and is_mostly_lost:
        rows = [_foreign_row(case, account, None), *lost_rows(account), *rows]
    yield Cause(
        cause=OTHER_PROGRAMS if is_mostly_lost else SATURATED,
        window_s=case.window_s,
        share=share,
        checks=checks,
        evidence=tuple(rows),
        advice=_MOVE_THEM if is_mostly_lost else _LESS_WORK,
        volume_advice=_VOLUME,
    )


RULES = (
    Rule(
        name=CPUS,
        causes=frozenset({SATURATED, OTHER_PROGRAMS, CLIENT_SATURATED}),
        find=cpu_findings,
        yields_to=frozenset({CLIENT_BUSY, CLIENT_HELD}),
    ),
    Rule(
        name=SYNCS_ON_CPUS,
        causes=frozenset({SATURATED, OTHER_PROGRAMS}),
        find=syncs_on_cpus,
        yields_to=frozenset({CLIENT_BUSY, CLIENT_HELD, CPUS}),
    ),
)
