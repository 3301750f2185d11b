"""A step's storage metrics: what the device did in the step's window, from the samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from volbench.records.metrics import MetricValue, metric
from volbench.store.series import Series, SeriesKey, read_series

_FROM_DISKSTATS = {
    "reads_per_s": "iops_read",
    "writes_per_s": "iops_write",
    "read_mib_per_s": "read_mib_per_s",
    "write_mib_per_s": "write_mib_per_s",
    "aqu_sz": "queue_depth",
    "util_ratio": "device_util_ratio",
}
_AWAITS = {"r_await_ms": ("reads_per_s", "read_await_ms"), "w_await_ms": ("writes_per_s", "write_await_ms")}


def storage_metrics(series_path: Path, window_s: tuple[float, float]) -> dict[str, MetricValue]:
    """Means over the window of what diskstats said of the volume's disk; absent where there is no such disk.

    Waiting times are weighted by the number of operations in each interval, as one long interval would be.
    """
    found = read_series(series_path, sources=["diskstats"], window_s=window_s)
    metrics: dict[str, MetricValue] = {}
    for key, series in found.items():
        name = _FROM_DISKSTATS.get(key.metric)
        if name is not None and len(series.value):
            metrics[name] = metric(name, _mean(series))
    for wait, (rate, name) in _AWAITS.items():
        value = _weighted(found, wait, rate)
        if value is not None:
            metrics[name] = metric(name, value)
    return metrics


def _lengths_s(series: Series) -> list[float]:
    """What each sample is about, s: the time since the one before it, longer after missed ticks."""
    lengths_s = np.diff(series.t_s)
    typical_s = float(np.median(lengths_s)) if len(lengths_s) else 1.0
    return [typical_s, *lengths_s.tolist()]


def _mean(series: Series) -> float:
    """Mean over time."""
    return float(np.average(series.value, weights=_lengths_s(series)))


def _weighted(found: dict[SeriesKey, Series], wait: str, rate: str) -> float | None:
    """Mean of a waiting time, each sample weighted by its interval's operations; None when there were none."""
    total = weight = 0.0
    for key, waits in found.items():
        rates = found.get(SeriesKey(source=key.source, metric=rate, entity=key.entity))
        if key.metric != wait or rates is None:
            continue
        counts = rates.value * _lengths_s(rates)
        by_time = dict(zip(rates.t_s.tolist(), counts.tolist(), strict=True))
        for t_s, value in zip(waits.t_s.tolist(), waits.value.tolist(), strict=True):
            operations = by_time.get(t_s, 0.0)
            total += value * operations
            weight += operations
    return total / weight if weight else None
