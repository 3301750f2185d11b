"""What a recording shows from begin to end: a queue that always waits, or reads that are always slow.

Rules that compare need a quiet time or a quick one. Where a volume has neither, its figures say that it is what
everything waits for, and not why: a limit, or a volume that is slow. So each is one of several, and none is sure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from volbench.results.explain import thresholds as limit
from volbench.results.explain.calibration import ONE_OF_TWO_MAX, SECOND_MAX
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.evidence.device import Device, Resource
from volbench.results.explain.evidence.instance_figures import may_be_ec2
from volbench.results.explain.evidence.limits import LARGE_KIB
from volbench.results.explain.rule import (
    ALL_ALONG,
    COPIES,
    EXPLAINS_WAITS,
    LIKELY_LIMIT,
    LIMITS,
    METADATA,
    OUTSIDE,
    SLOW,
    SLOWER,
    STALL,
    Rule,
)
from volbench.results.explain.rules.advice import raise_limit_advice
from volbench.results.explain.rules.shared_evidence import context
from volbench.results.explain.rules.volume.plateau_rows import likely_limits
from volbench.results.explain.wording import amount, number, percent, row
from volbench.results.stats.grid import Floats, Mask, median

QUEUE_MIN, WAIT_MIN_MS = 8.0, 20.0
"""Operations in flight, and their time, from which on a volume is what they wait for: an SSD or a network volume
below its limits answers in 1 to 2 ms, a disk in less than 20 with nothing before it."""
TIME_MIN = 0.5
"""Share of the intervals in which it is so: with less, the rest is there to compare with."""
SAMPLES_MIN = 6
EVEN_MAX = 0.1
"""Spread of a rate (scaled median deviation over median) above which it is at no limit."""
READ_SLOW_MS, READ_TIMES = 10.0, 10.0
"""A read's time, and how many times a write's it is, from which on reads are slow by themselves."""
READERS_MIN = 1.0
"""Reads in flight, by Little's law, from which on somebody waits for one all the time."""
_MAD_TO_SIGMA = 1.4826
_SNAPSHOT = (
    "The usual reason on EBS and RDS: blocks of a volume made from a snapshot that were never read. Read every"
    " block once (fio or dd over the device), or enable fast snapshot restore; the profile snapshot-lazy-load shows"
    " it."
)
_DISK = (
    "A disk that turns reads in 5 to 15 ms and writes to its cache: then a buffer pool that holds more, or an SSD."
)
_CAUSE: dict[Resource, str] = {"iops": "storage.iops_limit", "throughput": "storage.throughput_limit"}


def all_along_findings(case: Case) -> Iterator[Cause]:
    """A volume that is what everything waits for, all the time; of recordings only."""
    if case.device is None or not case.recorded:
        return
    waited_device = case.waited_device or case.device
    saturated = _saturated(waited_device)
    if saturated is not None:
        yield from _saturated_findings(case, case.device, waited_device, saturated)
    elif case.likely_limits:
        yield from even_findings(case)
    else:
        yield from _slow_reads(case, case.device)


def even_findings(case: Case) -> Iterator[Cause]:
    """Limits of which nothing but an even rate tells: operations that take a constant time look the same."""
    if any(level.in_flight < QUEUE_MIN or not level.is_even for level in case.likely_limits):
        return
    for cause in likely_limits(case, case.storage_share):
        yield replace(cause, confidence_max=SECOND_MAX)


def _saturated(device: Device) -> Mask | None:
    """The intervals in which a queue waits long, by both the queue and Little's law; None: they are few."""
    if device.await_ms is None:
        return None
    queue = device.iops * device.await_ms / 1000
    if device.in_flight is not None:
        queue = np.fmin(queue, device.in_flight)
    waits = (queue >= QUEUE_MIN) & (device.await_ms >= WAIT_MIN_MS)
    return waits if int(waits.sum()) >= max(SAMPLES_MIN, TIME_MIN * len(waits)) else None


def saturation(device: Device) -> Iterator[str]:
    """Say that a queue waits long most of the time, where no rule names why: an uneven rate is no limit."""
    waits = _saturated(device)
    if waits is None or device.await_ms is None:
        return
    queue, waited = median((device.iops * device.await_ms / 1000)[waits]), median(device.await_ms[waits])
    yield (
        f"most of the time {number(queue or 0.0)} operations are in flight and take {number(waited or 0.0)} ms"
        " each: the volume is saturated by its limit or it is slow; its limits (the vendor's counters, or fio on an"
        " idle volume) decide which"
    )


def _spread(values: Floats) -> float:
    middle = median(values)
    deviation = None if middle is None else median(np.abs(values - middle))
    return float("inf") if not middle or deviation is None else _MAD_TO_SIGMA * deviation / middle


def _saturated_findings(case: Case, device: Device, waited_device: Device, waits: Mask) -> Iterator[Cause]:
    """Limits where the rate is even, the likelier first: of all operations, while those of `waited_device` wait.

    A volume that is slow is said to be possible and not named: in the recordings whose truth is known
    (results/examples/lab/recordings.md) it was a limit in all of them.
    """
    await_ms = waited_device.await_ms
    queue = None if await_ms is None else median((waited_device.iops * await_ms / 1000)[waits])
    waited = None if await_ms is None else median(await_ms[waits])
    window_s = case.grid.window_of(waits)
    size_kib = device.size_kib
    resources: list[Resource] = ["iops", "throughput"]
    if size_kib is not None and size_kib >= LARGE_KIB:
        resources.reverse()
    levels = [
        (resource, level)
        for resource in resources
        if (carried := device.carried(resource)) is not None
        and _spread(carried[waits]) <= EVEN_MAX
        and (level := median(carried[waits]))
    ]
    base_ms = case.base_await_ms
    is_queue = base_ms is not None and (waited or 0.0) >= limit.INFLATION_CAPPED * base_ms
    which = (
        f"{number((waited or 0.0) / base_ms)} times as long as without a queue, so that a limit makes them wait"
        if is_queue and base_ms
        else "the volume is saturated by its limit, or it is slow, and no quiet time shows which"
    )
    text = (
        f"{number(queue or 0.0)} operations are in flight in {percent(float(waits.mean()))} of the time, and each"
        f" takes {number(waited or 0.0)} ms: {which}; the vendor's counters or fio on the idle volume decide"
    )
    doubt = row("one_of_two", "limit" if is_queue else "limit or latency", "1", text)
    for resource, level in levels:
        spread = percent(_spread_of(device, resource, waits))
        text = f"the volume gives {amount(level, resource)} then, with a spread of {spread}"
        yield Cause(
            cause=_CAUSE[resource],
            window_s=window_s,
            share=case.storage_share,
            checks=(True, True, None),
            one_of_two=True,
            confidence_max=SECOND_MAX,
            evidence=(row(resource, level, "1/s" if resource == "iops" else "MiB/s", text), doubt, *context(case)),
            advice=raise_limit_advice(case, resource, level),
        )


def _spread_of(device: Device, resource: Resource, inside: Mask) -> float:
    carried = device.carried(resource)
    return float("inf") if carried is None else _spread(carried[inside])


def _slow_reads(case: Case, device: Device) -> Iterator[Cause]:
    """Reads that take many times as long as writes of the same volume: a queue or spent credits would slow both."""
    reads, writes = median(device.r_await_ms), median(device.w_await_ms)
    if device.reads is None or device.r_await_ms is None or reads is None or not writes:
        return
    readers = median(device.reads * device.r_await_ms / 1000) or 0.0
    if reads < READ_SLOW_MS or reads < READ_TIMES * writes or readers < READERS_MIN:
        return
    text = (
        f"reads take {number(reads)} ms and writes {number(writes)} ms: that is neither a queue nor credits, which"
        f" both would share; {number(readers)} reads are in flight all the time"
    )
    yield Cause(
        cause="storage.read_latency",
        window_s=case.window_s,
        share=case.storage_share,
        checks=(True, True, None),
        confidence_max=ONE_OF_TWO_MAX,
        evidence=(row("r_await_ms", reads, "ms", text), *context(case)),
        advice=_SNAPSHOT if may_be_ec2(device) else f"{_DISK} {_SNAPSHOT}",
    )


RULES = (
    Rule(
        name=ALL_ALONG,
        causes=frozenset({"storage.iops_limit", "storage.throughput_limit", "storage.read_latency"}),
        subject="volume",
        find=all_along_findings,
        yields_to=EXPLAINS_WAITS | OUTSIDE | LIMITS | SLOW | {SLOWER, LIKELY_LIMIT, COPIES, METADATA, STALL},
    ),
)
