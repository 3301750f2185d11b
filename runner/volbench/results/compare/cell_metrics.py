"""A step's storage metrics: what the device did in the step's window, from the samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from volbench.core.records.metrics import MetricValue, metric
from volbench.results.store.series import Series, SeriesKey, read_series

_FROM_DISKSTATS = {
    "reads_per_s": "iops_read",
    "writes_per_s": "iops_write",
    "read_mib_per_s": "read_mib_per_s",
    "write_mib_per_s": "write_mib_per_s",
    "aqu_sz": "queue_depth",
    "util_ratio": "device_util_ratio",
}
_AWAITS = {"r_await_ms": ("reads_per_s", "read_await_ms"), "w_await_ms": ("writes_per_s", "write_await_ms")}


Spans = Sequence[tuple[float, float]]


def storage_metrics(
    series_path: Path, window_s: tuple[float, float], spans_s: Spans = ()
) -> dict[str, MetricValue]:
    """Return means over the window of what diskstats said of the volume's disk; absent where there is no such disk.

    Waiting times are weighted by the number of operations in each interval, as one long interval would be.

    Args:
        spans_s: stretches of the window that count, when not all of it does; a sample counts when more than half of
            what it is about lies in one.
    """
    series_by_key = read_series(series_path, sources=["diskstats"], window_s=window_s)
    weighed = {key: _Weighed.of(series, spans_s) for key, series in series_by_key.items()}
    metrics: dict[str, MetricValue] = {}
    for key, series in weighed.items():
        name = _FROM_DISKSTATS.get(key.metric)
        if name is not None and len(series.value):
            metrics[name] = metric(name, series.mean())
    for wait, (rate, name) in _AWAITS.items():
        value = _weighted(weighed, wait, rate)
        if value is not None:
            metrics[name] = metric(name, value)
    return metrics


@dataclass(frozen=True, kw_only=True)
class _Weighed:
    """Samples, each with the seconds that it is about."""

    t_s: NDArray[np.float64]
    value: NDArray[np.float64]
    length_s: NDArray[np.float64]

    @classmethod
    def of(cls, series: Series, spans_s: Spans) -> _Weighed:
        """Return each sample is about the time since the one before it, longer after missed ticks."""
        lengths = np.diff(series.t_s)
        typical_s = float(np.median(lengths)) if len(lengths) else 1.0
        length_s = np.concatenate(([typical_s], lengths))[: len(series.t_s)]
        counted = np.ones(len(series.t_s), dtype=bool)
        if spans_s:
            middle_s = series.t_s - length_s / 2
            counted = np.any([(middle_s > t0_s) & (middle_s <= t1_s) for t0_s, t1_s in spans_s], axis=0)
        return cls(t_s=series.t_s[counted], value=series.value[counted], length_s=length_s[counted])

    def mean(self) -> float:
        """Return mean over time."""
        return float(np.average(self.value, weights=self.length_s))


def _weighted(weighed: dict[SeriesKey, _Weighed], wait: str, rate: str) -> float | None:
    """Return mean of a waiting time, each sample weighted by its interval's operations.

    None when there were none.
    """
    total = weight = 0.0
    for key, waits in weighed.items():
        rates = weighed.get(SeriesKey(source=key.source, metric=rate, entity=key.entity))
        if key.metric != wait or rates is None:
            continue
        counts = rates.value * rates.length_s
        by_time = dict(zip(rates.t_s.tolist(), counts.tolist(), strict=True))
        for t_s, value in zip(waits.t_s.tolist(), waits.value.tolist(), strict=True):
            operations = by_time.get(t_s, 0.0)
            total += value * operations
            weight += operations
    return total / weight if weight else None
