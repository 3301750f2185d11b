"""Validity rules: when a step's numbers are not to be averaged in, each reason with its evidence."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from volbench.records.cell import StepResult, ValidityLimits
from volbench.store.series import Series, SeriesKey, read_series

SMALL_READ_MIB = 16.0
"""Below this much server reading, device against server is not judged: one prefetch decides the ratio."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What the rules look at. None: not known on this machine or for this step, so its rule is not applied."""

    client_cpu_ratio: float | None = None
    offered_ratio: float | None = None
    missed_ratio: float | None = None
    steal_ratio: float | None = None
    swapped_pages: float | None = None
    foreign_iops: float | None = None
    clock_step_s: float | None = None
    server_read_mib: float | None = None
    device_read_mib: float | None = None
    emulator_late_ratio: float | None = None


def observe(
    series_path: Path,
    step: StepResult,
    *,
    quiet_s: tuple[float, float] | None,
    interval_s: float,
    clock_step_s: float,
) -> Observation:
    """Gather what the rules look at, from a step's details and the samples in its window.

    Args:
        series_path: the cell's series.parquet.
        quiet_s: when the device was watched at rest before the cell touched it.
        interval_s: of the sampling grid.
        clock_step_s: wall clock against monotonic clock over the cell.
    """
    samples = read_series(
        series_path, sources=["cpu", "vm", "diskstats", "innodb", "emulator"], window_s=step.window_s
    )
    at_rest = read_series(series_path, sources=["diskstats"], window_s=quiet_s) if quiet_s else {}
    return Observation(
        client_cpu_ratio=step.details.get("client_cpu_ratio"),
        offered_ratio=step.details.get("offered_ratio"),
        missed_ratio=_missed_ratio(samples, step.window_s, interval_s),
        steal_ratio=_mean(samples, "cpu", "steal_ratio"),
        swapped_pages=_integral(samples, "vm", ("swap_in_pages_per_s", "swap_out_pages_per_s")),
        foreign_iops=_sum_of_means(at_rest, ("reads_per_s", "writes_per_s")),
        clock_step_s=clock_step_s,
        server_read_mib=_integral(samples, "innodb", ("data_read_mib_per_s",)),
        device_read_mib=_integral(samples, "diskstats", ("read_mib_per_s",)),
        emulator_late_ratio=_late_ratio(samples),
    )


def invalid_reasons(seen: Observation, limits: ValidityLimits) -> tuple[str, ...]:
    """A sentence for each rule that the observation breaks; none: the step is valid."""
    reasons = []
    if seen.client_cpu_ratio is not None and seen.client_cpu_ratio > limits.client_cpu:
        reasons.append(
            f"the client was CPU-bound: sysbench used {seen.client_cpu_ratio:.0%} of the CPU it can use"
            f" (limit {limits.client_cpu:.0%})"
        )
    if seen.offered_ratio is not None and seen.offered_ratio < 1 - limits.rate_shortfall:
        reasons.append(
            f"the load generator fell behind: it offered {seen.offered_ratio:.1%} of the rate"
            f" (limit {1 - limits.rate_shortfall:.0%})"
        )
    if seen.missed_ratio is not None and seen.missed_ratio > limits.missed_samples:
        reasons.append(f"{seen.missed_ratio:.1%} of the samples were missed (limit {limits.missed_samples:.0%})")
    if seen.steal_ratio is not None and seen.steal_ratio > limits.cpu_steal:
        reasons.append(f"the hypervisor took {seen.steal_ratio:.1%} of the CPU (limit {limits.cpu_steal:.0%})")
    if seen.swapped_pages is not None and seen.swapped_pages > limits.swap_pages:
        reasons.append(f"the host swapped {seen.swapped_pages:.0f} pages (limit {limits.swap_pages})")
    if seen.foreign_iops is not None and seen.foreign_iops > limits.foreign_iops:
        reasons.append(
            f"the device was not at rest before the cell: {seen.foreign_iops:.0f} I/O per second"
            f" (limit {limits.foreign_iops:.0f})"
        )
    if seen.clock_step_s is not None and abs(seen.clock_step_s) > limits.clock_step_s:
        reasons.append(f"the wall clock was set by {seen.clock_step_s:+.2f} s (limit {limits.clock_step_s:g} s)")
    if seen.emulator_late_ratio is not None and seen.emulator_late_ratio > limits.emulator_late:
        reasons.append(
            f"the emulated volume fell behind its model: {seen.emulator_late_ratio:.1%} of its operations came late"
            f" (limit {limits.emulator_late:.0%})"
        )
    reasons += _cache_reasons(seen, limits)
    return tuple(reasons)


def _cache_reasons(seen: Observation, limits: ValidityLimits) -> list[str]:
    """The server's own count of bytes read against the device's: what no device delivered came from a cache."""
    server, device = seen.server_read_mib, seen.device_read_mib
    if server is None or device is None or server < SMALL_READ_MIB:
        return []
    missing = 1 - device / server
    if missing <= limits.device_against_client:
        return []
    return [
        f"a cache answered: the server read {server:.0f} MiB, the device delivered {device:.0f} MiB"
        f" (at most {limits.device_against_client:.0%} may be missing)"
    ]


def _missed_ratio(
    samples: dict[SeriesKey, Series], window_s: tuple[float, float], interval_s: float
) -> float | None:
    """Share of the window's ticks at which the machine itself was not sampled; the server's sources may pause."""
    seen = [len(series.t_s) for key, series in samples.items() if key.source == "cpu"]
    due = math.floor((window_s[1] - window_s[0]) / interval_s)
    return max(0.0, 1 - max(seen) / due) if seen and due else None


def _late_ratio(samples: dict[SeriesKey, Series]) -> float | None:
    """Share of an emulated volume's operations that came late: each interval weighs as many as it completed."""
    shares = samples.get(SeriesKey(source="emulator", metric="late_ratio"))
    if shares is None:
        return None
    rates: defaultdict[float, float] = defaultdict(float)
    for key, series in samples.items():
        if key.source == "emulator" and key.metric == "operations_per_s":
            for t_s, per_s in zip(series.t_s.tolist(), series.value.tolist(), strict=True):
                rates[t_s] += per_s
    weights = [rates[t_s] for t_s in shares.t_s.tolist()]
    return float(np.average(shares.value, weights=weights)) if sum(weights) else None


def _mean(samples: dict[SeriesKey, Series], source: str, metric: str) -> float | None:
    series = samples.get(SeriesKey(source=source, metric=metric))
    return float(series.value.mean()) if series is not None and len(series.value) else None


def _sum_of_means(samples: dict[SeriesKey, Series], metrics: tuple[str, ...]) -> float | None:
    found = [series for key, series in samples.items() if key.metric in metrics and len(series.value)]
    return sum(float(series.value.mean()) for series in found) if found else None


def _integral(samples: dict[SeriesKey, Series], source: str, metrics: tuple[str, ...]) -> float | None:
    """Rate times time, over all of the metrics; an interval's length is the distance of its tick to the last."""
    total, known = 0.0, False
    for key, series in samples.items():
        if key.source != source or key.metric not in metrics or not len(series.value):
            continue
        known = True
        steps_s = [b - a for a, b in zip(series.t_s[:-1].tolist(), series.t_s[1:].tolist(), strict=True)]
        typical_s = sorted(steps_s)[len(steps_s) // 2] if steps_s else 1.0
        total += float(series.value.sum()) * typical_s
    return total if known else None
