"""Whether the load, not the volume, limited a step: from the run's own figures, by Little's law, or not at all.

In a closed loop of N threads, N = X R (X: transactions a second, R: their mean latency), and reads in flight are
reads/s times the time of one. Where most threads wait for a read, and the volume does far less than it allows, more
threads would do more: the figures are of the volume's latency, and no limit of it was reached.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from volbench.core.base.text import counted, number, percent
from volbench.core.plan.ladder import REACHED_SHARE
from volbench.core.profile.limits import VolumeLimit, limits_of
from volbench.core.profile.of_run import profile_of
from volbench.core.profile.resolve import ResolvedVolume
from volbench.core.records.base import Scalar
from volbench.core.records.ladder import ThreadLadder
from volbench.core.records.report import CellRow, FindingRow
from volbench.core.records.run import RunRecord
from volbench.errors import VolbenchError
from volbench.results.compare.figures import figure_of
from volbench.results.explain.cause_info import Group
from volbench.results.explain.causes import CAUSES

LOOP_TOLERANCE = 0.1
"""Of N = X R: beyond it the threads did not all have a transaction under way, or more than they did."""
READERS_MIN, READERS_MAX = 2 / 3, 1.05
"""Reads in flight for each thread: with fewer, something else takes the threads' time; with more, others read."""
USED_MAX, BURST_MIN = 0.7, 1.3
"""Share of a limit up to which it cannot have held the load back. Above a bucket's earnings by the second one, the
load lives on credits; between the two it may be held at what the bucket earns."""
LIMITS: frozenset[Group] = frozenset({"the volume is at a limit", "the host or the instance"})
_MIB = 2.0**20
SCALE = {"io": (1.0, "operations/s"), "byte": (_MIB, "MiB/s")}


@dataclass(frozen=True, kw_only=True)
class StepTraffic:
    """What a step did on its volume: medians over the cells that its figures are of."""

    reads: float
    read_bytes: float
    writes: float
    write_bytes: float


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What the step used of what the volume allows: in words, and as a share."""

    text: str
    share: float


def load_limit_sentences(
    run: RunRecord, cells: Sequence[CellRow], findings: Sequence[FindingRow], volumes: Sequence[str]
) -> Iterator[str]:
    """Yield a sentence for each step whose threads could not reach what their volume allows.

    What the volume allows is known of an emulated volume, of one whose profile a target option names, and where
    another step of the run did more reads of that size on it.

    Args:
        findings: a step in which one names the CPUs or a limit as the cause is left out.
        volumes: names, in the order of the sentences.
    """
    limited = {(finding.volume, finding.step) for finding in findings if is_limit(finding.cause)}
    for volume in volumes:
        of_volume = [cell for cell in cells if cell.volume == volume]
        for step, threads in _closed_loops(of_volume):
            level = [c for c in of_volume if c.step == step and c.parameters.get("threads") == threads]
            text = None if (volume, step) in limited else _sentence(run, volume, level, of_volume, threads)
            if text is not None:
                yield text


def ladder_sentence(ladder: ThreadLadder) -> str:
    """Return what a ladder of threads showed, and why the step has the threads that it has."""
    volumes: dict[str, list[str]] = {}
    for level in ladder.levels:
        volumes.setdefault(level.volume, []).append(f"{number(level.tps)} with {level.threads:,}")
    figures = "; ".join(f"{volume} did {', '.join(texts)}" for volume, texts in volumes.items())
    at_end = ladder.threads == max(level.threads for level in ladder.levels)
    return (
        f"Step {ladder.step} has {counted(ladder.threads, 'thread')} in every cell, the fewest of a ladder with"
        f" which each volume did {percent(REACHED_SHARE)} of its most transactions/s or more ({figures}; two"
        f" seconds of one cell each, run {ladder.run_id})."
        + (" The ladder ends there, so more threads may do more: raise `threads_max`." if at_end else "")
    )


def _closed_loops(cells: Sequence[CellRow]) -> list[tuple[str, int]]:
    """Return step and threads of each load without a rate."""
    loops: dict[tuple[str, int], None] = {}
    for cell in cells:
        threads = cell.parameters.get("threads")
        if "tps" in cell.metrics and isinstance(threads, int) and "rate" not in cell.parameters:
            loops[cell.step, threads] = None
    return list(loops)


def _sentence(
    run: RunRecord, volume: str, level: Sequence[CellRow], of_volume: Sequence[CellRow], threads: int
) -> str | None:
    tps, latency_ms = figure_of(level, "tps"), figure_of(level, "latency_ms_mean")
    await_ms, traffic = figure_of(level, "read_await_ms"), traffic_of(level)
    if tps is None or latency_ms is None or await_ms is None or traffic is None:
        return None
    if abs(tps * latency_ms / 1000 / threads - 1) > LOOP_TOLERANCE:
        return None
    readers = traffic.reads * await_ms / 1000
    if not READERS_MIN * threads <= readers <= READERS_MAX * threads:
        return None
    reach = _reach(run, volume, of_volume, traffic, level[0].step)
    if reach is None:
        return None
    return (
        f"The load, not volume {volume}, limited step {level[0].step} ({counted(threads, 'thread')}):"
        f" {number(readers)} reads were in flight on average"
        f" ({number(traffic.reads)} reads/s of {number(await_ms)} ms each), and the volume {reach.text}."
        f" About {math.ceil(threads / reach.share):,} threads would reach that, if a read takes no longer;"
        " a comparison of this step is one of latency."
    )


def is_limit(cause: str) -> bool:
    """Return whether a cause says that something other than the load's threads is used up."""
    info = CAUSES.get(cause)
    return info is not None and (info.uses_up_cpus or info.group in LIMITS)


def traffic_of(cells: Sequence[CellRow]) -> StepTraffic | None:
    """Return what a step did on its volume; None where reads were not counted."""
    reads, read_mib = figure_of(cells, "iops_read"), figure_of(cells, "read_mib_per_s")
    if not reads or not read_mib:
        return None
    writes, write_mib = figure_of(cells, "iops_write") or 0.0, figure_of(cells, "write_mib_per_s") or 0.0
    return StepTraffic(
        reads=reads,
        read_bytes=read_mib * _MIB / reads,
        writes=writes,
        write_bytes=write_mib * _MIB / writes if writes else 0.0,
    )


def _reach(
    run: RunRecord, volume: str, of_volume: Sequence[CellRow], traffic: StepTraffic, step: str
) -> Reach | None:
    """Return what the step used of the volume; None where that is not known, or a limit may have held it back."""
    spec = next((spec for spec in run.volumes if spec.name == volume), None)
    try:
        profile = None if spec is None else profile_of(spec, run.target_options)
    except VolbenchError:
        return None
    reach = _reach_of_other_steps(step, of_volume, traffic) if profile is None else _known_reach(profile, traffic)
    return reach if reach is not None and 0 < reach.share <= USED_MAX else None


def _known_reach(profile: ResolvedVolume, traffic: StepTraffic) -> Reach | None:
    """Return the cap that the step was nearest to; None without one, or where an empty bucket may hold it back."""
    limits = limits_of(profile)
    if any(USED_MAX < used_of(bucket, traffic) / bucket.rate_per_s < BURST_MIN for bucket in limits.buckets):
        return None
    nearest = max(limits.caps, key=lambda cap: used_of(cap, traffic) / cap.rate_per_s, default=None)
    if nearest is None:
        return None
    used, (scale, unit) = used_of(nearest, traffic), SCALE[nearest.charge.unit]
    share = used / nearest.rate_per_s
    allowed = f"{number(nearest.rate_per_s / scale)} {unit} that it allows"
    return Reach(text=f"did {number(used / scale)} of the {allowed} ({percent(share)})", share=share)


def used_of(limit: VolumeLimit, traffic: StepTraffic) -> float:
    """Return what the step used of a limit, in its units a second."""
    import numpy as np  # noqa: PLC0415 - as in limits

    sizes = np.array([traffic.read_bytes, traffic.write_bytes])
    of_read, of_write = limit.charge.per_request(sizes, sequential=False)
    charge = limit.charge
    return float(traffic.reads * of_read * charge.read_weight + traffic.writes * of_write * charge.write_weight)


def _reach_of_other_steps(step: str, of_volume: Sequence[CellRow], traffic: StepTraffic) -> Reach | None:
    """Return the most reads of this size, or larger, that another step did on the volume."""
    steps: Mapping[tuple[str, tuple[tuple[str, Scalar], ...]], list[CellRow]] = _by_step(of_volume)
    best, where = 0.0, ""
    for (name, _), cells in steps.items():
        of_step = traffic_of(cells)
        if (
            name != step
            and of_step is not None
            and of_step.read_bytes >= 0.9 * traffic.read_bytes
            and of_step.reads > best
        ):
            best, where = of_step.reads, name
    if not best:
        return None
    share = traffic.reads / best
    return Reach(text=f"did {number(best)} reads/s in step {where}: this is {percent(share)} of that", share=share)


def _by_step(cells: Sequence[CellRow]) -> dict[tuple[str, tuple[tuple[str, Scalar], ...]], list[CellRow]]:
    steps: dict[tuple[str, tuple[tuple[str, Scalar], ...]], list[CellRow]] = {}
    for cell in cells:
        steps.setdefault((cell.step, tuple(sorted(cell.parameters.items()))), []).append(cell)
    return steps
