"""Rules that name something else than the volume: the client, the buffer pool, the redo log, other work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from volbench.core.records.named_metrics import Client, Innodb, NamedMetric
from volbench.results.explain import thresholds as limit
from volbench.results.explain.accounts.redo import (
    fills_between_ticks,
    redo_capacity,
    redo_full,
    redo_option,
    redo_turnover_s,
    whole_variable,
)
from volbench.results.explain.case import Case
from volbench.results.explain.case_input import ConcurrentActivity
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.evidence.cliffs import rank_sum_z
from volbench.results.explain.evidence.layers import device_flow, server_flow, time_above_ms
from volbench.results.explain.rule import CLIENT_BUSY, Rule
from volbench.results.explain.rules.advice import pool_text, redo_text
from volbench.results.explain.rules.host.processors import CLIENT_SATURATED, MORE_FOR_CLIENT
from volbench.results.explain.rules.log_waits import hidden_commit_share
from volbench.results.explain.rules.shared_evidence import (
    data_read_ms,
)
from volbench.results.explain.topics import USE_OF_VOLUME
from volbench.results.explain.wording import clock, number, percent, row
from volbench.results.stats.grid import Floats, Mask, mean, median

_PAGE_BYTES = 16_384

CAUSES = (
    CauseInfo(
        name="memory.buffer_pool_small",
        waits_for_volume=True,
        claims=frozenset({"short operations"}),
        contradicts=frozenset({"storage.read_latency"}),
        group="the server or the client",
        title="The buffer pool is too small for the data in use",
        panels=("innodb", "iops"),
        accounts_for=frozenset(
            {
                "reads of the volume",
                "queue of the volume",
                "traffic of the volume",
                "reads of files",
                "traffic of files",
                "buffer pool",
            }
        ),
        options=frozenset({"innodb_buffer_pool_size"}),
        all_along=True,
        by_medians=True,
        meaning="Reads of the volume are fast but too many: the buffer pool does not hold the working set.",
        signs=(
            "At least 1 % of page requests miss, reads are at least half of statement time, and within the"
            " window the server reads at least as many bytes as the buffer pool holds. Each read is fast."
        ),
        advice="Enlarge the buffer pool, as far as memory allows.",
    ),
    CauseInfo(
        name="redo.checkpoint_stall",
        waits_for_volume=True,
        group="the server or the client",
        title="The redo log is full, and queries wait for its checkpoint",
        panels=("innodb",),
        accounts_for=frozenset(
            {"writes of the volume", "queue of the volume", "traffic of the volume", "redo log"}
        ),
        meaning="The redo log is full, and InnoDB holds writers back until it has flushed pages.",
        signs=(
            "The checkpoint age is at least 70 % of the redo log's capacity, and throughput dips, or statements"
            " wait for something that no instrument shows. A load at a rate of its own that gets its rate,"
            " without dips, is not held back by it. Where commits without an instrument may take nearly all of"
            " that time, and throughput does not dip, it is one of two."
        ),
        advice=(
            "Enlarge the redo log (`innodb_redo_log_capacity`; MariaDB: `innodb_log_file_size`) and allow steady"
            " flushing (`innodb_io_capacity`). The finding says how much redo the load writes in ten minutes."
        ),
    ),
    CauseInfo(
        name="interference.backup",
        brings=frozenset({"storage.iops_limit", "storage.throughput_limit"}),
        waits_for_volume=True,
        group="something else uses the disk or the CPUs",
        title="A backup or another concurrent task slows the load down",
        panels=("throughput", "throughput_mib"),
        accounts_for=USE_OF_VOLUME,
        explains_fall=True,
        is_change=True,
        meaning=(
            "A task of the suite that ran concurrently (a backup, a restore, an ALTER, a purge) slowed the load"
            " down. In `observe`, tools that are connected to the server count. Any other backup is"
            " `interference.io`."
        ),
        signs=(
            "Throughput fell or latency rose by at least 10 % while the task ran, beyond noise, compared with"
            " the rest of the window."
        ),
        advice="Move the task to quiet hours or to a replica, throttle it, or take volume snapshots.",
    ),
)


def _client(case: Case) -> Iterator[Cause]:
    used, throttled_ratio = case.client_cpu_ratio, case.client_throttled
    bound = [
        used is not None and used >= limit.CLIENT_CPU_MIN,
        throttled_ratio is not None and throttled_ratio >= limit.THROTTLED_MIN,
    ]
    if not any(bound):
        return
    rows = []
    if used is not None:
        text = f"sysbench used {percent(used)} of the CPU that it can use"
        rows.append(row("client_cpu_ratio", used, "1", text))
    if throttled_ratio is not None:
        text = f"a CPU quota held the client back in {percent(throttled_ratio)} of its periods"
        rows.append(row("client_throttled_ratio", throttled_ratio, "1", text))
    checks = [True, used is None or bound[0], throttled_ratio is None or bound[1]]
    yield Cause(
        cause=CLIENT_SATURATED,
        decided_by="counted",
        window_s=case.window_s,
        share=None,
        checks=tuple(checks),
        evidence=tuple(rows),
        advice=MORE_FOR_CLIENT,
    )


def _checkpoint(case: Case) -> Iterator[Cause]:
    """The redo log is full: writers wait for pages to be flushed, which no instrument shows.

    A log that is written full within seconds fills and empties between two ticks: then its highest tick counts,
    and no dip of the throughput can be asked for.
    """
    age, tps = case.at(Innodb.checkpoint_age_ratio), case.at(Client.tps)
    turnover_s, fast, full = redo_turnover_s(case), fills_between_ticks(case), redo_full(case)
    if age is None or full is None or full < limit.CHECKPOINT_AGE_FULL:
        return
    dips = None
    if tps is not None and not fast:
        high, low = median(tps[age >= limit.CHECKPOINT_AGE_FULL]), median(tps[age < limit.CHECKPOINT_AGE_FULL])
        dips = None if high is None or low is None else high <= 0.8 * low
    cpu_share = unseen = None
    if case.budget is not None and case.cpu_busy is not None:
        # Where the statements' own CPU time is known, what is left is waiting, unless they wait for a CPU.
        effects_known = case.statement_cpu_s_per_s is not None
        cpu_share = case.budget.share("rest") if effects_known else case.budget.no_wait
        computing = case.cpu_bound if effects_known else case.cpu_busy > limit.CPU_IDLE_MAX
        if case.cpu_share_max is not None:
            computing = case.cpu_share_max >= cpu_share
        unseen = cpu_share >= limit.STORAGE_SHARE_MIN and not computing
    if dips is False or not (dips or unseen) or (case.is_served and not dips):
        return  # a load that gets its rate while the log is as full as ever is not what is held back
    capacity = redo_capacity(case)
    now = "" if capacity is None else f" (now {capacity >> 20} MiB)"
    text = f"the redo log is {percent(full)} full of changes not yet flushed: InnoDB holds writers back"
    rows = [row("checkpoint_age_ratio", full, "1", text)]
    if turnover_s is not None:
        rows.append(row("redo_turnover_s", turnover_s, "s", f"what it holds is written in {number(turnover_s)} s"))
    if unseen and cpu_share is not None:
        text = f"{percent(cpu_share)} of statement time is neither an instrumented wait nor CPU time"
        rows.append(row("rest_share", cpu_share, "1", text))
    commits = hidden_commit_share(case)
    doubtful = bool(unseen) and not dips and (cpu_share or 0.0) - commits < limit.STORAGE_SHARE_MIN
    if doubtful:
        text = (
            f"commits that wait for the log have no instrument here and may take {percent(commits)} of it; this"
            " decides: the same load with a larger log"
        )
        rows.append(row("decide", commits, "1", text))
    checks = [True, dips, unseen, fast or None]
    yield Cause(
        cause="redo.checkpoint_stall",
        decided_by="before and after" if dips else "level",
        window_s=case.window_s,
        share=cpu_share if unseen else None,
        checks=tuple(checks),
        one_of_two=doubtful,
        evidence=tuple(rows),
        advice=f"A larger redo log{now}, and enough innodb_io_capacity to flush steadily.{_enough_redo(case)}",
    )


def _enough_redo(case: Case) -> str:
    """How much redo this load writes in the time that a log should hold."""
    written = case.at(Innodb.os_log_written_mib_per_s)
    return "" if written is None else redo_text(written.tolist(), limit.REDO_HOLDS_S / 60, redo_option(case))


READ_ONCE = ("cold_read", "dump", "restored")
"""Kinds of step that read what they need once: a page that was never in the pool is missed with any pool."""


def _pool(case: Case) -> Iterator[Cause]:
    """Reads that are fast each, and too many: the pool was read full at least once within the window.

    While something runs beside the load, the pages read are not the load's alone: that time is left out.
    """
    if case.kind in READ_ONCE:
        return
    misses, reads = case.at(Innodb.buffer_pool_miss_ratio), case.at(Innodb.pages_read_per_s)
    pool, page = (whole_variable(case, name) for name in ("innodb_buffer_pool_size", "innodb_page_size"))
    alone = (
        ~np.logical_or.reduce([_during(case, activity) for activity in case.concurrent])
        if case.concurrent
        else None
    )
    span = slice(None) if alone is None else alone
    share = _read_share(case, span)
    if misses is None or reads is None or share is None or pool is None:
        return
    missed = median(misses[span])
    turnover = float(np.nansum(reads[span])) * case.grid.width_s * (page or _PAGE_BYTES) / pool
    if missed is None or missed < limit.POOL_MISS_MIN or share < limit.POOL_SHARE_MIN or turnover < 1:
        return
    if alone is not None:
        share *= case.time_share_of(alone)
    read_ms = data_read_ms(case)
    if read_ms is not None and read_ms >= limit.READ_SLOW_MS:
        return
    share *= _at_device(case)
    if share < limit.SHARE_MIN:
        return
    yield Cause(
        cause="memory.buffer_pool_small",
        decided_by="level",
        window_s=case.window_s,
        share=share,
        checks=(True, turnover >= 2, None if read_ms is None else True),
        evidence=(
            row(
                "buffer_pool_miss_ratio",
                missed,
                "1",
                f"{percent(missed)} of page requests must read{_read_each(reads[span], read_ms)}; what was read is"
                f" {turnover:.1f} times the buffer pool of {pool >> 20} MiB",
            ),
        ),
        advice="A larger buffer pool, as far as memory goes: each read is fast, there are too many of them."
        + pool_text(pool, missed),
    )


def _at_device(case: Case) -> float:
    """Of the time that the server's reads take, the part at the device where tasks wait for a CPU; else all of it.

    A read that is done waits for a CPU, of the host or of the server's quota: what lies above the device then is no
    work for a larger pool.
    """
    reads = server_flow(case.grid, "read", ("data",))
    device = None if case.device is None else device_flow(case.device, "read")
    waits_for_cpus = case.is_throttled or (case.cpu_bound and case.cpu_cycle_share is not None)
    if not waits_for_cpus or reads is None or device is None:
        return 1.0
    above_ms = time_above_ms(reads, device)
    return 1.0 if above_ms is None or not reads.each_ms else max(0.0, 1 - above_ms / reads.each_ms)


def _read_each(pages: Floats, read_ms: float | None) -> str:
    """How many pages are read, and how fast, in words."""
    rate = mean(pages)
    each = "" if read_ms is None else f", a read takes {number(read_ms)} ms"
    return "" if rate is None else f", {number(rate)} pages a second{each}"


_EFFECTS = (Client.tps, Client.latency_ms_p50, Client.latency_ms_p95, Client.latency_ms_avg)
"""The mean is known of observed servers, some of which keep no percentiles."""


def _interference(case: Case) -> Iterator[Cause]:
    """Something ran beside the load for part of the window: with it against without it.

    A closed loop shows it in its throughput, a load at a fixed rate in its latency.
    """
    for activity in case.concurrent:
        effects = [_effect(case, activity, name) for name in _EFFECTS]
        effects_known = [effect for effect in effects if effect is not None]
        worst = _worst([effect for effect in effects_known if not effect.is_of_few]) or _worst(effects_known)
        if worst is None:
            continue
        stated = [effect for effect in effects_known if effect is worst or not effect.is_of_few]
        effects_text = "; ".join(effect.text for effect in stated if effect.text)
        yield Cause(
            cause="interference.backup",
            decided_by="before and after",
            window_s=(max(activity.t0_s, case.window_s[0]), min(activity.t1_s, case.window_s[1])),
            share=worst.loss * case.clients_share_of(_during(case, activity)),
            of_clients=True,
            checks=(True, worst.beyond_noise, worst.samples >= 20 or None),
            evidence=(
                row(
                    "loss",
                    worst.loss,
                    "1",
                    f"{activity.name} ran from {clock(activity.t0_s, case.clock_zero_s)} to"
                    f" {clock(activity.t1_s, case.clock_zero_s)}: {effects_text}",
                ),
            ),
            advice=f"Move {activity.name} out of the busy hours or to a replica, throttle it, or take volume"
            " snapshots.",
        )


P95_TRANSACTIONS_MIN = 20
"""Of fewer values, p95 is the slowest, or a point between the two slowest."""


@dataclass(frozen=True, kw_only=True)
class _Effect:
    """What something beside the load did to one of its metrics. `loss` is the share of speed that it took.

    `is_of_few`: a p95 of intervals with fewer transactions than it needs.
    """

    loss: float
    beyond_noise: bool
    samples: int
    text: str
    is_of_few: bool


def _worst(effects: Sequence[_Effect]) -> _Effect | None:
    """The effect that took most, of those beyond noise that took enough to be named; None without one."""
    beyond = [effect for effect in effects if effect.beyond_noise and effect.loss >= limit.INTERFERENCE_MIN]
    return max(beyond, key=lambda effect: effect.loss, default=None)


def _read_share(case: Case, span: Mask | slice) -> float | None:
    """Share of statement time that reads of data files took, in a part of the window."""
    budget = case.budget
    if budget is None or "data_reads" not in budget.seconds:
        return None
    total = float(np.nansum(budget.statement_s[span]))
    return min(1.0, float(np.nansum(budget.seconds["data_reads"][span])) / total) if total > 0 else None


def _during(case: Case, activity: ConcurrentActivity) -> Mask:
    middle = case.grid.t_s - case.grid.width_s / 2
    return (middle > activity.t0_s) & (middle <= activity.t1_s)


def _are_few(case: Case, during: Mask) -> bool:
    """Whether an interval has too few transactions for a p95: of two, it lies between both."""
    tps = case.at(Client.tps)
    slowest = None if tps is None else min(median(tps[during]) or 0.0, median(tps[~during]) or 0.0)
    return slowest is not None and slowest * case.grid.width_s < P95_TRANSACTIONS_MIN


def _effect(case: Case, activity: ConcurrentActivity, metric: NamedMetric) -> _Effect | None:
    values = case.at(metric)
    if values is None:
        return None
    during = _during(case, activity)
    counts = [int(np.isfinite(values[span]).sum()) for span in (during, ~during)]
    with_it, without = median(values[during]), median(values[~during])
    if min(counts) < limit.INTERFERENCE_SAMPLES or not with_it or not without:
        return None
    higher_is_better = metric == Client.tps
    loss = 1 - (with_it / without if higher_is_better else without / with_it)
    unit = "tps" if higher_is_better else f"ms {metric.name[-3:]}"
    worse = -values if higher_is_better else values
    return _Effect(
        loss=loss,
        beyond_noise=loss > 0 and rank_sum_z(worse[during], worse[~during]) >= limit.INTERFERENCE_Z,
        samples=min(counts),
        text=""  # rates of a few a second are whole numbers: the same median says nothing
        if with_it == without
        else f"{number(with_it)} {unit} with it, {number(without)} without",
        is_of_few=metric == Client.latency_ms_p95 and _are_few(case, during),
    )


READS_EXPLAINED = frozenset(
    {
        "host.io_limit",
        "host.io_wait",
        "instance.storage_limit",
        "interference.io",
        "interference.shared_volume",
        "memory.reclaim",
        "storage.burst_exhausted",
        "storage.degraded",
        "storage.iops_limit",
        "storage.lazy_load",
        "storage.metadata_latency",
        "storage.read_latency",
        "storage.readahead_small",
        "storage.replication",
        "storage.split_operations",
        "storage.stall",
        "storage.throughput_limit",
    }
)
"""Causes that may be why reads take long, so that they are not the pool's fault alone."""
RULES = (
    Rule(name=CLIENT_BUSY, causes=frozenset({CLIENT_SATURATED}), find=_client),
    Rule(name="full redo log", causes=frozenset({"redo.checkpoint_stall"}), find=_checkpoint),
    Rule(name="task of the suite", causes=frozenset({"interference.backup"}), find=_interference),
    Rule(
        name="pages read too often",
        causes=frozenset({"memory.buffer_pool_small"}),
        find=_pool,
        yields_to_much=READS_EXPLAINED,
    ),
)
