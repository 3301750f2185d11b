"""Evidence and checks that belong to every finding about the volume."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from volbench.core.records.named_metrics import (
    CPU,
    PERCENTILES,
    PSI,
    Client,
    PerformanceSchema,
    RoundTrip,
)
from volbench.core.records.report import EvidenceRow
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.budget import PART_TEXT, STORAGE
from volbench.results.explain.evidence.cliffs import rank_sum_z
from volbench.results.explain.evidence.device import LITTLE_TOLERANCE, little_ratio
from volbench.results.explain.evidence.layers import LOGS, device_flow, server_flow
from volbench.results.explain.evidence.stalls import without_stalls
from volbench.results.explain.evidence.stands import (
    Stand,
    completed_less,
    held_statements,
    period_s,
    waited_for_io,
    was_idle,
)
from volbench.results.explain.evidence.waited_direction import busy_share_max
from volbench.results.explain.wording import before_and_after, clock, number, percent, row
from volbench.results.stats.grid import Mask, mean, median

PARTS_SHOWN = 3
STANDING_MIN = 0.1
"""Of a step: with so much of it in stands, what was there all along explains the rest only."""
MOVING_MIN = 0.25
"""Of the intervals: with less left, stands are what a step mostly is."""
NICED_MIN = 0.01
"""Of all CPUs' time: less is not worth a word."""
RISE_MIN = 1.2
"""Latency after against before, from which it rose."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A figure of this server in some intervals against the rest of the step.

    `slowdown`: how many times worse; `is_worse`: worse beyond noise.
    """

    slowdown: float
    is_worse: bool
    evidence: EvidenceRow


def effect_rows(case: Case, during: Mask, *, without: Mask | None = None) -> Iterator[Effect]:
    """What changed for this server and its clients in some intervals, against the rest of the step.

    Args:
        case: the step.
        during: the intervals, shape (buckets,).
        without: those that they are compared with, shape (buckets,); None: all others.

    Figures with fewer than FOREIGN_SAMPLES known intervals on either side are left out.
    """
    reads, syncs = server_flow(case.grid, "read", ("data",)), server_flow(case.grid, "sync", LOGS)
    for metric, values, unit, noun, higher_is_worse in (
        ("tps", case.at(Client.tps), "1/s", "transactions a second", False),
        ("latency_ms_p95", case.at(Client.latency_ms_p95), "ms", "ms p95 in the median interval", True),
        ("read_ms", None if reads is None else reads.each_ms_series, "ms", "ms for a read", True),
        ("sync_ms", None if syncs is None else syncs.each_ms_series, "ms", "ms for a sync of a log", True),
    ):
        if values is None:
            continue
        inside, outside = values[during], values[~during if without is None else without]
        samples = min(int(np.isfinite(inside).sum()), int(np.isfinite(outside).sum()))
        now, before = median(inside), median(outside)
        if samples < limit.FOREIGN_SAMPLES or not now or not before:
            continue
        slowdown = now / before if higher_is_worse else before / now
        z = rank_sum_z(inside, outside) * (1 if higher_is_worse else -1)
        text = f"{number(before)} {noun} without it, {number(now)} with it"
        yield Effect(
            slowdown=slowdown,
            is_worse=slowdown > 1 / (1 - limit.INTERFERENCE_MIN) and z >= limit.INTERFERENCE_Z,
            evidence=row(metric, now, unit, text),
        )


def waited_operation(case: Case) -> str:
    """What sessions wait for at the volume, as a noun: reads or writes alone where that is known."""
    has_direction = case.waited_device is not case.device
    return {"read": "a read", "write": "a write"}.get(
        (case.waited_direction or "") if has_direction else "", "an operation"
    )


P95 = "latency_ms_p95"
CLIENT_FIGURES = frozenset({"tps", P95})
"""Effects that users notice: a read or a sync that takes longer is a part of a transaction, perhaps a small one."""


def loss_rows(effects: Sequence[Effect]) -> Iterator[EvidenceRow]:
    """The speed that clients lost meanwhile, as a share: what was there before explains only the rest.

    A rate tells it. Where the rate did not fall (an open loop) or is not known, p95 tells how much slower the slow
    ones were; a speed that is not.
    """
    slowdowns = {effect.evidence.metric: effect.slowdown for effect in effects if effect.is_worse}
    if "tps" in slowdowns:
        loss = 1 - 1 / slowdowns["tps"]
        yield row("loss", loss, "1", f"{percent(loss)} of the speed was lost meanwhile")
    elif P95 in slowdowns:
        text = f"p95 was {number(slowdowns[P95])} times as long meanwhile"
        yield row("loss", 1 - 1 / slowdowns[P95], "1", text)


def context(case: Case) -> Iterator[EvidenceRow]:
    """Who pays for the volume, and how busy the CPU is."""
    budget = case.budget
    if budget is not None:
        names = (*STORAGE, "binlog_group")
        largest = sorted(names, key=lambda name: -budget.shares.get(name, 0.0))[:PARTS_SHOWN]
        listed = ", ".join(
            f"{percent(budget.share(name))} {PART_TEXT[name]}" for name in largest if budget.share(name)
        )
        if listed:
            yield row("storage_share", budget.storage_share, "1", f"of foreground statement time: {listed}")
        if budget.share("cpu"):
            text = f"{percent(budget.share('cpu'))} of it is CPU time of statements"
            yield row("statement_cpu_share", budget.share("cpu"), "1", text)
    unseen = case.unseen_share
    if budget is not None and budget.hides_commits and unseen is not None and unseen >= limit.UNSEEN_SHARE_MIN:
        text = (
            f"{percent(unseen)} is no instrumented wait and more than all CPU time: commits that wait for the log"
            " have no instrument here"
        )
        yield row("unseen_share", unseen, "1", text)
    yield from busy_rows(case)


def busy_rows(case: Case) -> Iterator[EvidenceRow]:
    """How busy the host's CPUs are, and how much of it gives way to the server."""
    niced = median(case.at(CPU.nice_ratio))
    if case.cpu_busy is not None:
        gives_way = (
            f", {percent(niced)} with niced programs, which give way" if niced and niced >= NICED_MIN else ""
        )
        text = f"the host's CPUs are {percent(case.cpu_busy)} busy{gives_way}"
        yield row("cpu_busy_ratio", case.cpu_busy, "1", text)


def latency_rise(case: Case, index: int) -> str | None:
    """How the client's latency rose from one interval on, in words; None where it did not, or is not known."""
    for label, metric in PERCENTILES.items():
        values = case.at(metric)
        levels = None if values is None else before_and_after(values, index)
        if levels is not None and levels[1] > RISE_MIN * levels[0]:
            return f"{label} rose from {number(levels[0])} to {number(levels[1])} ms"
    return None


def throughput_fall(case: Case, index: int) -> Iterator[EvidenceRow]:
    """Transactions per second before and after."""
    values = case.at(Client.tps)
    levels = None if values is None else before_and_after(values, index)
    if levels is not None:
        text = f"{number(levels[0])} transactions a second before, {number(levels[1])} after"
        yield row("tps", levels[1], "1/s", text)


def latency_floor(case: Case) -> Iterator[EvidenceRow]:
    """What the volume takes for one operation without a queue: no limit and no load explains that part."""
    floor = case.base_await_ms
    if floor is not None:
        text = f"without a queue (depth 1) an operation takes {number(floor)} ms: the volume's own latency"
        yield row("latency_floor_ms", floor, "ms", text)


def data_read_ms(case: Case) -> float | None:
    """Mean time of a read, of the volume's own counters or else as the server sees it, stalls left out.

    Time adds up over operations: of reads of which one in a hundred takes 280 ms the median says nothing.
    """
    moving = without_stands(case)
    device = device_flow(moving.device, "read") if moving.device is not None else None
    each_ms = None if device is None else device.each_ms
    if each_ms is not None:
        return each_ms
    files = server_flow(moving.grid, "read", ("data",))
    of_files = None if files is None else files.each_ms
    return median(moving.grid.column(*PerformanceSchema.file_read_ms, "data")) if of_files is None else of_files


def without_stands(case: Case) -> Case:
    """The case while the volume moved: a stall is a finding of its own, and no latency of an operation."""
    grid, standing = without_stalls(case.grid, case.storage_stalls), stands_of(case)
    if grid is case.grid and standing.who:
        moving = ~standing.around(len(grid))
        grid = grid.where(moving) if moving.mean() >= MOVING_MIN else grid
    return case if grid is case.grid else replace(case, grid=grid)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Parts of intervals in which all clients stood still, and who stood with them.

    `who`: the server, the volume; empty where it was the way or the client, or is not known. `idle`: the device
    had nothing to do meanwhile, so that a volume that stood has a layer above it that held its operations;
    `in_statements`: clients stood within statements; None: not known. `loss`: of the transactions that fit into
    them, the share that is missing; 0 where they are too little of the step to be what it suffers from.
    """

    stands: tuple[Stand, ...] = ()
    who: Literal["server", "volume", ""] = ""
    idle: bool | None = None
    in_statements: bool | None = None
    loss: float = 0.0
    window_s: tuple[float, float] = (0.0, 0.0)

    def around(self, buckets: int) -> Mask:
        """Intervals in which a stand lies or ends, shape (buckets,)."""
        mask = np.zeros(buckets, dtype=np.bool_)
        for stand in self.stands:
            mask[stand.buckets] = True
        return mask


def stands_of(case: Case) -> Standing:
    """The stands of a step's clients, and whether the volume or the server stood; see `evidence.stands`."""
    tps, width_s, stands = case.at(Client.tps), case.grid.width_s, case.client_stands
    if not stands or tps is None:
        return Standing()
    device = case.device
    busy = None if device is None else device.util if device.util is not None else device.in_flight
    idle = was_idle(busy, stands, width_s)
    statements = None if case.budget is None else case.budget.statement_s
    inside = held_statements(statements, stands, case.threads, width_s)
    waited = idle is True and waited_for_io(case.at(PSI.io_some_ratio), stands, width_s) is True
    by_volume = device is not None and (waited or (idle is False and completed_less(device.iops, stands)))
    remote = case.at(RoundTrip.round_trip_ms_min) is not None
    by_server = (idle is True or device is None) and inside is not False and (inside is True or not remote)
    around = np.zeros(len(tps), dtype=np.bool_)
    for stand in stands:
        around[stand.buckets] = True
    usual, seconds = mean(tps[~around]) or 0.0, sum(stand.length_s for stand in stands)
    missing = float(np.nansum(np.maximum(0.0, usual - tps[around]))) * width_s
    return Standing(
        stands=stands,
        who="volume" if by_volume else "server" if by_server else "",
        idle=idle,
        in_statements=inside,
        loss=min(1.0, missing / (usual * seconds)) if usual and seconds >= STANDING_MIN * case.length_s else 0.0,
        window_s=(
            float(case.grid.t_s[stands[0].first]) - width_s,
            float(case.grid.t_s[stands[-1].last]),
        ),
    )


def stand_share(case: Case, seconds: float, around: Mask) -> float:
    """Of the clients' time, what they spent while nothing went on.

    Clients of a closed loop are always at a transaction: it is that part of the step. Those of a load with a rate
    of its own are at one for a small part of the time, and all of them in a stand: it is that part of the time of
    statements, which is counted when they end.

    Args:
        case: the step.
        seconds: of all stands.
        around: intervals in which they lie or end, shape (buckets,).
    """
    of_step = min(1.0, seconds / case.length_s)
    if case.rate is None or case.budget is None:
        return of_step
    return max(of_step, case.time_share_of(around))


def stand_loss_rows(standing: Standing) -> Iterator[EvidenceRow]:
    """What of the speed was lost in stands, where they are a good part of the step."""
    if standing.loss > 0:
        yield row("loss", standing.loss, "1", f"{percent(standing.loss)} of the speed was lost meanwhile")


def stands_text(case: Case, stands: Sequence[Stand]) -> str:
    """How long and how often, and with which period, in words."""
    lengths = [stand.length_s for stand in stands]
    period = period_s(stands, case.grid.width_s)
    again = "" if period is None else f", each {number(period)} s again"
    first = clock(float(case.grid.t_s[stands[0].last]), case.clock_zero_s)
    if len(stands) == 1:
        return f"{number(lengths[0])} s until {first}"
    span = f"{number(min(lengths))} to {number(max(lengths))} s"
    return f"{number(sum(lengths))} s in all, {len(stands)} times for {span}{again}, first until {first}"


def storage_is_negligible(case: Case) -> bool:
    """Known not to matter: queries hardly wait for files, however busy or slow the volume is."""
    return case.storage_share is not None and case.storage_share < limit.SHARE_MIN


def volume_share_max(case: Case) -> float | None:
    """The share of statement time that can be waiting for the volume at most; None where that is not known.

    A session waits for the volume only while an operation is in flight there, whatever it waits for: a page, a sync
    of its own, another session's group commit, a lock whose holder waits for one of these. An operation is in
    flight for the share U of time (the device's utilisation), and U <= N, the mean number in flight (Markov's
    inequality; N = X * W by Little's law); of reads or writes alone where sessions wait for these alone
    (`busy_share_max`). Meanwhile at most all C clients wait for it. Of S seconds of statements
    in each second, waits for the volume are therefore at most

        min(U, N) * C / S

    It holds for waits at the device only: what a limit above it holds back is not in flight there.
    """
    statements = None if case.budget is None else mean(case.budget.statement_s)
    busy = busy_share_max(case.device, case.waited_device)
    if busy is None or not statements or not case.threads:
        return None
    return min(1.0, busy * case.threads / statements)


def explains_little(case: Case) -> bool:
    """Whether queries hardly wait for files, or the device cannot be what they wait for."""
    most = volume_share_max(case)
    return storage_is_negligible(case) or (most is not None and most < limit.SHARE_MIN)


def queue_holds(case: Case) -> bool | None:
    """Whether the recorded queue is what Little's law says; None without a recorded queue."""
    ratio = little_ratio(case.device) if case.device is not None else None
    return None if ratio is None else abs(ratio - 1) <= LITTLE_TOLERANCE
