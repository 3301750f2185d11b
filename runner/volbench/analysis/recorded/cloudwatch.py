"""CloudWatch's JSON of an EBS volume: `get-metric-data` and `get-metric-statistics`, one or several answers a file.

Sums become rates over their period; waiting times are total time over operations. A time stamp stands at the start
of its period. Source: Amazon EBS User Guide, metrics for EBS volumes; the instance's checks are of AWS/EC2.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np

from volbench.analysis.recorded.parsed import DAY_S, Recorded, Table

_SOURCE = "cloudwatch"
_MIB = 1024 * 1024
_SUMS = {
    "VolumeReadOps": ("reads_per_s", 1.0),
    "VolumeWriteOps": ("writes_per_s", 1.0),
    "VolumeReadBytes": ("read_mib_per_s", 1 / _MIB),
    "VolumeWriteBytes": ("write_mib_per_s", 1 / _MIB),
}
_LEVELS = {
    "VolumeQueueLength": ("aqu_sz", 1.0),
    "BurstBalance": ("balance_percent", 1.0),
    "VolumeAvgReadLatency": ("r_await_ms", 1.0),
    "VolumeAvgWriteLatency": ("w_await_ms", 1.0),
    "VolumeIOPSExceededCheck": ("volume_exceeded_iops_ratio", 1.0),
    "VolumeThroughputExceededCheck": ("volume_exceeded_throughput_ratio", 1.0),
    "InstanceEBSIOPSExceededCheck": ("instance_exceeded_iops_ratio", 1.0),
    "InstanceEBSThroughputExceededCheck": ("instance_exceeded_throughput_ratio", 1.0),
}
_AWAITS = {
    "r_await_ms": ("VolumeTotalReadTime", "VolumeReadOps"),
    "w_await_ms": ("VolumeTotalWriteTime", "VolumeWriteOps"),
}
_PERIOD_S = 60.0


@dataclass(frozen=True, kw_only=True)
class _Metric:
    """One metric of the answer by start of its period, s since the epoch."""

    name: str
    points: Mapping[float, float]

    @cached_property
    def period_s(self) -> float:
        """The shortest distance of two points; sorted once, since a year has half a million of them."""
        steps = np.diff(sorted(self.points))
        return float(steps.min()) if len(steps) else _PERIOD_S


def looks_like_cloudwatch(text: str) -> bool:
    """Whether a file is an answer of CloudWatch."""
    return text.lstrip().startswith(("{", "[")) and ("MetricDataResults" in text or "Datapoints" in text)


def parse_cloudwatch(text: str) -> Recorded:
    """Series of the answers in a file. Raises ValueError for text that is no JSON, or other JSON."""
    found = {metric.name: metric for metric in _metrics(json.loads(text)) if metric.points}
    if not found:
        return Recorded(series={}, clocked=True, notes=("CloudWatch's answer has no data points",))
    first = min(min(metric.points) for metric in found.values())
    table = Table()
    for name, start_s, period_s, value in _values(found):
        table.add(start_s + period_s - (first - first % DAY_S), _SOURCE, name, "volume", value)
    return Recorded(series=table.series(), clocked=True, notes=("CloudWatch's times are UTC",))


def _values(found: Mapping[str, _Metric]) -> Iterator[tuple[str, float, float, float]]:
    """Our metric, start and length of the period, value."""
    for name, metric in found.items():
        per_period = name in _SUMS
        ours, scale = _SUMS.get(name) or _LEVELS.get(name) or ("", 0.0)
        for start_s, value in metric.points.items() if ours else ():
            yield ours, start_s, metric.period_s, value * scale / (metric.period_s if per_period else 1.0)
    for ours, (time_name, count_name) in _AWAITS.items():
        if time_name not in found or count_name not in found:
            continue
        times, counts = found[time_name], found[count_name]
        for start_s in times.points.keys() & counts.points.keys():
            if counts.points[start_s] > 0:
                yield ours, start_s, counts.period_s, times.points[start_s] / counts.points[start_s] * 1000


def _metrics(answer: Any) -> Iterator[_Metric]:
    if isinstance(answer, list):
        for one in answer:
            yield from _metrics(one)
        return
    if not isinstance(answer, dict):
        raise ValueError("not an answer of CloudWatch")
    for one in answer.get("MetricDataResults", ()):
        label = str(one.get("Label", one.get("Id", ""))).split()[-1:]
        points = zip(one.get("Timestamps", ()), one.get("Values", ()), strict=False)
        yield _Metric(name=label[0] if label else "", points={_epoch(at): float(value) for at, value in points})
    if "Datapoints" in answer:
        points_of = {
            _epoch(point["Timestamp"]): float(next(point[k] for k in ("Sum", "Average", "Maximum") if k in point))
            for point in answer["Datapoints"]
        }
        yield _Metric(name=str(answer.get("Label", "")), points=points_of)


def _epoch(stamp: str | float) -> float:
    if isinstance(stamp, int | float):
        return float(stamp)
    moment = datetime.fromisoformat(stamp)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
