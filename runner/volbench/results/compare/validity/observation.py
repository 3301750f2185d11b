"""What validity rules look at, from a step's result and the series of its window."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from volbench.core.records.cell import AT_REST_SHARE, FILES_COPIED, StepResult
from volbench.core.records.latency_bins import LatencyBins
from volbench.core.records.series import LATENESS
from volbench.core.records.sources.host.tasks import CARRIERS_OF_IO
from volbench.core.records.steps import step_kind
from volbench.results.compare.disturbance import CpuUse
from volbench.results.compare.validity.lateness import LateOperations, changes_by_lateness, pooled_change
from volbench.results.store.histograms import MergedHistograms, load_histograms
from volbench.results.store.run_directory import HISTOGRAMS_FILE
from volbench.results.store.series import Series, SeriesKey, read_series

SLACK_S = 0.05
"""A tick is read a little late."""
_OF_THE_MACHINE = ("cpu", "vm", "diskstats")
"""Sources that one thread reads at every tick, whatever the server does."""


@dataclass(frozen=True, kw_only=True)
class CellObservation:
    """What the rules look at. None: not known on this machine or for this step, so its rule is not applied."""

    client_cpu_ratio: float | None = None
    client_throttled_ratio: float | None = None
    offered_ratio: float | None = None
    offered_due: float | None = None
    missed_ratio: float | None = None
    steal_ratio: float | None = None
    swapped_pages: float | None = None
    foreign_iops: float | None = None
    device_iops: float | None = None
    clock_step_s: float | None = None
    server_read_mib: float | None = None
    device_read_mib: float | None = None
    only_server_reads: bool | None = None
    emulator_late_ratio: float | None = None
    emulator_lateness_s_per_s: float | None = None
    lateness_changes: Mapping[str, float] | None = None
    cpus: int | None = None
    cpu: CpuUse | None = None
    clients: int | None = None
    reading: float | None = None


def observe(
    series_path: Path,
    step: StepResult,
    *,
    quiet_s: tuple[float, float] | None,
    interval_s: float,
    clock_step_s: float,
    cpus: int | None = None,
) -> CellObservation:
    """Gather what the rules look at, from a step's details and the samples in its window.

    Args:
        series_path: the cell's series.parquet.
        quiet_s: when the device was watched at rest before the cell touched it.
        interval_s: of the sampling grid.
        clock_step_s: wall clock against monotonic clock over the cell.
        cpus: of the machine; None: not known.
    """
    t0_s, t1_s = step.window_s
    around_s = (t0_s - 2 * interval_s, t1_s + 2 * interval_s)
    wide = read_series(
        series_path, sources=[*_OF_THE_MACHINE, "innodb", "emulator", "cgroup_cpu", "tasks"], window_s=around_s
    )
    device = _integral(wide, "diskstats", ("reads_per_s", "writes_per_s"), step.window_s, interval_s)
    return CellObservation(
        client_cpu_ratio=step.details.get("client_cpu_ratio"),
        client_throttled_ratio=_client_throttled(wide, step.window_s, interval_s),
        offered_ratio=step.details.get("offered_ratio"),
        offered_due=step.details.get("offered_due"),
        missed_ratio=_missed_ratio(series_path, wide, step.window_s, interval_s),
        steal_ratio=_mean(wide, SeriesKey(source="cpu", metric="steal_ratio"), step.window_s, interval_s),
        swapped_pages=_integral(
            wide, "vm", ("swap_in_pages_per_s", "swap_out_pages_per_s"), step.window_s, interval_s
        ),
        foreign_iops=_at_rest_iops(series_path, quiet_s, interval_s),
        device_iops=device / (t1_s - t0_s) if device is not None and t1_s > t0_s else None,
        clock_step_s=clock_step_s,
        server_read_mib=_integral(
            wide, "innodb", ("data_read_mib_per_s",), step.window_s, interval_s, bridge_gaps=False
        ),
        device_read_mib=_integral(wide, "diskstats", ("read_mib_per_s",), step.window_s, interval_s),
        only_server_reads=step_kind(step.kind).transactions and not step.details.get(FILES_COPIED),
        emulator_late_ratio=_late_ratio(wide, step.window_s),
        emulator_lateness_s_per_s=_mean(
            wide, SeriesKey(source="emulator", metric="lateness_s_per_s"), step.window_s, interval_s
        ),
        lateness_changes=_lateness_changes(series_path.with_name(HISTOGRAMS_FILE), wide, step, interval_s),
        cpus=cpus,
        cpu=None if step_kind(step.kind).is_remote else _cpu_use(wide, step.window_s, interval_s, cpus),
        clients=_clients(step),
        reading=_reading(series_path, step.window_s, interval_s),
    )


def _clients(step: StepResult) -> int | None:
    """Return how many clients a closed loop has; None for other steps."""
    threads = step.parameters.get("threads")
    closed = step_kind(step.kind).transactions and "offered_ratio" not in step.details
    return threads if closed and isinstance(threads, int) else None


def _reading(series_path: Path, window_s: tuple[float, float], interval_s: float) -> float | None:
    """Return how many of the server's clients waited for reads of the volume on average; None where not known.

    What the volume's counters say (reads a second times their time, s/s), and no more than the server's foreground
    threads waited for data files: so reads of others, and of background threads, do not count.
    """
    keys = ("reads_per_s", "r_await_ms")
    device_series = read_series(series_path, sources=["emulator", "diskstats"], metrics=keys, window_s=window_s)
    sources = {key.source for key in device_series}
    waits = read_series(series_path, sources=["performance_schema"], metrics=["wait_s_per_s"], window_s=window_s)
    of_files = SeriesKey(source="performance_schema", metric="wait_s_per_s", entity="file_data")
    foreground = _mean(waits, of_files, window_s, interval_s)
    if not sources or foreground is None:
        return None
    source = "emulator" if "emulator" in sources else "diskstats"
    busy: defaultdict[float, float] = defaultdict(float)
    ticks: set[float] = set()
    for entity in {key.entity for key in device_series if key.source == source}:
        rates, times = (device_series.get(SeriesKey(source=source, metric=key, entity=entity)) for key in keys)
        if rates is not None:
            ticks.update(rates.t_s.tolist())
        if rates is not None and times is not None:
            await_ms = dict(zip(times.t_s.tolist(), times.value.tolist(), strict=True))
            for t_s, per_s in zip(rates.t_s.tolist(), rates.value.tolist(), strict=True):
                busy[t_s] += per_s * await_ms.get(t_s, 0.0) / 1e3
    if not ticks:
        return None
    return min(foreground, sum(busy.values()) / len(ticks))


def _cpu_use(
    samples: dict[SeriesKey, Series], window_s: tuple[float, float], interval_s: float, cpus: int | None
) -> CpuUse | None:
    """Return who used the CPUs: None where the cell's own use, or the machine's, is not known."""

    def mean(source: str, metric: str, entity: str = "") -> float | None:
        return _mean(samples, SeriesKey(source=source, metric=metric, entity=entity), window_s, interval_s)

    unused = [mean("cpu", f"{name}_ratio") for name in ("idle", "iowait", "steal")]
    tasks = mean("tasks", "cpus_used", "cell")
    groups = [mean("cgroup_cpu", "cpus_used", who) for who in ("server", "client")]
    of_groups = None if None in groups else sum(group for group in groups if group is not None)
    own_uses = [own for own in (tasks, of_groups) if own is not None]
    if cpus is None or None in unused or not own_uses:
        return None
    busy = cpus * (1 - sum(share for share in unused if share is not None))
    own = max(own_uses)
    io_carriers = sum(mean("tasks", "cpus_used", entity) or 0.0 for entity in CARRIERS_OF_IO)
    return CpuUse(
        cpus=cpus,
        foreign=max(0.0, busy - own - io_carriers),
        own=own,
        run_delay=mean("tasks", "run_delay_s_per_s", "cell"),
        runnable=mean("cpu", "runnable_threads"),
    )


def _missed_ratio(
    series_path: Path, samples: dict[SeriesKey, Series], window_s: tuple[float, float], interval_s: float
) -> float | None:
    """Return share of the window's ticks at which the machine itself was not sampled.

    The server's sources may pause.

    None where the machine was never sampled; a sampler that died before the window missed all of it.
    """
    due = math.floor((window_s[1] - window_s[0]) / interval_s + SLACK_S)
    counts = [
        int(_inside(series, window_s).sum()) for key, series in samples.items() if key.source in _OF_THE_MACHINE
    ]
    if not due or not (counts or read_series(series_path, sources=_OF_THE_MACHINE)):
        return None
    return max(0.0, 1 - max(counts, default=0) / due)


def _at_rest_iops(series_path: Path, quiet_s: tuple[float, float] | None, interval_s: float) -> float | None:
    """Return operations a second at rest; None when that is not known.

    The first reading comes right before the phase and ends in it after less than an interval: the cell does not
    touch the device from then on until the phase ends.
    """
    if quiet_s is None:
        return None
    ends_s = (quiet_s[0] + AT_REST_SHARE * interval_s - SLACK_S, quiet_s[1])
    device_series = read_series(
        series_path, sources=["diskstats"], metrics=["reads_per_s", "writes_per_s"], window_s=ends_s
    )
    return sum(float(series.value.mean()) for series in device_series.values()) if device_series else None


def _late_ratio(samples: dict[SeriesKey, Series], window_s: tuple[float, float]) -> float | None:
    """Return share of an emulated volume's operations that came late.

    Each interval weighs as many as it completed.
    """
    shares = samples.get(SeriesKey(source="emulator", metric="late_ratio"))
    if shares is None:
        return None
    rates: defaultdict[float, float] = defaultdict(float)
    for key, series in samples.items():
        if key.source == "emulator" and key.metric == "operations_per_s":
            for t_s, per_s in zip(series.t_s.tolist(), series.value.tolist(), strict=True):
                rates[t_s] += per_s
    inside = _inside(shares, window_s)
    weights = [rates[t_s] for t_s in shares.t_s[inside].tolist()]
    return float(np.average(shares.value[inside], weights=weights)) if sum(weights) else None


def _lateness_changes(
    histograms_path: Path, samples: dict[SeriesKey, Series], step: StepResult, interval_s: float
) -> dict[str, float] | None:
    """Return by which share lateness can have changed each figure; None of a volume that is not emulated."""
    merged = (
        load_histograms(histograms_path).merged(measured=True, steps=[step.step])
        if histograms_path.exists()
        else {}
    )
    bins = {key.source: _latency_bins(table) for key, table in merged.items()}
    length_s = step.window_s[1] - step.window_s[0]
    kinds: dict[str, LateOperations] = {}
    times: list[float] = []
    for key, rates in samples.items():
        if (key.source, key.metric) != ("emulator", "operations_per_s"):
            continue
        waits = samples.get(SeriesKey(source="emulator", metric="operation_await_ms", entity=key.entity))
        await_ms = dict(zip(waits.t_s.tolist(), waits.value.tolist(), strict=True)) if waits is not None else {}
        counts = rates.value * _lengths_s(rates, step.window_s, interval_s, bridge_gaps=True)
        time_s = sum(
            n * await_ms.get(t, 0.0) / 1e3 for t, n in zip(rates.t_s.tolist(), counts.tolist(), strict=True)
        )
        times.append(time_s)
        if (lateness := bins.get(f"{LATENESS} {key.entity}")) is not None:
            kinds[key.entity] = LateOperations(count=float(counts.sum()), time_s=time_s, lateness=lateness)
    if kinds:
        return changes_by_lateness(kinds, bins.get("client"), window_s=length_s) or None
    added = _mean(samples, SeriesKey(source="emulator", metric="lateness_s_per_s"), step.window_s, interval_s)
    time_s_per_s = sum(times) / length_s
    return pooled_change(added, time_s_per_s) if added is not None and time_s_per_s else None


def _latency_bins(table: MergedHistograms) -> LatencyBins:
    counts = table.counts[0]
    return LatencyBins(
        edge_mult=table.key.edge_mult,
        edge_deduct=table.key.edge_deduct,
        counts={int(number): int(counts[number]) for number in np.flatnonzero(counts)},
        below=int(table.below[0]),
        above=int(table.above[0]),
    )


def _mean(
    samples: dict[SeriesKey, Series], key: SeriesKey, window_s: tuple[float, float], interval_s: float
) -> float | None:
    """Return mean over the time of the window that samples cover."""
    series = samples.get(key)
    if series is None:
        return None
    lengths_s = _lengths_s(series, window_s, interval_s, bridge_gaps=True)
    return float(np.average(series.value, weights=lengths_s)) if lengths_s.sum() else None


def _client_throttled(
    samples: dict[SeriesKey, Series], window_s: tuple[float, float], interval_s: float
) -> float | None:
    """Return share of a quota's periods in which it held the client back.

    0 while the group was read and had no quota.
    """
    key, read = (
        SeriesKey(source="cgroup_cpu", metric=metric, entity="client")
        for metric in ("throttled_ratio", "cpus_used")
    )
    if key not in samples or read not in samples:
        return _mean(samples, key, window_s, interval_s)
    shares = dict(zip(samples[key].t_s.tolist(), samples[key].value.tolist(), strict=True))
    lengths_s = _lengths_s(samples[read], window_s, interval_s, bridge_gaps=True)
    shares_of_reads = [shares.get(t_s, 0.0) for t_s in samples[read].t_s.tolist()]
    return float(np.average(shares_of_reads, weights=lengths_s)) if lengths_s.sum() else None


def _integral(
    samples: dict[SeriesKey, Series],
    source: str,
    metrics: tuple[str, ...],
    window_s: tuple[float, float],
    interval_s: float,
    *,
    bridge_gaps: bool = True,
) -> float | None:
    """Return rate times time within the window, over all of the metrics; None when no sample reaches into it."""
    weighted = [
        (series.value, _lengths_s(series, window_s, interval_s, bridge_gaps=bridge_gaps))
        for key, series in samples.items()
        if key.source == source and key.metric in metrics
    ]
    present = [(values, lengths_s) for values, lengths_s in weighted if lengths_s.sum()]
    return sum(float(values @ lengths_s) for values, lengths_s in present) if present else None


def _lengths_s(
    series: Series, window_s: tuple[float, float], interval_s: float, *, bridge_gaps: bool
) -> NDArray[np.float64]:
    """Return how much of the window each sample is about, s, shape (samples,).

    A sample is about the time since the reading before it. After missed ticks that is longer than the interval
    (`bridge_gaps`); the server's counters begin anew with a connection, so that after a gap theirs may be about one
    interval only, and no more is counted.
    """
    begins = np.concatenate([series.t_s[:1] - interval_s, series.t_s[:-1]])
    if not bridge_gaps:
        begins = np.maximum(begins, series.t_s - 1.5 * interval_s)
    overlaps = np.minimum(series.t_s, window_s[1]) - np.maximum(begins, window_s[0])
    return np.asarray(np.maximum(overlaps, 0.0), dtype=np.float64)


def _inside(series: Series, window_s: tuple[float, float]) -> NDArray[np.bool_]:
    return np.asarray((series.t_s > window_s[0]) & (series.t_s <= window_s[1]))
