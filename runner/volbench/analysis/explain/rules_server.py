"""Rules that name something else than the volume: CPU, memory, locks, the redo log, other work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from volbench.analysis.explain import thresholds as limit
from volbench.analysis.explain.align import Floats, Mask, mean, median, quantile
from volbench.analysis.explain.case import Beside, Case
from volbench.analysis.explain.cliffs import rank_sum_z
from volbench.analysis.explain.found import Found
from volbench.analysis.explain.shared_evidence import data_read_ms, slowest_sync_ms, sync_by_volume_ms
from volbench.analysis.explain.wording import clock, number, percent, row
from volbench.records.report import EvidenceRow

_PAGE_BYTES = 16_384


def server_findings(case: Case, *, volume_named: bool) -> list[Found]:
    """What acts beside the volume.

    Args:
        case: the step.
        volume_named: a storage cause was found already, so that many reads are not the pool's fault alone.
    """
    bound = [*_client(case)]
    cpu = [] if bound else [*_cpu(case)] or [*_starved_syncs(case)]  # a client that is behind tells nothing
    found = [*bound, *_steal(case), *cpu, *_locks(case), *_checkpoint(case), *_interference(case)]
    return found if volume_named else [*found, *_pool(case)]


def _client(case: Case) -> Iterator[Found]:
    used, held = case.client_cpu_ratio, case.client_throttled
    bound = [used is not None and used >= limit.CLIENT_CPU_MIN, held is not None and held >= limit.THROTTLED_MIN]
    if not any(bound):
        return
    rows = []
    if used is not None:
        text = f"sysbench used {percent(used)} of the CPU that it can use"
        rows.append(row("client_cpu_ratio", used, "1", text))
    if held is not None:
        text = f"a CPU quota held the client back in {percent(held)} of its periods"
        rows.append(row("client_throttled_ratio", held, "1", text))
    checks = [True, used is None or bound[0], held is None or bound[1]]
    yield Found(
        cause="cpu.client_saturated",
        window_s=case.window_s,
        share=None,
        checks=tuple(checks),
        evidence=tuple(rows),
        advice="The load generator is the limit: give it more CPUs, or fewer threads. The cell is invalid.",
    )


def _steal(case: Case) -> Iterator[Found]:
    stolen = mean(case.at("steal_ratio", "cpu"))
    if stolen is not None and stolen >= limit.STEAL_MIN:
        yield _simple(
            case, "cpu.steal", None, [True, stolen >= 2 * limit.STEAL_MIN],
            row("steal_ratio", stolen, "1", f"the hypervisor took {percent(stolen)} of the CPU time"),
            "Another host or instance type (no burstable one), or fewer neighbours.",
        )  # fmt: skip


def _cpu(case: Case) -> Iterator[Found]:
    """The CPUs of the host, or the part of them that a quota leaves the server."""
    busy, pressure, held = case.cpu_busy, median(case.at("cpu_some_ratio", "psi")), case.server_throttled
    rest = case.budget.no_wait if case.budget is not None else None
    if case.waiting_share is not None:
        rest = 1 - case.waiting_share
    throttled = held is not None and held >= limit.THROTTLED_MIN
    reach = None if throttled else case.cpu_reach
    if rest is not None and reach is not None:
        rest = min(rest, reach)  # others may fill the CPUs of a host whose server waits for something else
    if not (throttled or case.cpu_bound) or (rest is not None and rest < limit.CPU_SHARE_MIN):
        return
    rows = []
    if throttled and held is not None:
        used = mean(case.grid.column("cgroup_cpu", "cpus_used", "server"))
        given = "" if used is None else f" and left it {number(used)} CPUs"
        text = f"a CPU quota held the server back in {percent(held)} of its periods{given}"
        rows.append(row("server_throttled_ratio", held, "1", text))
    if busy is not None:
        rows.append(row("cpu_busy_ratio", busy, "1", f"the host's CPUs are {percent(busy)} busy"))
    if pressure is not None:
        waited = f"tasks waited for a CPU in {percent(pressure)} of the time"
        rows.append(row("cpu_some_ratio", pressure, "1", waited))
    if rest is not None:
        text = "of the time nothing waits for the volume"
        if case.waiting_share is None:
            text = "of statement time is neither file nor lock waits"
        rows.append(row("rest_share", rest, "1", f"{percent(rest)} {text}"))
    checks = [True, throttled or (None if pressure is None else True), None if rest is None else True]
    yield Found(
        cause="cpu.server_saturated",
        window_s=case.window_s,
        share=rest,
        checks=tuple(checks),
        evidence=tuple(rows),
        advice="More CPU for the server (a larger quota where one holds it back), or less other work on this host:"
        " a faster volume changes little here.",
    )


def _starved_syncs(case: Case) -> Iterator[Found]:
    """Commits whose fsyncs wait for a CPU, which something else than this load uses: no fault of the volume."""
    volume_ms, sync_ms, budget = sync_by_volume_ms(case), slowest_sync_ms(case), case.budget
    if volume_ms is None or sync_ms is None or budget is None or case.cpu_busy is None:
        return
    share = budget.share("redo_sync", "binlog_sync", "binlog_group") * (1 - volume_ms / sync_ms)
    if share < limit.SHARE_MIN or sync_ms < limit.SYNC_SLOW_MS:
        return
    own = budget.share("cpu")
    text = (
        f"an fsync of the log takes {number(sync_ms)} ms, a write and a flush of the volume {number(volume_ms)} ms:"
        " most of it is waiting for a CPU"
    )
    used = f"the host's CPUs are {percent(case.cpu_busy)} busy; {percent(own)} of statement time is CPU time"
    checks = [True, sync_ms >= 2 * limit.SYNC_BY_VOLUME * volume_ms or None, own < limit.CPU_SHARE_MIN or None]
    yield Found(
        cause="cpu.server_saturated",
        window_s=case.window_s,
        share=share,
        checks=tuple(checks),
        evidence=(
            row("sync_ms", sync_ms, "ms", text),
            row("cpu_busy_ratio", case.cpu_busy, "1", used),
        ),
        advice="Less other work on this host, or more CPUs: a faster volume changes little here.",
    )


def _locks(case: Case) -> Iterator[Found]:
    share = case.budget.share("row_locks") if case.budget is not None else None
    if share is None or share < limit.ROW_LOCK_SHARE_MIN:
        return
    waits = mean(case.at("row_lock_waits_per_s", "innodb")) or 0.0
    spent = mean(case.at("row_lock_wait_s_per_s", "innodb"))
    each = f" of {number(1000 * spent / waits)} ms each" if spent and waits else ""
    yield _simple(
        case, "lock.row_contention", share, [True, waits >= 1],
        row(
            "row_lock_share", share, "1",
            f"{percent(share)} of statement time is waiting for row locks, {number(waits)} waits a second{each}",
        ),
        "Shorter transactions and fewer hot rows: storage is waited for only while a lock is held.",
    )  # fmt: skip


def _checkpoint(case: Case) -> Iterator[Found]:
    """The redo log is full: writers wait for pages to be flushed, which no instrument shows.

    A log that is written full within seconds fills and empties between two ticks: then its highest tick counts,
    and no dip of the throughput can be asked for.
    """
    age, tps = case.at("checkpoint_age_ratio", "innodb"), case.at("tps")
    turnover_s = _redo_turnover_s(case)
    fast = turnover_s is not None and turnover_s < limit.REDO_TURNOVER_TICKS * case.grid.width_s
    full = quantile(age, 1.0 if fast else 0.9)
    if age is None or full is None or full < limit.CHECKPOINT_AGE_FULL:
        return
    dips = None
    if tps is not None and not fast:
        high, low = median(tps[age >= limit.CHECKPOINT_AGE_FULL]), median(tps[age < limit.CHECKPOINT_AGE_FULL])
        dips = None if high is None or low is None else high <= 0.8 * low
    rest = unseen = None
    if case.budget is not None and case.cpu_busy is not None:
        # Where the statements' own CPU time is known, what is left is waiting, unless they wait for a CPU.
        known = case.statement_cpu_s_per_s is not None
        rest = case.budget.share("rest") if known else case.budget.no_wait
        computing = case.cpu_bound if known else case.cpu_busy > limit.CPU_IDLE_MAX
        if case.cpu_reach is not None:
            computing = case.cpu_reach >= rest
        unseen = rest >= limit.STORAGE_SHARE_MIN and not computing
    if dips is False or not (dips or unseen):
        return
    capacity = _redo_capacity(case)
    now = "" if capacity is None else f" (now {capacity >> 20} MiB)"
    text = f"the redo log is {percent(full)} full of changes not yet flushed: InnoDB holds writers back"
    rows = [row("checkpoint_age_ratio", full, "1", text)]
    if turnover_s is not None:
        rows.append(row("redo_turnover_s", turnover_s, "s", f"what it holds is written in {number(turnover_s)} s"))
    if unseen and rest is not None:
        text = f"{percent(rest)} of statement time is no wait that is seen, and no CPU time"
        rows.append(row("rest_share", rest, "1", text))
    checks = [True, dips, unseen, fast or None]
    yield Found(
        cause="redo.checkpoint_stall",
        window_s=case.window_s,
        share=rest if unseen else None,
        checks=tuple(checks),
        evidence=tuple(rows),
        advice=f"A larger redo log{now}, and enough innodb_io_capacity to flush steadily.{_enough_redo(case)}",
    )


def _redo_capacity(case: Case) -> int | None:
    found = case.variables.get("innodb_redo_log_capacity") or case.variables.get("innodb_log_file_size", "")
    return int(found) if found.isdigit() and int(found) > 0 else None


def _redo_turnover_s(case: Case) -> float | None:
    """How long it takes to write as much redo as the log holds."""
    written, capacity = mean(case.at("os_log_written_mib_per_s", "innodb")), _redo_capacity(case)
    return capacity / 2**20 / written if capacity is not None and written else None


def _enough_redo(case: Case) -> str:
    """How much redo this load writes in the time that a log should hold."""
    written = mean(case.at("os_log_written_mib_per_s", "innodb"))
    if not written:
        return ""
    minutes = limit.REDO_HOLDS_S / 60
    return (
        f" This load writes {number(written)} MiB/s of redo, {number(written * limit.REDO_HOLDS_S / 1024)} GiB in"
        f" {number(minutes)} minutes."
    )


def _pool(case: Case) -> Iterator[Found]:
    """Reads that are fast each, and too many: the pool was read full at least once within the window.

    While something runs beside the load, the pages read are not the load's alone: that time is left out.
    """
    misses, reads = case.at("buffer_pool_miss_ratio", "innodb"), case.at("pages_read_per_s", "innodb")
    pool, page = (case.variables.get(name, "") for name in ("innodb_buffer_pool_size", "innodb_page_size"))
    alone = ~np.logical_or.reduce([_during(case, other) for other in case.beside]) if case.beside else None
    part = slice(None) if alone is None else alone
    share = _read_share(case, part)
    if misses is None or reads is None or share is None or not pool.isdigit() or int(pool) <= 0:
        return
    missed = median(misses[part])
    turnover = (
        float(np.nansum(reads[part]))
        * case.grid.width_s
        * (int(page) if page.isdigit() else _PAGE_BYTES)
        / int(pool)
    )
    if missed is None or missed < limit.POOL_MISS_MIN or share < limit.POOL_SHARE_MIN or turnover < 1:
        return
    if alone is not None:
        share *= case.time_share_of(alone)
    read_ms = data_read_ms(case)
    if read_ms is not None and read_ms >= limit.READ_SLOW_MS:
        return
    yield _simple(
        case, "memory.buffer_pool_small", share, [True, turnover >= 2, None if read_ms is None else True],
        row(
            "buffer_pool_miss_ratio", missed, "1",
            f"{percent(missed)} of page requests must read{_read_each(reads[part], read_ms)}; what was read is"
            f" {turnover:.1f} times the buffer pool of {int(pool) >> 20} MiB",
        ),
        "A larger buffer pool, as far as memory goes: the volume answers fast, it is asked too often.",
    )  # fmt: skip


def _read_each(pages: Floats, read_ms: float | None) -> str:
    """How many pages are read, and how fast, in words."""
    rate = mean(pages)
    each = "" if read_ms is None else f", a read takes {number(read_ms)} ms"
    return "" if rate is None else f", {number(rate)} pages a second{each}"


_EFFECTS = ("tps", "latency_ms_p50", "latency_ms_p95", "latency_ms_avg")
"""The mean is known of observed servers, some of which keep no percentiles."""


def _interference(case: Case) -> Iterator[Found]:
    """Something ran beside the load for part of the window: with it against without it.

    A closed loop shows it in its throughput, a load at a fixed rate in its latency.
    """
    for other in case.beside:
        effects = [_effect(case, other, name) for name in _EFFECTS]
        known = [one for one in effects if one is not None]
        worst = max(known, key=lambda one: one.loss * one.beyond_noise, default=None)
        if worst is None or worst.loss < limit.INTERFERENCE_MIN or not worst.beyond_noise:
            continue
        shown = "; ".join(one.text for one in known)
        yield Found(
            cause="interference.backup",
            window_s=(max(other.t0_s, case.window_s[0]), min(other.t1_s, case.window_s[1])),
            share=worst.loss * case.time_share((other.t0_s, other.t1_s)),
            checks=(True, worst.beyond_noise, worst.samples >= 20 or None),
            evidence=(
                row(
                    "loss", worst.loss, "1",
                    f"{other.name} ran from {clock(other.t0_s, case.clock_zero_s)} to"
                    f" {clock(other.t1_s, case.clock_zero_s)}: {shown}",
                ),
            ),
            advice=f"Move {other.name} out of the busy hours or to a replica, throttle it, or take volume"
            " snapshots.",
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Effect:
    """What something beside the load did to one of its metrics. `loss` is the share of speed that it took."""

    loss: float
    beyond_noise: bool
    samples: int
    text: str


def _read_share(case: Case, part: Mask | slice) -> float | None:
    """Share of statement time that reads of data files took, in a part of the window."""
    budget = case.budget
    if budget is None or "data_reads" not in budget.parts:
        return None
    total = float(np.nansum(budget.statement_s[part]))
    return min(1.0, float(np.nansum(budget.parts["data_reads"][part])) / total) if total > 0 else None


def _during(case: Case, other: Beside) -> Mask:
    middle = case.grid.t_s - case.grid.width_s / 2
    return (middle > other.t0_s) & (middle <= other.t1_s)


def _effect(case: Case, other: Beside, metric: str) -> _Effect | None:
    values = case.at(metric)
    if values is None:
        return None
    during = _during(case, other)
    counts = [int(np.isfinite(values[part]).sum()) for part in (during, ~during)]
    with_it, without = median(values[during]), median(values[~during])
    if min(counts) < limit.INTERFERENCE_SAMPLES or not with_it or not without:
        return None
    higher_is_better = metric == "tps"
    loss = 1 - (with_it / without if higher_is_better else without / with_it)
    unit = "tps" if higher_is_better else f"ms {metric[-3:]}"
    worse = -values if higher_is_better else values
    return _Effect(
        loss=loss,
        beyond_noise=loss > 0 and rank_sum_z(worse[during], worse[~during]) >= limit.INTERFERENCE_Z,
        samples=min(counts),
        text=f"{number(with_it)} {unit} with it, {number(without)} without",
    )


def _simple(
    case: Case, cause: str, share: float | None, checks: list[bool | None], evidence: EvidenceRow, advice: str
) -> Found:
    return Found(
        cause=cause,
        window_s=case.window_s,
        share=share,
        checks=tuple(checks),
        evidence=(evidence,),
        advice=advice,
    )
