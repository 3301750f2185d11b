"""Whether a suite's threads can reach what a volume allows: requests in flight by Little's law."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from volbench.core.base.text import counted, number
from volbench.core.profile.limits import VolumeLimit, limits_of, read_latency_s
from volbench.core.profile.of_run import profile_of
from volbench.core.profile.resolve import ResolvedVolume
from volbench.core.records.steps.oltp import OltpStep

if TYPE_CHECKING:
    from volbench.core.records.run import RunRecord

PAGE_BYTES = 16384
"""Of a page of InnoDB, unless the server is set up otherwise."""


def load_caveats(run: RunRecord) -> Iterator[str]:
    """Yield the closed loops whose threads cannot reach the reads that a volume with a known limit allows.

    A session waits for each page that it reads, so it has one read in flight: N threads make at most N / latency
    reads a second (Little's law, N = X R). Writes and read-ahead come from other threads and are not in it. Limits
    and latency are those of an emulated volume, or of the profile that a target option names for a volume.
    """
    if run.suite.sweep is not None:
        return
    threads_of: dict[str, int] = {}
    for step in run.suite.steps:
        if isinstance(step, OltpStep) and step.rate is None:
            threads_of[step.name] = max(threads_of.get(step.name, 0), *step.threads, step.threads_max or 0)
    for spec in run.volumes:
        volume = profile_of(spec, run.target_options)
        reads_per_s = _reads_per_s(volume) if volume is not None else None
        latency_s = read_latency_s(volume, PAGE_BYTES) if volume is not None else 0.0
        if reads_per_s is None or latency_s <= 0:
            continue
        needed = math.ceil(reads_per_s * latency_s)
        for name, threads in threads_of.items():
            if threads < needed:
                yield (
                    f"The load of step {name}, not the volume, limits reads on {spec.name}: at"
                    f" {number(1000 * latency_s)} ms a read, {counted(threads, 'thread')} can make at most"
                    f" {number(threads / latency_s)} of {number(reads_per_s)} reads/s."
                    f" {needed} threads would reach them."
                )


def _reads_per_s(volume: ResolvedVolume) -> float | None:
    """Return how many reads of a page a second the volume's caps allow; None where nothing caps them."""
    return min((limit.rate_per_s / _units_of_a_page(limit) for limit in limits_of(volume).caps), default=None)


def _units_of_a_page(limit: VolumeLimit) -> float:
    charge = limit.charge
    if charge.unit == "byte":
        return charge.read_weight * max(PAGE_BYTES, charge.min_bytes)
    return charge.read_weight * (1 if charge.max_io_bytes is None else math.ceil(PAGE_BYTES / charge.max_io_bytes))
