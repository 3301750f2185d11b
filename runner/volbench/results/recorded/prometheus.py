"""node_exporter's and mysqld_exporter's metrics from Prometheus: answers of `query_range`, and exporter text.

Counters become rates between points. An answer may hold several hosts (`instance`) and devices; a file may hold
several answers. Source: Prometheus, HTTP API and exposition formats; node_exporter, diskstats_linux.go and cpu.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volbench.core.base.parse import EPOCH_MAX_S
from volbench.results.recorded.json_values import json_values
from volbench.results.recorded.parsed import Recorded, recorded_of_epochs
from volbench.results.recorded.prometheus_labels import DISK, Counter, Points, by_host
from volbench.results.recorded.status_rates import GAUGES, RATES
from volbench.results.store.series import Series, SeriesKey

Floats = NDArray[np.float64]
_MIB = 2.0**20
_COUNTERS = {
    "reads_completed_total": ("reads_per_s", 1.0),
    "writes_completed_total": ("writes_per_s", 1.0),
    "read_bytes_total": ("read_mib_per_s", 1 / _MIB),
    "written_bytes_total": ("write_mib_per_s", 1 / _MIB),
    "io_time_seconds_total": ("util_ratio", 1.0),
    "io_time_weighted_seconds_total": ("aqu_sz", 1.0),
    "flush_requests_total": ("flushes_per_s", 1.0),
}
_TIMES = {
    "r_await_ms": ("read_time_seconds_total", "reads_completed_total"),
    "w_await_ms": ("write_time_seconds_total", "writes_completed_total"),
    "f_await_ms": ("flush_requests_time_seconds_total", "flush_requests_total"),
}
_CPU = {
    "user": "user_ratio",
    "nice": "user_ratio",
    "system": "system_ratio",
    "irq": "system_ratio",
    "softirq": "system_ratio",
    "iowait": "iowait_ratio",
    "steal": "steal_ratio",
    "idle": "idle_ratio",
}
TIME_OF = {"r_await_ms": "read_time_s_per_s", "w_await_ms": "write_time_s_per_s"}
"""Seconds of operations a second, where their count is in another file: no metric of a sampler."""
_MYSQL = "mysql_global_status_"
_TEXT = re.compile(
    r"^(?P<name>(?:node_disk|node_cpu|mysql_global_status)_\w+)(?:\{(?P<labels>[^}\n]*)\})?"
    r" (?P<value>\d[\d.eE+-]*)(?: (?P<time>\d+(?:\.\d+)?))?",
    re.MULTILINE,
)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_EXAMPLE = "node_disk_reads_completed_total"
_NAMES_SHOWN = 3
_MS_MIN = 1e11
"""From here on a time since the epoch is in milliseconds: the classic text format, and VictoriaMetrics."""


def looks_like_prometheus(text: str) -> bool:
    """Whether a file is an answer of Prometheus' API."""
    begin = text[:100_000]
    is_export = '"timestamps"' in begin and '"metric"' in begin
    return text.lstrip()[:1] in ("{", "[") and ('"resultType"' in begin or '"errorType"' in begin or is_export)


def parse_prometheus(text: str) -> list[Recorded]:
    """Series of each host in an answer, times in UTC. Raises ValueError for other answers and metrics."""
    points = raw_points(text)
    recordings = recorded_by_host(points)
    if not recordings:
        names = sorted({name for _, name, _ in points})
        listed = ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
        content = f"it has only {listed}" if names else "the answer is empty"
        raise ValueError(f"{content}: give query_range of counters such as {_EXAMPLE}")
    return recordings


def raw_points(text: str) -> dict[tuple[str, str, str], Points]:
    """Points of each counter, by host, name and what it is of (a device, or a CPU and its mode)."""
    counters: list[Counter] = []
    nameless = 0
    for answer in json_values(text):
        for result in _results(answer):
            labels = result.get("metric", {})
            if not isinstance(labels, Mapping):
                raise ValueError("a result has no labels")
            name = str(labels.get("__name__", ""))
            nameless += not name
            values = result.get("values", result.get("value"))
            if "timestamps" in result:
                values = _pairs(result["timestamps"], values)
            counters.append((name, {str(label): str(value) for label, value in labels.items()}, _points(values)))
    points = by_host(counters)
    if nameless and not any(name for _, name, _ in points):
        raise ValueError(
            "its results have no metric's name, as rate() and other functions leave none: query the counters"
            f" themselves, such as {_EXAMPLE}"
        )
    return points


def _pairs(times_ms: Any, values: Any) -> list[list[Any]]:
    """Times and values of VictoriaMetrics' export, as Prometheus pairs them."""
    if not isinstance(times_ms, list) or not isinstance(values, list) or len(times_ms) != len(values):
        raise ValueError("a result has no lists of times and values of one length")
    if not all(isinstance(time_ms, int | float) for time_ms in times_ms):
        raise ValueError("a time is no number")
    return [[t_ms / 1000, value] for t_ms, value in zip(times_ms, values, strict=True)]


def _results(answer: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(answer, list):
        for each in answer:
            yield from _results(each)
        return
    data = answer.get("data") if isinstance(answer, Mapping) else None
    if isinstance(answer, Mapping) and answer.get("status") == "error":
        raise ValueError(f"Prometheus answered with an error: {answer.get('error')}")
    if isinstance(answer, Mapping) and "timestamps" in answer and "metric" in answer:
        yield answer  # a line of VictoriaMetrics' export
        return
    results = data.get("result") if isinstance(data, Mapping) else None
    if not isinstance(results, list) or not all(isinstance(result, Mapping) for result in results):
        raise ValueError("not an answer of query_range")
    yield from results


def _points(values: Any) -> Points:
    if isinstance(values, list) and len(values) == 2 and not isinstance(values[0], list):
        raise ValueError("it is an answer of `query`, of one moment: `query_range` gives a series")
    if not isinstance(values, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in values):
        raise ValueError("a result has no list of times and values")
    try:
        array = np.array([(float(t_s), float(value)) for t_s, value in values], dtype=np.float64).reshape(-1, 2)
    except (TypeError, ValueError) as error:
        raise ValueError(f"a value cannot be read: {error}") from error
    array = array[np.isfinite(array).all(axis=1)]
    if len(array) and not (np.abs(array[:, 0]) < EPOCH_MAX_S).all():
        raise ValueError("a time is outside 1970 .. 9000")
    array = array[np.argsort(array[:, 0], kind="stable")]
    return array[:, 0], array[:, 1]


def recorded_by_host(points: Mapping[tuple[str, str, str], Points]) -> list[Recorded]:
    """One recording for each host of counters."""
    recordings = []
    for host in sorted({host for host, _, _ in points}):
        of_host = {
            (name, entity): points_of for (owner, name, entity), points_of in points.items() if owner == host
        }
        series = dict(_series(of_host))
        if series:
            recorded = recorded_of_epochs(series)
            recordings.append(
                Recorded(
                    series=recorded.series,
                    clocked=True,
                    host=host,
                    midnight_epoch_s=recorded.midnight_epoch_s,
                )
            )
    return recordings


def _series(points: Mapping[tuple[str, str], Points]) -> Iterator[tuple[SeriesKey, Series]]:
    for (name, entity), points_of in points.items():
        short = name.removeprefix(DISK)
        if name.startswith(DISK) and short in _COUNTERS:
            metric, scale = _COUNTERS[short]
            yield from _named("diskstats", metric, entity, _rate(points_of), scale)
        elif name == f"{DISK}io_now":
            yield from _named("diskstats", "in_flight", entity, points_of, 1.0)
        elif name.startswith(_MYSQL):
            yield from _status(name.removeprefix(_MYSQL), points_of)
    for metric, (time_name, count_name) in _TIMES.items():
        for (name, entity), times in points.items():
            counts = points.get((DISK + count_name, entity))
            if name == DISK + time_name and counts is not None:
                yield from _named("diskstats", metric, entity, _each(times, counts), 1000.0)
            elif name == DISK + time_name and metric in TIME_OF:
                yield from _named("diskstats", TIME_OF[metric], entity, _rate(times), 1.0)
    yield from _cpus(points)


def _named(
    source: str, metric: str, entity: str, points: Points, scale: float
) -> Iterator[tuple[SeriesKey, Series]]:
    t_s, value = points
    if len(t_s):
        yield SeriesKey(source=source, metric=metric, entity=entity), Series(t_s=t_s, value=value * scale)


def _status(name: str, points: Points) -> Iterator[tuple[SeriesKey, Series]]:
    if name in RATES:
        metric, scale = RATES[name]
        yield from _named("innodb", metric, "", _rate(points), scale)
    elif name in GAUGES:
        yield from _named("innodb", GAUGES[name], "", points, 1.0)


def _rate(points: Points) -> Points:
    """Growth a second between points; none where a counter began anew."""
    t_s, value = points
    grown, dt_s = np.diff(value), np.diff(t_s)
    usable = (grown >= 0) & (dt_s > 0)
    return t_s[1:][usable], grown[usable] / dt_s[usable]


def _each(times: Points, counts: Points) -> Points:
    """Growth of a time over that of a count, at the times that both have."""
    both, at_time, at_count = np.intersect1d(times[0], counts[0], return_indices=True)
    spent, done = np.diff(times[1][at_time]), np.diff(counts[1][at_count])
    usable = (done > 0) & (spent >= 0)
    return both[1:][usable], spent[usable] / done[usable]


def _cpus(points: Mapping[tuple[str, str], Points]) -> Iterator[tuple[SeriesKey, Series]]:
    """Shares of all CPUs' time by what they did, at the times that all of their counters have."""
    rates = {
        entity: _rate(points_of) for (name, entity), points_of in points.items() if name == "node_cpu_seconds_total"
    }
    rates = {entity: rate for entity, rate in rates.items() if entity.split(" ")[-1] in _CPU and len(rate[0])}
    if not rates:
        return
    common = _common([t_s for t_s, _ in rates.values()])
    sums: dict[str, Floats] = {}
    for entity, (t_s, rate) in rates.items():
        metric = _CPU[entity.split(" ")[-1]]
        sums[metric] = sums.get(metric, np.zeros(len(common))) + rate[np.isin(t_s, common)]
    total = np.sum(list(sums.values()), axis=0)
    for metric, value in sums.items():
        yield from _named("cpu", metric, "", (common[total > 0], value[total > 0] / total[total > 0]), 1.0)


def _common(times: Sequence[Floats]) -> Floats:
    common = times[0]
    for t_s in times[1:]:
        common = np.intersect1d(common, t_s)
    return common


def looks_like_exporter(text: str) -> bool:
    """Whether a file is what an exporter answers, as `curl` of its port saves it, or a dump of its series."""
    return _TEXT.search(text[:200_000]) is not None


def parse_exporter(text: str) -> list[Recorded]:
    """Series of each host in lines with times (`promtool tsdb dump-openmetrics`).

    Raises ValueError for lines without: an exporter answers with the counters of one moment.
    """
    samples: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for matched in _TEXT.finditer(text):
        if matched["time"]:
            t_s = float(matched["time"])
            key = matched["name"], matched["labels"] or ""
            samples.setdefault(key, []).append((t_s / 1000 if t_s >= _MS_MIN else t_s, float(matched["value"])))
    if not samples:
        raise ValueError(
            "an exporter's answer is one moment of the counters, without a time: give what Prometheus recorded of"
            " it (query_range), or text of iostat -xt"
        )
    counters = (
        (name, dict(_LABEL.findall(labels)), _points([list(pair) for pair in pairs]))
        for (name, labels), pairs in samples.items()
    )
    return recorded_by_host(by_host(counters))
