"""What a probe's phases show: whether other work delayed one, whether a limit binds, where a figure falls."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from volbench.machine.host.task_account import CpuShare
from volbench.machine.volume.probe.fio import JobResult

_DROP_RATIO = 0.75
"""The rate of a phase has fallen if its last quarter is below this share of its first quarter."""
_SATURATED = 1.5
"""A limit was reached only if the queue makes the latency this many times longer."""
STEADY_RATIO = 0.9
FOREIGN_CPU_MAX = 0.1
"""Share of all CPUs below which the use by other processes is ignored."""
DELAYED_SHARE_MAX = 0.1
"""Share of a phase's waits for a CPU above which it measures the machine rather than the volume."""


@dataclass(frozen=True, kw_only=True)
class RateDrop:
    """A rate that fell during its measurement: a burst that ended.

    Args:
        figure: read_iops or write_iops.
        first, last: median of its first and last quarter; or the rate of one operation at a time before, and of
            many at a time now.
        after_s: since the start of that phase; None: before it.
    """

    figure: str
    first: float
    last: float
    after_s: float | None


def delayed_share(share: CpuShare | None) -> tuple[float, float]:
    """Return an upper bound of the share of time that other work delayed, and its share of all CPUs.

    Other work delays the measurement only while it runs, and only while a task of this process (or of an emulated
    volume's daemon) waits for a CPU; 0 if it used little, or if nothing is known.
    """
    if share is None or share.foreign_ratio <= FOREIGN_CPU_MAX:
        return 0.0, 0.0
    delay = share.own.delay_s + (share.server.delay_s if share.server is not None else 0.0)
    return min(1.0, share.foreign_cpus, delay), share.foreign_ratio


def is_throttled_alone(alone: JobResult, many: JobResult) -> bool:
    """Return whether one operation at a time did as much as many at a time, in bursts with waits between them.

    One stream does 1 / mean latency operations a second, which is less than 1 / median where a limiter lets some
    pass at once and makes others wait (the kernel's throttle works in slices of 100 ms).

    Args:
        alone: one operation at a time.
        many: the same operations with a queue.
    """
    mean_ms = 1e3 / alone.iops_typical
    return alone.iops_typical >= _DROP_RATIO * many.iops_typical and mean_ms >= _SATURATED * alone.latency_ms


def find_fall(figure: str, series: tuple[tuple[float, float], ...]) -> RateDrop | None:
    """Return where a rate fell for good: its last quarter is far below its first one.

    Args:
        series: time in seconds and rate, on an even grid.
    """
    rates = [rate for _, rate in series]
    quarter = len(rates) // 4
    if quarter < 2:
        return None
    first, last = statistics.median(rates[:quarter]), statistics.median(rates[-quarter:])
    if last >= _DROP_RATIO * first:
        return None
    middle = (first + last) / 2
    after_s = next(
        t_s for number, (t_s, _) in enumerate(series) if max(rates[number:]) < middle or number + 1 == len(series)
    )
    return RateDrop(figure=figure, first=first, last=last, after_s=after_s)
