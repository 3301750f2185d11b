"""What a recording shows apart from its causes: an outage, a growing load, a queue that no rule decides on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from volbench.results.explain.case import Case
from volbench.results.explain.evidence.device import Device, device_of
from volbench.results.explain.evidence.episodes import Episode
from volbench.results.explain.findings import Explanation
from volbench.results.explain.wording import number
from volbench.results.stats.grid import Floats, Mask, mean, median

ClockText = Callable[[float], str]
OUTAGE_S = 10.0
"""Length of a stretch without a transaction from which on it is told: logs of 10-s intervals show no shorter."""
QUEUE_MIN, WAIT_MIN_MS = 8.0, 20.0
"""Operations in flight, and their time, from which on a volume that no rule names is told of: a single SSD or a
network volume below its limits answers in 1 to 2 ms, a disk in less than 20 with nothing before it."""
READ_SLOW_MS, READ_TIMES = 10.0, 10.0
"""A read's time, and how many times a write's it is, from which on slow reads are told of."""
QUEUED = 1.5
"""How many times the server's part an NFS operation takes in all, from which on the client's queue is told of."""
GROWN = 1.5
"""Growth of the queue from which on a longer wait may be that of the queue."""
MORE, FEWER = 1.2, 0.9
"""Operations during an episode, as a share of those before: the load grew, or the volume gave less."""


def remarks(case: Case, episode: Episode | None, explained: Explanation, clock: ClockText) -> Iterator[str]:
    """Say what stands out. A volume is spoken of only where a file tells of it.

    Args:
        case: the recording.
        episode: the stretch that differs; None: no such stretch is compared.
        explained: what was named.
        clock: makes a text of a time.
    """
    device = device_of(case.whole, case.disk)
    if episode is not None:
        yield from _of_episode(case, device, episode, clock)
    yield from _outages(case, clock)
    yield from _of_mount(case)
    named = any(finding.cause.startswith(("storage.", "instance.")) for finding in explained.findings)
    if device is not None and not named:
        yield from _undecided(device)


def _of_episode(case: Case, device: Device | None, episode: Episode, clock: ClockText) -> Iterator[str]:
    middle = case.whole.t_s - case.whole.width_s / 2
    during = (middle > episode.t0_s) & (middle <= episode.t1_s)
    when = f"from {clock(episode.t0_s)} to {clock(episode.t1_s)}"
    chance = f"(p {episode.p_value:.3g})"
    latency = next((name for name in ("p95", "p99", "p50") if case.at(f"latency_ms_{name}") is not None), None)
    if latency is not None:
        values, tps = case.at(f"latency_ms_{latency}"), case.at("tps")
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
    tps, threads = case.whole.column("client", "tps"), case.whole.column("client", "threads_running")
    if tps is None or not (mean(tps) or 0.0) > 0:
        return
    for first, last in _stretches(tps == 0):
        begin_s, end_s = float(case.whole.t_s[first]) - case.whole.width_s, float(case.whole.t_s[last])
        if end_s - begin_s >= OUTAGE_S:
            waiting = (
                ""
                if threads is None
                else f" although {number(median(threads[first : last + 1]) or 0.0)} clients waited"
            )
            yield f"no transaction ended from {clock(begin_s)} to {clock(end_s)}{waiting}"


def _of_mount(case: Case) -> Iterator[str]:
    """Say of an NFS mount how much of it is metadata, and how long writes wait in the client."""
    columns = {
        name: median(case.whole.column("mountstats", name))
        for name in ("reads_per_s", "writes_per_s", "metadata_ops_per_s", "w_await_ms", "w_rtt_ms")
    }
    data = (columns["reads_per_s"] or 0.0) + (columns["writes_per_s"] or 0.0)
    metadata, waits, trips = columns["metadata_ops_per_s"], columns["w_await_ms"], columns["w_rtt_ms"]
    if metadata is not None and metadata > data:
        yield (
            f"of {number(metadata + data)} operations/s of the mount {number(metadata)} are neither reads nor"
            " writes but metadata (storage.metadata_latency, where they wait): open, close, lookup, getattr"
        )
    if waits is not None and trips is not None and waits >= QUEUED * trips:
        yield (
            f"a write takes {number(trips)} ms on the network and the server, and {number(waits)} ms with the"
            " client's queue for a slot: more slots (sunrpc.tcp_slot_table_entries) or connections"
            " (nconnect) shorten that"
        )


def _stretches(mask: Mask) -> Iterator[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    yield from ((int(first), int(end) - 1) for first, end in zip(edges[::2], edges[1::2], strict=True))


def _undecided(device: Device) -> Iterator[str]:
    """Say what no rule names, and what decides it."""
    queue, waits = median(device.in_flight), median(device.await_ms)
    if queue is not None and waits is not None and queue >= QUEUE_MIN and waits >= WAIT_MIN_MS:
        moved = median(device.mib_per_s)
        rate = f"{number(median(device.iops) or 0.0)} operations/s" + (
            "" if moved is None else f", {number(moved)} MiB/s"
        )
        yield (
            f"most of the time {number(queue)} operations are in flight and take {number(waits)} ms each, at"
            f" {rate}: the volume is saturated by its limit or it is slow; its limits (the vendor's counters,"
            " or fio on an idle volume) decide which"
        )
    reads, writes = median(device.r_await_ms), median(device.w_await_ms)
    if reads is not None and writes and reads >= READ_SLOW_MS and reads >= READ_TIMES * writes:
        yield (
            f"reads take {number(reads)} ms and writes {number(writes)} ms: that is neither a queue nor credits,"
            " which both would share. The usual reason on EBS and RDS: blocks of a volume made from a"
            " snapshot that were never read: read every block once, or enable fast snapshot restore (the"
            " profile snapshot-lazy-load shows it)"
        )
