"""CloudWatch's JSON of EBS, EFS, RDS and EC2: `get-metric-data`, `get-metric-statistics`, several answers a file.

Sums become rates over their period; waiting times are total time over operations. A time stamp stands at the start
of its period. Of EFS the count of samples is the count of operations. Sources: Amazon EBS User Guide, metrics for
EBS volumes; Amazon EFS User Guide, CloudWatch metrics; Amazon RDS User Guide, instance-level metrics; Amazon EC2
User Guide, EBS metrics of instances.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from volbench.core.base.parse import EPOCH_MAX_S, NUMBER_MAX, parse_json
from volbench.results.recorded.parsed import Recorded, joined, recorded_of_epochs
from volbench.results.store.series import Series, SeriesKey

Floats = NDArray[np.float64]
SOURCE = "cloudwatch"
VOLUME = "volume"
_MIB = 1024 * 1024
_PERIOD_S = 60.0
_GAP_PERIODS = 1.5
_GAPS_SHOWN = 3
AURORA_PERIOD_S = 300
"""A cluster volume's metrics count the billed operations of 5 minutes each. Source: Amazon Aurora User Guide,
cluster-level metrics."""
SUMS = {
    "VolumeReadOps": ("reads_per_s", 1.0),
    "VolumeWriteOps": ("writes_per_s", 1.0),
    "VolumeReadBytes": ("read_mib_per_s", 1 / _MIB),
    "VolumeWriteBytes": ("write_mib_per_s", 1 / _MIB),
    "EBSReadOps": ("reads_per_s", 1.0),
    "EBSWriteOps": ("writes_per_s", 1.0),
    "EBSReadBytes": ("read_mib_per_s", 1 / _MIB),
    "EBSWriteBytes": ("write_mib_per_s", 1 / _MIB),
    "DataReadIOBytes": ("read_mib_per_s", 1 / _MIB),
    "DataWriteIOBytes": ("write_mib_per_s", 1 / _MIB),
    "MetadataIOBytes": ("metadata_mib_per_s", 1 / _MIB),
    "TotalIOBytes": ("total_mib_per_s", 1 / _MIB),
    "MeteredIOBytes": ("metered_mib_per_s", 1 / _MIB),
}
"""By the name of a metric whose sum over a period counts: our name, and what one is worth in its unit."""
COUNTS = {
    "DataReadIOBytes": "reads_per_s",
    "DataWriteIOBytes": "writes_per_s",
    "MetadataIOBytes": "metadata_ops_per_s",
}
LEVELS = {
    "VolumeQueueLength": ("aqu_sz", 1.0, VOLUME),
    "BurstBalance": ("balance_percent", 1.0, VOLUME),
    "VolumeAvgReadLatency": ("r_await_ms", 1.0, VOLUME),
    "VolumeAvgWriteLatency": ("w_await_ms", 1.0, VOLUME),
    "VolumeIOPSExceededCheck": ("volume_exceeded_iops_ratio", 1.0, VOLUME),
    "VolumeThroughputExceededCheck": ("volume_exceeded_throughput_ratio", 1.0, VOLUME),
    "InstanceEBSIOPSExceededCheck": ("instance_exceeded_iops_ratio", 1.0, VOLUME),
    "InstanceEBSThroughputExceededCheck": ("instance_exceeded_throughput_ratio", 1.0, VOLUME),
    "EBSIOBalance%": ("balance_percent", 1.0, "EBSIOBalance%"),
    "EBSByteBalance%": ("balance_percent", 1.0, "EBSByteBalance%"),
    "BurstCreditBalance": ("balance_bytes", 1.0, VOLUME),
    "PermittedThroughput": ("permitted_mib_per_s", 1 / _MIB, VOLUME),
    "PercentIOLimit": ("io_limit_percent", 1.0, VOLUME),
    "ReadIOPS": ("reads_per_s", 1.0, VOLUME),
    "WriteIOPS": ("writes_per_s", 1.0, VOLUME),
    "ReadThroughput": ("read_mib_per_s", 1 / _MIB, VOLUME),
    "WriteThroughput": ("write_mib_per_s", 1 / _MIB, VOLUME),
    "ReadLatency": ("r_await_ms", 1000.0, VOLUME),
    "WriteLatency": ("w_await_ms", 1000.0, VOLUME),
    "DiskQueueDepth": ("aqu_sz", 1.0, VOLUME),
    "VolumeReadIOPs": ("reads_per_s", 1 / AURORA_PERIOD_S, VOLUME),
    "VolumeWriteIOPs": ("writes_per_s", 1 / AURORA_PERIOD_S, VOLUME),
}
"""By the name of a metric that is a level or a rate by itself: our name, its worth, and what it is of."""
_AWAITS = {
    "r_await_ms": ("VolumeTotalReadTime", "VolumeReadOps"),
    "w_await_ms": ("VolumeTotalWriteTime", "VolumeWriteOps"),
}
_COUNT = "SampleCount"
_STATISTICS = ("Sum", "Average", "Maximum", "Minimum")


@dataclass(frozen=True, kw_only=True)
class _Metric:
    """One metric of the answer: starts of its periods, s since the epoch, ascending, and its values."""

    name: str
    statistic: str
    start_s: Floats
    value: Floats

    @cached_property
    def period_s(self) -> float:
        """The shortest distance of two points."""
        return float(np.diff(self.start_s).min()) if len(self.start_s) > 1 else _PERIOD_S

    @property
    def key(self) -> str:
        """The name, and the statistic where it is no value of the metric but how many there were."""
        return f"{self.name} {_COUNT}" if self.statistic == _COUNT else self.name


def looks_like_cloudwatch(text: str) -> bool:
    """Whether a file is an answer of CloudWatch."""
    return text.lstrip().startswith(("{", "[")) and ("MetricDataResults" in text or "Datapoints" in text)


def parse_cloudwatch(text: str) -> Recorded:
    """Series of the answers in a file, times as seconds since midnight UTC of the first day.

    Raises ValueError for text that is no JSON, other JSON, or an answer that is cut off or does not fit together.
    """
    series, notes = parse_answers(parse_json(text))
    if not series:
        return Recorded(series={}, clocked=True, notes=("CloudWatch's answer has no data points", *notes))
    return recorded_of_epochs(series, notes)


def parse_answers(answer: Any) -> tuple[dict[SeriesKey, Series], tuple[str, ...]]:
    """Series with times since the epoch, each at the end of its period, and what a reader must know.

    Raises ValueError as parse_cloudwatch.
    """
    metrics_by_key: dict[str, list[_Metric]] = {}
    for metric in _metrics(answer):
        if len(metric.start_s):
            metrics_by_key.setdefault(metric.key, []).append(metric)
    metrics = {key: _joined(same) for key, same in metrics_by_key.items()}
    series: dict[SeriesKey, Series] = {}
    for name, entity, t_s, value in _values(metrics):
        if not len(t_s):
            continue
        series.setdefault(SeriesKey(source=SOURCE, metric=name, entity=entity), Series(t_s=t_s, value=value))
    return series, tuple(_gaps(metrics))


def _joined(pages: Sequence[_Metric]) -> _Metric:
    """One metric of several pages or files."""
    points = joined([Series(t_s=page.start_s, value=page.value) for page in pages])
    return _Metric(name=pages[0].name, statistic=pages[0].statistic, start_s=points.t_s, value=points.value)


def _values(metrics: Mapping[str, _Metric]) -> Iterator[tuple[str, str, Floats, Floats]]:
    """Our metric, what it is of, ends of periods, values."""
    for metric in metrics.values():
        ends_s = metric.start_s + metric.period_s
        if metric.statistic == _COUNT:
            if metric.name in COUNTS:
                yield COUNTS[metric.name], VOLUME, ends_s, metric.value / metric.period_s
        elif metric.name in SUMS:
            metric_name, scale = SUMS[metric.name]
            yield metric_name, VOLUME, ends_s, metric.value * scale / metric.period_s
        elif metric.name in LEVELS:
            metric_name, scale, entity = LEVELS[metric.name]
            yield metric_name, entity, ends_s, metric.value * scale
    for metric_name, (time_name, count_name) in _AWAITS.items():
        if time_name in metrics and count_name in metrics:
            times, counts = metrics[time_name], metrics[count_name]
            both, at_time, at_count = np.intersect1d(times.start_s, counts.start_s, return_indices=True)
            some = counts.value[at_count] > 0
            waits = times.value[at_time][some] / counts.value[at_count][some] * 1000
            yield metric_name, VOLUME, both[some] + counts.period_s, waits


def _gaps(metrics: Mapping[str, _Metric]) -> Iterator[str]:
    """Stretches without points, of the metric that has most points: nothing is known of them."""
    metric = max(metrics.values(), key=lambda one: len(one.start_s), default=None)
    if metric is None:
        return
    steps = np.diff(metric.start_s)
    wide = np.flatnonzero(steps > _GAP_PERIODS * metric.period_s)
    if len(wide):
        missing = int(np.round(steps[wide] / metric.period_s - 1).sum())
        gap_ends = ", ".join(_moment(metric.start_s[at] + metric.period_s) for at in wide[:_GAPS_SHOWN])
        more = f" and {len(wide) - _GAPS_SHOWN} more" if len(wide) > _GAPS_SHOWN else ""
        yield (
            f"CloudWatch has no points for {missing} periods of {metric.period_s:g} s, in {len(wide)} gaps, from "
            f"{gap_ends}{more}"
        )


def _moment(epoch_s: float) -> str:
    return f"{np.datetime64(round(epoch_s), 's')}Z"


def _metrics(answer: Any) -> Iterator[_Metric]:
    if isinstance(answer, list):
        for each in answer:
            yield from _metrics(each)
        return
    if not isinstance(answer, dict):
        raise ValueError("not an answer of CloudWatch")
    if answer.get("NextToken"):
        raise ValueError("the answer is only a first page (it has a NextToken): get all pages, as the AWS CLI does")
    for result in _objects(answer.get("MetricDataResults", [])):
        if result.get("StatusCode", "Complete") not in ("Complete", "PartialData"):
            raise ValueError(f"CloudWatch could not answer for {result.get('Label')!r}: {result['StatusCode']}")
        name, statistic = _named(str(result.get("Label", result.get("Id", ""))))
        yield _metric(name, statistic, result.get("Timestamps", ()), result.get("Values", ()))
    if "Datapoints" in answer:
        yield from _of_statistics(str(answer.get("Label", "")), _objects(answer["Datapoints"]))


def _objects(results: Any) -> list[dict[str, Any]]:
    if not isinstance(results, list) or not all(isinstance(result, dict) for result in results):
        raise ValueError("not an answer of CloudWatch: a list of objects is something else")
    return results


def _named(label: str) -> tuple[str, str]:
    """Metric and statistic of a label: the console writes more into it, such as the volume's name."""
    tokens = label.split()
    statistic = next((token for token in tokens if token == _COUNT or token in _STATISTICS), "")
    known_names = (token for token in tokens if token in SUMS or token in LEVELS)
    left = [token for token in tokens if token != statistic]
    return next(known_names, left[-1] if left else ""), statistic


def _of_statistics(name: str, points: Sequence[Mapping[str, Any]]) -> Iterator[_Metric]:
    for statistic in ("main", _COUNT):
        if statistic == _COUNT and name not in COUNTS:
            continue
        samples = []
        for point in points:
            key = next((k for k in _STATISTICS if k in point), None) if statistic == "main" else _COUNT
            if key is not None and key in point:
                samples.append((point["Timestamp"], point[key]))
        yield _metric(
            name, "" if statistic == "main" else _COUNT, [at for at, _ in samples], [v for _, v in samples]
        )


def _metric(name: str, statistic: str, stamps: Sequence[Any], values: Sequence[float]) -> _Metric:
    if not isinstance(stamps, list | tuple) or not isinstance(values, list | tuple):
        raise ValueError(f"{name} has no lists of times and values")
    if len(stamps) != len(values):
        raise ValueError(f"{name} has {len(stamps)} times and {len(values)} values")
    start_s, value = _epochs(stamps), _numbers(name, values)
    order = np.argsort(start_s, kind="stable")
    return _Metric(name=name, statistic=statistic, start_s=start_s[order], value=value[order])


def _numbers(name: str, values: Sequence[Any]) -> Floats:
    try:
        numbers = np.asarray(values) if len(values) else np.empty(0)
    except ValueError:  # lists of different lengths among them
        numbers = np.empty(0, np.object_)
    if numbers.dtype.kind not in "biuf" or numbers.ndim != 1 or not (np.abs(numbers) < NUMBER_MAX).all():
        raise ValueError(f"{name} has a value that is no number")
    return numbers.astype(np.float64)


def _epochs(stamps: Sequence[Any]) -> Floats:
    """Seconds since the epoch of numbers, or of times such as 2026-01-31T14:00:00Z; without a zone it is UTC."""
    if not len(stamps):
        return np.empty(0)
    if all(isinstance(stamp, int | float) for stamp in stamps):
        if not all(0 <= stamp < EPOCH_MAX_S for stamp in stamps):
            raise ValueError("a time is outside 1970 .. 9000")
        return np.asarray(stamps, dtype=np.float64)
    first = str(stamps[0])
    zoned = first.endswith("Z") or "+" in first[10:] or "-" in first[10:]
    try:
        times = pa.array(stamps, pa.string()).cast(pa.timestamp("us", tz="UTC" if zoned else None))
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise ValueError(f"a time cannot be read: {str(error).splitlines()[0]}") from error
    epochs = np.asarray(times.cast(pa.int64()).to_numpy(), dtype=np.float64) / 1e6
    if not (np.abs(epochs) < EPOCH_MAX_S).all():
        raise ValueError("a time is outside 1970 .. 9000")
    return epochs
