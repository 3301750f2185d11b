"""What a recording shows apart from its causes: an outage, a growing load, a queue that no rule decides on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from volbench.core.records.named_metrics import PERCENTILES, Client, Cloudwatch, Mountstats
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.device import Device, device_of
from volbench.results.explain.evidence.episodes import Episode
from volbench.results.explain.rules.volume.all_along import saturation
from volbench.results.explain.rules.volume.credits import EMPTY_PERCENT
from volbench.results.explain.wording import number, percent
from volbench.results.stats.grid import Floats, Mask, mean, median, true_runs

ClockText = Callable[[float], str]
OUTAGE_S = 10.0
"""Length of a stretch without a transaction from which on it is told: logs of 10-s intervals show no shorter."""
AT_LIMIT_PERCENT = 95.0
"""PercentIOLimit from which on a file system is at its limit: a mean over a minute is seldom 100."""
QUEUED = 1.5
"""How many times the server's part an NFS operation takes in all, from which on the client's queue is told of."""
GROWN = 1.5
"""Growth of the queue from which on a longer wait may be that of the queue."""
IDLE_QUEUE, IDLE_WAIT_MS = 1.0, 5.0
"""Operations in flight and their time up to which nobody notices that they take longer: most find the volume idle,
and a transaction of twenty reads takes a tenth of a second."""
MORE, FEWER = 1.2, 0.9
"""Operations during an episode, as a share of those before: the load grew, or the volume gave less."""


def remarks(case: Case, episode: Episode | None, clock: ClockText, *, named: bool) -> Iterator[str]:
    """Say what stands out. A volume is spoken of only where a file tells of it.

    Args:
        case: the recording.
        episode: the stretch that differs; None: no such stretch is compared.
        clock: makes a text of a time.
        named: whether a cause of the volume or the instance is named.
    """
    device = device_of(case.cell_grid, case.disk)
    if episode is not None:
        yield from _of_episode(case, device, episode, clock)
    yield from _outages(case, clock)
    yield from _of_mount(case)
    yield from _of_efs(case)
    if device is None and case.balance_percent is not None:
        gone = _share(-case.balance_percent, -EMPTY_PERCENT)
        if gone:
            yield f"the volume's burst credits were gone in {percent(gone)} of the time (BurstBalance)"
    if case.waited_device_of_cell is not None and not named:
        yield from saturation(case.waited_device_of_cell)


def is_noticed(case: Case, episode: Episode) -> bool:
    """Whether somebody can notice an episode of the volume's waiting times; True of the clients' latency."""
    device = device_of(case.cell_grid, case.disk)
    if device is None or device.await_ms is None or case.at(Client.tps) is not None:
        return True
    middle = case.cell_grid.t_s - case.cell_grid.width_s / 2
    during = (middle > episode.t0_s) & (middle <= episode.t1_s)
    queue = median((device.iops * device.await_ms / 1000)[during])
    waits = median(device.await_ms[during])
    return queue is None or waits is None or queue >= IDLE_QUEUE or waits >= IDLE_WAIT_MS


def _of_episode(case: Case, device: Device | None, episode: Episode, clock: ClockText) -> Iterator[str]:
    middle = case.cell_grid.t_s - case.cell_grid.width_s / 2
    during = (middle > episode.t0_s) & (middle <= episode.t1_s)
    when = f"from {clock(episode.t0_s)} to {clock(episode.t1_s)}"
    chance = f"(p {episode.p_value:.3g})"
    latency = next((name for name, metric in PERCENTILES.items() if case.at(metric) is not None), None)
    if latency is not None:
        values, tps = case.at(PERCENTILES[latency]), case.at(Client.tps)
        timelines = [
            _change(f"{latency} of the clients", values, during, "ms"),
            _change("transactions", tps, during, "1/s"),
        ]
        yield f"the clients were slower {when} than in the rest {chance}: {', '.join(filter(None, timelines))}"
    elif device is not None and device.await_ms is not None:
        queue, operations = device.in_flight, _ratio(device.iops, during)
        figures = f"{_change('in flight', queue, during, '')}, {_change('operations', device.iops, during, '1/s')}"
        if device.mib_per_s is not None and _ratio(device.mib_per_s, during) > operations:  # larger ones
            operations = _ratio(device.mib_per_s, during)
            figures += f", {_change('throughput', device.mib_per_s, during, 'MiB/s')}"
        is_longer = queue is not None and _ratio(queue, during) > GROWN
        if is_longer and operations >= MORE:
            yield f"the load grew {when}: {figures}; the longer wait is that of a longer queue"
        elif is_longer and operations >= FEWER:
            yield f"operations took longer {when} {chance}, in a longer queue: {figures}; more load looks the same"
        else:
            yield f"the volume was slower {when} than in the rest {chance}"


def _ratio(values: Floats, during: Mask) -> float:
    inside, outside = median(values[during]), median(values[~during])
    return inside / outside if inside is not None and outside else float("nan")


def _change(noun: str, values: Floats | None, during: Mask, unit: str) -> str:
    if values is None:
        return ""
    inside, outside = median(values[during]), median(values[~during])
    if inside is None or outside is None:
        return ""
    return f"{noun} {number(outside)} and {number(inside)}{' ' + unit if unit else ''} then"


def _outages(case: Case, clock: ClockText) -> Iterator[str]:
    """Say when no transaction ended: such an interval has no latency, so that no latency shows it."""
    tps, threads = case.cell_grid.column(*Client.tps), case.cell_grid.column(*Client.threads_running)
    if tps is None or (not (mean(tps) or 0.0) > 0 and not (median(threads) or 0.0) > 0):
        return
    for first, end in true_runs(tps == 0):
        begin_s, end_s = (
            float(case.cell_grid.t_s[first]) - case.cell_grid.width_s,
            float(case.cell_grid.t_s[end - 1]),
        )
        if end_s - begin_s >= OUTAGE_S:
            waiting = (
                "" if threads is None else f" although {number(median(threads[first:end]) or 0.0)} clients waited"
            )
            yield f"no transaction ended from {clock(begin_s)} to {clock(end_s)}{waiting}"


def _of_efs(case: Case) -> Iterator[str]:
    """Say what CloudWatch counts of an EFS file system's limits: of operations, of bytes, of burst credits."""
    for entity in case.cell_grid.entities(*Cloudwatch.io_limit_percent):
        at_limit = _share(case.cell_grid.column(*Cloudwatch.io_limit_percent, entity), AT_LIMIT_PERCENT)
        if at_limit:
            yield (
                f"{entity} was at its limit of operations (PercentIOLimit) in {percent(at_limit)} of the time: the"
                " general purpose mode has one, elastic throughput a higher one"
            )
    for entity in case.cell_grid.entities(*Cloudwatch.permitted_mib_per_s):
        permitted, used = (
            case.cell_grid.column(*metric, entity)
            for metric in (Cloudwatch.permitted_mib_per_s, Cloudwatch.metered_mib_per_s)
        )
        if used is None:
            used = case.cell_grid.column(*Cloudwatch.total_mib_per_s, entity)
        at_limit = None if permitted is None or used is None else _share(used / permitted, limit.LIMIT_MET)
        if at_limit and permitted is not None:
            yield (
                f"{entity} was at the throughput that EFS permitted it in {percent(at_limit)} of the time, at least"
                f" {number(float(np.nanmin(permitted)))} MiB/s: provisioned or elastic throughput raises it"
            )
    for entity in case.cell_grid.entities(*Cloudwatch.balance_bytes):
        balance = case.cell_grid.column(*Cloudwatch.balance_bytes, entity)
        gone = None if balance is None else _share(-balance, 0.0)
        if gone:
            yield f"the burst credits of {entity} were gone in {percent(gone)} of the time (BurstCreditBalance)"


def _share(values: Floats | None, least: float) -> float | None:
    """Share of the known values that are at least so large; None where that is none."""
    finite = values[np.isfinite(values)] if values is not None else ()
    return float(np.mean(np.asarray(finite) >= least)) or None if len(finite) else None


def _of_mount(case: Case) -> Iterator[str]:
    """Say of an NFS mount how much of it is metadata, and how long writes wait in the client."""
    reads, writes, metadata = (
        median(case.cell_grid.column(*metric))
        for metric in (Mountstats.reads_per_s, Mountstats.writes_per_s, Mountstats.metadata_ops_per_s)
    )
    data, queued = (reads or 0.0) + (writes or 0.0), slot_queue(case)
    if metadata is not None and metadata > data:
        yield (
            f"of {number(metadata + data)} operations/s of the mount {number(metadata)} are neither reads nor"
            " writes but metadata (storage.metadata_latency, where they wait): open, close, lookup, getattr"
        )
    if queued:
        yield queued


def slot_queue(case: Case) -> str:
    """Say how long operations of an NFS mount wait in the client before they are sent; empty where they do not."""
    for noun, waited, travelled in (
        ("write", Mountstats.w_await_ms, Mountstats.w_rtt_ms),
        ("read", Mountstats.r_await_ms, Mountstats.r_rtt_ms),
    ):
        waits, trips = (median(case.cell_grid.column(*metric)) for metric in (waited, travelled))
        if waits is not None and trips is not None and waits >= QUEUED * trips > 0:
            return (
                f"a {noun} takes {number(trips)} ms on the network and the server, and {number(waits)} ms with the"
                " client's queue for a slot: more slots (sunrpc.tcp_slot_table_entries) or connections (nconnect)"
                " shorten that"
            )
    return ""
