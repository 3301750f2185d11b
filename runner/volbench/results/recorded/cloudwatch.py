"""CloudWatch's JSON of EBS, EFS, RDS and EC2: `get-metric-data`, `get-metric-statistics`, several answers a file.

Sums become rates over their period; waiting times are total time over operations. A time stamp stands at the start
of its period. Of EFS the count of samples is the count of operations. What a label says beside the metric and the
statistic, such as a volume's id, is what the metric is of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from volbench.core.base.parse import EPOCH_MAX_S, NUMBER_MAX
from volbench.core.base.text import counted
from volbench.results.recorded.cloudwatch_metrics import (
    AWAITS,
    COUNT,
    COUNTS,
    CPU,
    EXTENDED,
    INSTANCE,
    LEVELS,
    STATISTICS,
    SUMS,
    SUPPORTED,
    VOLUME,
    refusal,
)
from volbench.results.recorded.json_values import json_values
from volbench.results.recorded.parsed import Recorded, joined, recorded_of_epochs
from volbench.results.store.series import Series, SeriesKey

__all__ = ["VOLUME"]

Floats = NDArray[np.float64]
SOURCE = "cloudwatch"
_PERIOD_S = 60.0
_GAP_PERIODS = 1.5
_GAPS_SHOWN = 3
_ANSWERS_MAX = 10_000
_SAME = 1e-6
_HEAD = 20_000
_MS_MIN = 1e11
"""From here on a time since the epoch is in milliseconds: as seconds it would be in the year 5138."""


@dataclass(frozen=True, kw_only=True)
class MetricDataResult:
    """One metric of an answer: starts of its periods, s since the epoch, ascending, and its values.

    `entity` is what its label says that it is of, empty: nothing. `stated_period_s`: as the answer says.
    """

    name: str
    statistic: str
    start_s: Floats
    value: Floats
    entity: str = ""
    stated_period_s: float | None = None

    @cached_property
    def period_s(self) -> float:
        """The stated period, else the shortest distance of two points."""
        if self.stated_period_s is not None:
            return self.stated_period_s
        return float(np.diff(self.start_s).min()) if len(self.start_s) > 1 else _PERIOD_S

    @property
    def key(self) -> tuple[str, str]:
        """The name, with the statistic where it is how many values there were, and the entity."""
        return f"{self.name} {COUNT}" if self.statistic == COUNT else self.name, self.entity


_ERROR = re.compile(r"^An error occurred \(\w+\)", re.MULTILINE)
"""What the AWS CLI prints; the shell's 2>&1 puts it between the answers."""


def looks_like_cloudwatch(text: str) -> bool:
    """Whether a file is an answer of CloudWatch."""
    is_json = text.lstrip().startswith(("{", "[")) and "datetime.datetime(" not in text[:_HEAD]
    return is_json and ("MetricDataResults" in text or "Datapoints" in text)


def parse_cloudwatch(text: str) -> Recorded:
    """Series of the answers in a file, times as seconds since midnight UTC of the first day.

    Raises ValueError for text that is no JSON, other JSON, or an answer that is cut off or does not fit together.
    """
    series, notes = parse_answers(list(json_values(text)))
    if "An error occurred (" in text:
        notes += tuple(f"an answer is missing in the file: {error[0]}" for error in _ERROR.finditer(text))
    if not series:
        return Recorded(series={}, clocked=True, notes=notes or ("CloudWatch's answer has no data points",))
    return recorded_of_epochs(series, notes)


def parse_answers(answer: Any) -> tuple[dict[SeriesKey, Series], tuple[str, ...]]:
    """Series with times since the epoch, each at the end of its period, and what a reader must know.

    Raises ValueError as parse_cloudwatch.
    """
    return series_of_metrics(_metrics(answer))


def series_of_metrics(answers: Iterable[MetricDataResult]) -> tuple[dict[SeriesKey, Series], tuple[str, ...]]:
    """Series of metrics with times since the epoch, each at the end of its period, and what a reader must know."""
    notes: list[str] = []
    usable = []
    unknown = []
    for metric in answers:
        if not len(metric.start_s):
            continue
        reason = refusal(metric.name, metric.statistic) if metric.name in SUPPORTED else ""
        if reason:
            notes.append(reason)
        elif metric.name in SUPPORTED:
            usable.append(metric)
        elif metric.name:
            unknown.append(metric.name)
    metrics = _by_key(_with_only_entity(usable))
    series: dict[SeriesKey, Series] = {}
    for source, name, entity, t_s, value in _values(metrics):
        if len(t_s):
            series.setdefault(SeriesKey(source=source, metric=name, entity=entity), Series(t_s=t_s, value=value))
    if unknown:
        notes.append(f"CloudWatch's {', '.join(dict.fromkeys(unknown))}: not used")
    return series, (*dict.fromkeys(notes), *_gaps(metrics))


def _with_only_entity(answers: Sequence[MetricDataResult]) -> list[MetricDataResult]:
    """Metrics of which some name the volume, and all that do name the same: the others are of that one as well."""
    of_volume = [answer for answer in answers if answer.name not in _OF_INSTANCE]
    entities = {answer.entity for answer in of_volume} - {""}
    if len(entities) != 1:
        return list(answers)
    entity = entities.pop()
    return [answer if answer.name in _OF_INSTANCE else replace(answer, entity=entity) for answer in answers]


_OF_INSTANCE = frozenset({CPU, *(name for name, (_, _, owner) in LEVELS.items() if owner == INSTANCE)})


def _by_key(answers: Sequence[MetricDataResult]) -> dict[tuple[str, str], MetricDataResult]:
    """Metrics by name and entity, pages joined; an answer that contradicts others is of a further volume."""
    metrics_of: dict[tuple[str, str], list[MetricDataResult]] = {}
    for metric in answers:
        candidates = (metric.entity, *(f"{metric.entity or VOLUME} {n}" for n in range(2, _ANSWERS_MAX)))
        for entity in candidates:
            own = replace(metric, entity=entity)
            if not any(_contradicts(own, metric) for metric in metrics_of.get(own.key, ())):
                metrics_of.setdefault(own.key, []).append(own)
                break
    return {key: _joined(same) for key, same in metrics_of.items()}


def _contradicts(first: MetricDataResult, second: MetricDataResult) -> bool:
    """Whether two answers of one metric have other values for most of the times that both have."""
    _, at, second_index = np.intersect1d(first.start_s, second.start_s, return_indices=True)
    if not len(at):
        return False
    difference = np.abs(first.value[at] - second.value[second_index])
    return bool((difference > _SAME * np.maximum(1.0, np.abs(first.value[at]))).mean() > 0.5)


def _joined(pages: Sequence[MetricDataResult]) -> MetricDataResult:
    """One metric of several pages or files."""
    points = joined([Series(t_s=page.start_s, value=page.value) for page in pages])
    return replace(pages[0], start_s=points.t_s, value=points.value)


def _values(metrics: Mapping[tuple[str, str], MetricDataResult]) -> Iterator[tuple[str, str, str, Floats, Floats]]:
    """Source, our metric, what it is of, ends of periods, values."""
    for metric in metrics.values():
        ends_s = metric.start_s + metric.period_s
        of_volume = metric.entity or VOLUME
        if metric.statistic == COUNT:
            yield SOURCE, COUNTS[metric.name], of_volume, ends_s, metric.value / metric.period_s
        elif metric.name in SUMS:
            metric_name, scale = SUMS[metric.name]
            yield SOURCE, metric_name, of_volume, ends_s, metric.value * scale / metric.period_s
        elif metric.name in LEVELS:
            metric_name, scale, owner = LEVELS[metric.name]
            yield SOURCE, metric_name, metric.entity or owner, ends_s, metric.value * scale
        elif metric.name == CPU:
            yield "cpu", "user_ratio", metric.entity, ends_s, metric.value / 100
            yield "cpu", "system_ratio", metric.entity, ends_s, np.zeros_like(metric.value)
    for metric_name, (time_name, count_name) in AWAITS.items():
        for (name, entity), times in metrics.items():
            counts = metrics.get((count_name, entity))
            if name != time_name or counts is None:
                continue
            both, at_time, at_count = np.intersect1d(times.start_s, counts.start_s, return_indices=True)
            some = counts.value[at_count] > 0
            waits = times.value[at_time][some] / counts.value[at_count][some] * 1000
            yield SOURCE, metric_name, entity or VOLUME, both[some] + counts.period_s, waits


def _gaps(metrics: Mapping[tuple[str, str], MetricDataResult]) -> Iterator[str]:
    """Stretches without points, of the metric that has most points: nothing is known of them."""
    metric = max(metrics.values(), key=lambda metric_of: len(metric_of.start_s), default=None)
    if metric is None:
        return
    steps = np.diff(metric.start_s)
    wide = np.flatnonzero(steps > _GAP_PERIODS * metric.period_s)
    if len(wide):
        missing = int(np.round(steps[wide] / metric.period_s - 1).sum())
        gap_ends = ", ".join(_moment(metric.start_s[at] + metric.period_s) for at in wide[:_GAPS_SHOWN])
        more = f" and {len(wide) - _GAPS_SHOWN} more" if len(wide) > _GAPS_SHOWN else ""
        yield (
            f"CloudWatch has no points for {counted(missing, 'period')} of {metric.period_s:g} s, in "
            f"{counted(len(wide), 'gap')}, from "
            f"{gap_ends}{more}"
        )


def _moment(epoch_s: float) -> str:
    return f"{np.datetime64(round(epoch_s), 's')}Z"


def _metrics(answer: Any) -> Iterator[MetricDataResult]:
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
        label = str(result.get("Label", result.get("Id", "")))
        yield metric_of(label, result.get("Timestamps", ()), result.get("Values", ()))
    if "Datapoints" in answer:
        yield from _of_statistics(str(answer.get("Label", "")), _objects(answer["Datapoints"]))


def _objects(results: Any) -> list[dict[str, Any]]:
    if not isinstance(results, list) or not all(isinstance(result, dict) for result in results):
        raise ValueError("not an answer of CloudWatch: a list of objects is something else")
    return results


def named(label: str) -> tuple[str, str, str]:
    """Metric, statistic and entity of a label: several queries write more than the metric into it."""
    tokens = [token.strip("()[],:;\"'") for token in label.replace("·", " ").split()]
    statistic = next((token for token in tokens if token in STATISTICS or EXTENDED.fullmatch(token)), "")
    name = next((token for token in tokens if token in SUPPORTED), "")
    left = [token for token in tokens if token not in (statistic, name) and any(map(str.isalnum, token))]
    left = [token for token in left if not token.startswith("AWS/") and token not in _DIMENSIONS]
    if not name:
        return (left[-1] if left else ""), statistic, ""
    return name, statistic, " ".join(left)


_DIMENSIONS = frozenset(
    {"VolumeId", "DBInstanceIdentifier", "InstanceId", "FileSystemId", "EBS", "RDS", "EC2", "EFS"}
)


def _of_statistics(label: str, points: Sequence[Mapping[str, Any]]) -> Iterator[MetricDataResult]:
    """The statistics of an answer that its metric needs; where none is there, those that it has."""
    name, _, entity = named(label)
    points = [_with_extended(point) for point in points]
    names = dict.fromkeys(statistic for point in points for statistic in point)
    statistics = [
        *(statistic for statistic in STATISTICS if statistic in names),
        *(statistic for statistic in names if EXTENDED.fullmatch(statistic)),
    ]
    useful = [statistic for statistic in statistics if name not in SUPPORTED or not refusal(name, statistic)]
    for statistic in useful or statistics[:1]:
        if statistic in ("Maximum", "Minimum") and "Average" in useful:
            continue
        samples = [(point["Timestamp"], point[statistic]) for point in points if statistic in point]
        metric = metric_of(name, [at for at, _ in samples], [value for _, value in samples])
        yield replace(metric, statistic=statistic, entity=entity)


def _with_extended(point: Mapping[str, Any]) -> Mapping[str, Any]:
    """A point with its percentiles beside its other statistics."""
    extended = point.get("ExtendedStatistics")
    return {**point, **extended} if isinstance(extended, dict) else point


def metric_of(label: str, stamps: Sequence[Any], values: Sequence[Any]) -> MetricDataResult:
    """A metric of its label, times and values. Raises ValueError."""
    name, statistic, entity = named(label)
    if not isinstance(stamps, list | tuple) or not isinstance(values, list | tuple):
        raise ValueError(f"{name} has no lists of times and values")
    if len(stamps) != len(values):
        raise ValueError(f"{name} has {len(stamps)} times and {counted(len(values), 'value')}")
    start_s, value = _epochs(stamps), _numbers(name, values)
    order = np.argsort(start_s, kind="stable")
    return MetricDataResult(
        name=name, statistic=statistic, entity=entity, start_s=start_s[order], value=value[order]
    )


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
        epochs = np.asarray(stamps, dtype=np.float64)
        epochs = epochs / 1000 if (epochs >= _MS_MIN).all() else epochs
        if not ((epochs >= 0) & (epochs < EPOCH_MAX_S)).all():
            raise ValueError("a time is outside 1970 .. 9000")
        return epochs
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
