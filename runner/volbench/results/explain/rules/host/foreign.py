"""The rule that names I/O of others on the same device, from the balance of layers (`layers.foreign_flow`)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from volbench.core.records.named_metrics import VM
from volbench.core.records.report import EvidenceRow
from volbench.core.records.steps import step_kind
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.evidence.foreign import (
    BLOCK_MIB,
    FOREIGN_MIB_MIN,
    FOREIGN_OPERATIONS_MIN,
    ForeignFlow,
    part_beyond_group,
)
from volbench.results.explain.evidence.layers import stretches
from volbench.results.explain.rule import EXPLAINS_WAITS, FOREIGN, Rule
from volbench.results.explain.rules.host.above_device import GAP_S
from volbench.results.explain.rules.host.foreign_share import (
    explained_share,
    is_of_clients_time,
    part_of_device,
    part_of_step,
    sufficient_share,
)
from volbench.results.explain.rules.host.processors import cpu_part_of_rise
from volbench.results.explain.rules.shared_evidence import (
    CLIENT_FIGURES,
    Effect,
    context,
    effect_rows,
    explains_little,
    loss_rows,
)
from volbench.results.explain.topics import USE_OF_VOLUME
from volbench.results.explain.wording import clock, number, percent, row
from volbench.results.stats.grid import Floats, Mask, mean

CAUSES = (
    CauseInfo(
        name="interference.io",
        waits_for_volume=True,
        claims=frozenset({"foreign", "episode"}),
        group="something else uses the disk or the CPUs",
        title="Something else reads or writes on the same disk",
        panels=("iops", "throughput_mib"),
        accounts_for=USE_OF_VOLUME,
        explains_fall=True,
        is_change=True,
        moment="I/O of others begins",
        meaning="Another program or volume reads from the same device, writes to it or discards blocks.",
        signs=(
            "The device serves more reads, writes or discards than the server sent: at least a quarter of all, and"
            " 20 a second or 2 MiB/s, in three intervals or more, cumulated over all of them. Bytes decide: more"
            " operations with no more bytes are operations that were split (`max_sectors_kb`, a RAID), not somebody"
            " else's. Where the others' I/O begins within the window, the server's operations become slower at that"
            " time. Without such an effect it explains at most the part of an operation's time for which it waits"
            " behind others: of N operations in flight, N / (1 + N), and the others' part of that. What others do"
            " must be enough for the loss: a part s of the device's work, each piece at most 4 times as costly as"
            " one of the server's. What a transaction is longer on or before a CPU then is not put down to it."
            " Where half of it may be swap, or discards of a file system that is mounted with `discard`, it may be"
            " nobody else's, and the finding is less sure."
            " Under 15 % of the latency of its time it is not named."
        ),
        advice=(
            "Find the other user (`iotop`, `pidstat -d`, volumes on the same disk, a snapshot) and move it, or"
            " give the database a volume of its own."
        ),
    ),
)


NEIGHBOUR = "interference.io"
LOGICAL_TOOLS = ("mysqldump", "mariadb-dump", "mydumper")
"""Backup tools that read through the server: its reads are theirs. Others read the files themselves."""
SERVERS_OWN = ("alter", "purge")
"""Steps whose reads and writes are the server's: it changes a table."""
ENOUGH = 0.8
"""Of a loss, what others' part of the device must be able to take, to be its cause."""
MOST_OF_DEVICE = 0.5
"""Of the device's operations or bytes: who has less is not who fills it."""
CPUS_MAX = 0.75
"""Of what a transaction took longer: with more of it on or before CPUs, others' I/O took little of it."""
CPUS_SHOWN_MIN = 0.15
DOUBTFUL_MIN = 0.5
"""Of others' I/O: with so much of it that the kernel may have made for this server, it may be nobody else's."""
_SWAP_PAGE_MIB = 4 / 1024
_DISCARDS_AT_ONCE = "discard"
"""Mount option: the file system discards the blocks of each file that is deleted or made shorter."""
MOST_OF = 0.9
"""Where I/O of others fills less than this of the time from its begin to its end, the finding says how much."""
_FIND_WHO = (
    "Find who else uses this device (iotop -aoP, pidstat -d 1, other volumes on the same disk, a backup, a"
    " snapshot, fstrim) and move that I/O to another device or time, or limit it (io.max of its control group)."
)


def foreign_findings(case: Case) -> list[Cause]:
    """I/O of others on the same device, with its time, its size, and what it does to this server."""
    flow = case.foreign
    if flow is None or case.device is None or explains_little(case):
        return []
    active = foreign_intervals(case, flow)
    if active is None:
        return []
    first, last = int(np.flatnonzero(active)[0]), int(np.flatnonzero(active)[-1])
    bounded = first >= limit.FOREIGN_SAMPLES or len(active) - 1 - last >= limit.FOREIGN_SAMPLES
    window_s = case.grid.window_of(active)
    effects = [*effect_rows(case, active)] if bounded else []
    worst = _worst(effects)
    cpus = _at_cpus(case, active, worst)
    share = explained_share(case, flow, active, worst, left=1 - cpus)
    meanwhile = None if share is None else share / (part_of_step(case, active, worst) or 1.0)
    if worst is None and meanwhile is not None and meanwhile < limit.SHARE_MIN:  # nobody waits for it
        return []
    enough = None if worst is None else sufficient_share(case, flow, active) >= ENOUGH * (1 - 1 / worst.slowdown)
    doubts = [*_doubt_rows(case, flow, active)]
    if cpus > CPUS_MAX or doubts:
        enough = False
    checks = (
        True,
        True if bounded else None,
        None if not effects else worst is not None and worst.slowdown >= limit.FOREIGN_SLOWDOWN,
        enough,
    )
    return [
        Cause(
            cause=NEIGHBOUR,
            window_s=window_s,
            share=share,
            of_clients=is_of_clients_time(worst),
            checks=checks,
            evidence=(
                *_flow_rows(case, flow, active, bounded=bounded),
                *_clear_rows(effects, worst),
                *loss_rows(effects),
                *_cpu_rows(cpus),
                *doubts,
                *context(case),
            ),
            advice=f"{_amount_to_move(flow, active)} {_FIND_WHO}",
            decided_by="before and after" if worst is not None else "level",
            leads=worst is not None or others_have_most(case),
        )
    ]


def _worst(effects: list[Effect]) -> Effect | None:
    """What became most worse: of the clients' figures, or of the server's where no client became slower."""
    worse = [effect for effect in effects if effect.is_worse]
    of_clients = [effect for effect in worse if effect.evidence.metric in CLIENT_FIGURES]
    return max(of_clients or worse, key=lambda effect: effect.slowdown, default=None)


def _at_cpus(case: Case, active: Mask, worst: Effect | None) -> float:
    """Of what clients' transactions took longer meanwhile, the part on and before CPUs; 0 where it is not known."""
    if worst is None or worst.evidence.metric not in CLIENT_FIGURES:
        return 0.0
    return min(1.0, max(0.0, cpu_part_of_rise(case, active) or 0.0))


def _cpu_rows(share: float) -> Iterator[EvidenceRow]:
    if share >= CPUS_SHOWN_MIN:
        text = f"{percent(share)} of what a transaction took longer is running and waiting for CPUs, and no I/O"
        yield row("cpu_of_rise", share, "1", text)


def _doubt_rows(case: Case, flow: ForeignFlow, active: Mask) -> Iterator[EvidenceRow]:
    """Yield what the kernel may have sent for this server, where it is most of what looks like others' I/O.

    Pages of swap are memory that lacks: nobody else's I/O, unless it is another program that lacks it. A file
    system that is mounted with `discard` discards blocks of the server's own files: dropped tables, purged logs.
    """
    pages = [metric for metric in (VM.swap_in_pages_per_s, VM.swap_out_pages_per_s) if case.at(metric) is not None]
    swapped = _SWAP_PAGE_MIB * sum(_mean_of(case.at(metric), active) for metric in pages)
    if swapped > 0 and swapped >= DOUBTFUL_MIN * _mean_of(flow.mib_per_s, active):
        text = f"{number(swapped)} MiB/s of swap went in and out meanwhile: memory may lack, and nobody else do I/O"
        yield row("swap_mib_per_s", swapped, "MiB/s", text)
    discards, operations = (_mean_of(values, active) for values in (flow.discards, flow.operations))
    discards_itself = any(option.partition("=")[0] == _DISCARDS_AT_ONCE for option in case.mount_options)
    if discards_itself and discards > 0 and discards >= DOUBTFUL_MIN * operations:
        text = (
            f"{number(discards)} discards a second are in it, and the file system is mounted with discard: they may"
            " be for the server's own files"
        )
        yield row("discards_per_s", discards, "1/s", text)


def _mean_of(values: Floats | None, inside: Mask) -> float:
    return 0.0 if values is None else mean(values[inside]) or 0.0


def _amount_to_move(flow: ForeignFlow, active: Mask) -> str:
    operations, mib_per_s = mean(flow.operations[active]) or 0.0, mean(flow.mib_per_s[active]) or 0.0
    return f"On average {number(operations)} operations/s and {number(mib_per_s)} MiB/s are not this server's."


def others_have_most(case: Case) -> bool:
    """Whether others have at least half of what the device does while they are there."""
    active = None if case.foreign is None else foreign_intervals(case, case.foreign)
    flow = case.foreign
    if case.device is None or flow is None or active is None:
        return False
    beyond = part_beyond_group(case.grid, case.device, active)
    return max(beyond or 0.0, part_of_device(case, flow, active)) >= MOST_OF_DEVICE


def foreign_intervals(case: Case, flow: ForeignFlow) -> Mask | None:
    """Intervals in which others' I/O is a good part of the device's, shape (buckets,); None where there are none.

    What the step's own tools read or write beside the server is none of others' doing.
    """
    flow = _without_own_tools(case, flow)
    large = (flow.operations >= FOREIGN_OPERATIONS_MIN) | (flow.mib_per_s >= FOREIGN_MIB_MIN)
    active = large & (flow.share >= limit.FOREIGN_SHARE_MIN) & ~own_tool_intervals(case)
    gap = max(2, round(GAP_S / case.grid.width_s))
    spans = stretches(active, gap=gap, least=limit.FOREIGN_SAMPLES)
    mask = np.zeros(len(case.grid), dtype=np.bool_)
    for first, last in spans:
        closed = mask.copy()
        closed[first:last] = True
        # What comes and goes counts where it is: the time between belongs to it only where it has its part of all.
        for span in (closed & ~mask, closed & ~mask & active):
            if _is_conserved(case, flow, span):
                mask |= span
                break
    return mask if mask.any() else None


def _is_conserved(case: Case, flow: ForeignFlow, span: Mask) -> bool:
    """Whether others moved a good part of what the device did, cumulated over a span of shape (buckets,).

    The balance of one interval is off by what is in flight at its ends, and by what a cache writes back later; that
    of the span, with an interval on each side, is not. Discards carry no bytes and are counted.
    """
    device = case.device
    if device is None:
        return False
    wider = span | np.append(span[1:], False) | np.append(False, span[:-1])
    nets, seconds = (flow.net_read_mib_per_s, flow.net_write_mib_per_s), int(span.sum())
    net_mib = sum(max(0.0, float(net[wider].sum())) for net in nets)
    of_bytes = net_mib if device.mib_per_s is not None else 0.0
    operations = min(float((flow.reads + flow.writes)[span].sum()), max(0.0, net_mib) / BLOCK_MIB)
    operations += float(flow.discards[span].sum())
    all_operations = float(np.nansum(device.iops[span]) + flow.discards[span].sum())
    all_mib = 0.0 if device.mib_per_s is None else float(np.nansum(device.mib_per_s[wider]))
    least = limit.FOREIGN_SHARE_MIN
    by_operations = operations >= max(least * all_operations, FOREIGN_OPERATIONS_MIN * seconds)
    return by_operations or of_bytes >= max(least * all_mib, FOREIGN_MIB_MIN * seconds)


def own_tool_intervals(case: Case) -> Mask:
    """Intervals in which a tool of this run reads or writes the volume's files by itself, shape (buckets,)."""
    mask = np.zeros(len(case.grid), dtype=np.bool_)
    if not step_kind(case.kind).transactions:  # a dump, a restore, a cold read: its files may lie on the volume
        return ~mask
    middle = case.grid.t_s - case.grid.width_s / 2
    for tool in case.concurrent:
        if tool.name not in LOGICAL_TOOLS and tool.name not in SERVERS_OWN:
            mask |= (middle > tool.t0_s - case.grid.width_s) & (middle <= tool.t1_s + case.grid.width_s)
    return mask


def _without_own_tools(case: Case, flow: ForeignFlow) -> ForeignFlow:
    """Without the writes of a logical dump, whose files may lie on the volume: its reads are the server's own."""
    if not any(tool.name in LOGICAL_TOOLS for tool in case.concurrent) or case.device is None:
        return flow
    middle = case.grid.t_s - case.grid.width_s / 2
    during = np.zeros(len(case.grid), dtype=np.bool_)
    for tool in case.concurrent:
        during |= (middle > tool.t0_s - case.grid.width_s) & (middle <= tool.t1_s + case.grid.width_s)
    reads = np.where(during, 0.0, 1.0)
    device_reads = np.zeros(len(case.grid)) if case.device.reads is None else np.nan_to_num(case.device.reads)
    read_share = np.zeros(len(case.grid))
    np.divide(flow.reads, device_reads, out=read_share, where=device_reads > 0)
    return ForeignFlow(
        reads=flow.reads,
        writes=flow.writes * reads,
        discards=flow.discards,
        read_mib_per_s=flow.read_mib_per_s,
        write_mib_per_s=flow.write_mib_per_s * reads,
        share=np.where(during, read_share, flow.share),
        net_read_mib_per_s=flow.net_read_mib_per_s,
        net_write_mib_per_s=np.where(during, np.minimum(0.0, flow.net_write_mib_per_s), flow.net_write_mib_per_s),
    )


def _flow_rows(case: Case, flow: ForeignFlow, active: Mask, *, bounded: bool) -> Iterator[EvidenceRow]:
    pieces = []
    for noun, rate, mib_per_s in (
        ("reads", flow.reads, flow.read_mib_per_s),
        ("writes", flow.writes, flow.write_mib_per_s),
        ("discards", flow.discards, None),
    ):
        operations, moved = (
            mean(rate[active]) or 0.0,
            0.0 if mib_per_s is None else mean(mib_per_s[active]) or 0.0,
        )
        if operations >= 1 or moved >= FOREIGN_MIB_MIN:
            pieces.append(f"{number(operations)} {noun}/s{f' ({number(moved)} MiB/s)' if moved >= 0.1 else ''}")
    first = int(np.flatnonzero(active)[0])
    start_s = float(case.grid.t_s[first]) - case.grid.width_s
    end_s = float(case.grid.t_s[int(np.flatnonzero(active)[-1])])
    when = "all the time"
    if bounded:
        seconds = float(np.count_nonzero(active)) * case.grid.width_s
        of_span = f"in {number(seconds)} s " if seconds < MOST_OF * (end_s - start_s) else ""  # it came and went
        when = f"{of_span}from {clock(start_s, case.clock_zero_s)} to {clock(end_s, case.clock_zero_s)}"
    text = f"{when} the device serves {' and '.join(pieces) or 'operations'} that this server never sent"
    yield row("foreign_operations_per_s", mean(flow.operations[active]), "1/s", text)
    yield row(
        "foreign_mib_per_s",
        mean(flow.mib_per_s[active]),
        "MiB/s",
        f"that is {percent(part_of_device(case, flow, active))} of what the device does then",
    )


def _clear_rows(effects: list[Effect], worst: Effect | None) -> list[EvidenceRow]:
    """The effects that are clear; the first where none is."""
    clear = [effect.evidence for effect in effects if effect.is_worse]
    return clear or [effect.evidence for effect in effects[:1] if worst is None]


RULES = (
    Rule(
        name=FOREIGN,
        causes=frozenset({NEIGHBOUR}),
        subject="volume",
        find=foreign_findings,
        yields_to=EXPLAINS_WAITS,
    ),
)
