"""RDS' own monitoring: Enhanced Monitoring's JSON (of CloudWatch Logs) and answers of Performance Insights.

Source: Amazon RDS User Guide, OS metrics in Enhanced Monitoring and Performance Insights counter metrics; AWS
CLI Command Reference, logs get-log-events and pi get-resource-metrics.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from volbench.core.base.parse import EPOCH_MAX_S, NUMBER_MAX, parse_json
from volbench.results.recorded.json_values import json_values
from volbench.results.recorded.parsed import Recorded, SeriesTable, recorded_of_epochs
from volbench.results.store.series import SeriesKey

_DISK = {
    "readIOsPS": ("reads_per_s", 1.0),
    "writeIOsPS": ("writes_per_s", 1.0),
    "readKbPS": ("read_mib_per_s", 1 / 1024),
    "writeKbPS": ("write_mib_per_s", 1 / 1024),
    "await": ("await_ms", 1.0),
    "avgQueueLen": ("aqu_sz", 1.0),
    "util": ("util_ratio", 0.01),
    "readLatency": ("r_await_ms", 1.0),
    "writeLatency": ("w_await_ms", 1.0),
}
_CPU = {
    "user": "user_ratio",
    "system": "system_ratio",
    "wait": "iowait_ratio",
    "steal": "steal_ratio",
    "idle": "idle_ratio",
}
_LOAD = "db.load"


def looks_like_enhanced_monitoring(text: str) -> bool:
    """Whether a file has Enhanced Monitoring's objects, by themselves or as messages of log events."""
    head = text[:100_000]
    return "cpuUtilization" in head and ("diskIO" in head or "physicalDeviceIO" in head) and "{" in head


def parse_enhanced_monitoring(text: str) -> list[Recorded]:
    """Series of each instance, times in UTC. Raises ValueError for JSON that is cut off or something else."""
    tables: dict[str, SeriesTable] = {}
    for value in json_values(_messages(text)):
        for sample in _samples(value):
            _sample(tables.setdefault(str(sample.get("instanceID", "")), SeriesTable()), sample)
    return [_in_utc(table, host) for host, table in sorted(tables.items()) if table.series()]


def _messages(text: str) -> str:
    """The objects of a text, where other words stand before each, or in the last column of CSV (Logs Insights)."""
    if text.lstrip().startswith(("{", "[")):
        return text
    head = text[: text.find("\n")] if "\n" in text else ""
    if "@message" in head:
        rows = csv.DictReader(io.StringIO(text))
        return "\n".join(row["@message"] for row in rows if row.get("@message"))
    return _BEFORE_OBJECT.sub("", text)


_BEFORE_OBJECT = re.compile(r"^[^{\n]+(?=\{)", re.MULTILINE)


def _in_utc(table: SeriesTable, host: str) -> Recorded:
    recorded = recorded_of_epochs(table.series())
    return Recorded(series=recorded.series, clocked=True, host=host, midnight_epoch_s=recorded.midnight_epoch_s)


def _samples(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a value: itself, those of a list, or the messages of log events."""
    if isinstance(value, list):
        for each in value:
            yield from _samples(each)
    elif isinstance(value, Mapping) and isinstance(value.get("events"), list):
        yield from _samples(value["events"])
    elif isinstance(value, Mapping) and isinstance(value.get("message"), str):
        yield from _samples(parse_json(value["message"]))
    elif isinstance(value, Mapping) and "cpuUtilization" in value:
        yield value


def _sample(table: SeriesTable, sample: Mapping[str, Any]) -> None:
    t_s = _epoch(sample.get("timestamp"))
    cpu = sample.get("cpuUtilization")
    for name, value in cpu.items() if isinstance(cpu, Mapping) else ():
        if name in _CPU:
            table.add(t_s, "cpu", _CPU[name], "", _scaled(value, 0.01))
    devices = sample.get("physicalDeviceIO") or sample.get("diskIO")
    for device in devices if isinstance(devices, list) else ():
        if not isinstance(device, Mapping):
            raise ValueError("a device is no object")
        name = str(device.get("device") or "volume")
        operations = (_scaled(device.get("readIOsPS"), 1.0) or 0.0) + (
            _scaled(device.get("writeIOsPS"), 1.0) or 0.0
        )
        for column, (metric, scale) in _DISK.items():
            value = _scaled(device.get(column), scale)
            if metric.endswith("await_ms") and operations <= 0:
                value = None
            table.add(t_s, "diskstats", metric, name, value)


def looks_like_performance_insights(text: str) -> bool:
    """Whether a file is an answer of Performance Insights."""
    return text.lstrip().startswith(("{", "[")) and '"MetricList"' in text[:100_000]


def parse_performance_insights(text: str) -> Recorded:
    """Series of the counters of the operating system in an answer, times in UTC; the load by waits is a note.

    Raises ValueError for JSON that is cut off or something else.
    """
    table, unused, answers = SeriesTable(), list[str](), list(json_values(text))
    for answer in [each for value in answers for each in (value if isinstance(value, list) else [value])]:
        metrics = answer.get("MetricList") if isinstance(answer, Mapping) else None
        if not isinstance(metrics, list):
            raise ValueError("not an answer of Performance Insights")
        for metric in metrics:
            name, points = _metric(metric)
            key, scale = _key(name)
            if key is None:
                unused.append(name)
                continue
            for point in points:
                value = _scaled(point.get("Value"), scale)
                if value is not None:
                    table.add(_epoch(point.get("Timestamp")), key.source, key.metric, key.entity, value)
    series = table.series()
    notes = (f"Performance Insights' {', '.join(dict.fromkeys(unused))}: not used",) if unused else ()
    return recorded_of_epochs(series, notes) if series else Recorded(series={}, clocked=True, notes=notes)


def _metric(metric: Any) -> tuple[str, list[Mapping[str, Any]]]:
    key = metric.get("Key") if isinstance(metric, Mapping) else None
    points = metric.get("DataPoints") if isinstance(metric, Mapping) else None
    if not isinstance(key, Mapping) or not isinstance(points, list):
        raise ValueError("a metric has no key or no points")
    if not all(isinstance(point, Mapping) for point in points):
        raise ValueError("a point is no object")
    return str(key.get("Metric", "")), points


def _key(name: str) -> tuple[SeriesKey | None, float]:
    """The series of a metric such as os.diskIO.rdsdev.readIOsPS.avg, and the factor of its unit."""
    name_parts = name.split(".")
    if (
        name_parts[:2] == ["os", "diskIO"]
        and len(name_parts) in (4, 5)
        and name_parts[3] in _DISK
        and name_parts[-1] in ("avg", name_parts[3])
    ):
        metric, scale = _DISK[name_parts[3]]
        return SeriesKey(source="diskstats", metric=metric, entity=name_parts[2]), scale
    if name_parts[:2] == ["os", "cpuUtilization"] and len(name_parts) >= 3 and name_parts[2] in _CPU:
        return SeriesKey(source="cpu", metric=_CPU[name_parts[2]], entity=""), 0.01
    if name.startswith(_LOAD) and "wait" not in name:
        return SeriesKey(source="innodb", metric="threads_running", entity=""), 1.0
    return None, 1.0


def _scaled(value: Any, scale: float) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > NUMBER_MAX:
        raise ValueError(f"{value!r} is no number")
    return float(value) * scale


def _epoch(stamp: Any) -> float:
    """Seconds since the epoch of a time in ISO form or a number."""
    if isinstance(stamp, int | float) and not isinstance(stamp, bool):
        epoch_s = float(stamp)
    else:
        moment = datetime.fromisoformat(str(stamp))
        epoch_s = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    if not 0 <= epoch_s < EPOCH_MAX_S:
        raise ValueError("a time is outside 1970 .. 9000")
    return epoch_s
