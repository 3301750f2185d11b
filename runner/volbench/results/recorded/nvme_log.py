"""A log of an EBS volume's own counters: objects of `nvme amzn stats -o json`, one a line, each with a time.

For instance: while sleep 1; do nvme amzn stats -o json /dev/nvme1n1 | jq -c '. + {timestamp: now}'; done
Times are microseconds and counters grow from the volume's attachment. Source: Amazon EBS User Guide, detailed
performance statistics.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from volbench.core.base.parse import WHOLE_MAX, parse_json, parse_moment
from volbench.results.recorded.parsed import Recorded, SeriesTable, recorded_of_epochs
from volbench.results.store.series import Series, SeriesKey

SOURCE = "ebs_nvme"
_MIB = 1024 * 1024
_TIMES = ("timestamp", "time", "t")
_RATES = {
    "total_read_ops": ("reads_per_s", 1.0),
    "total_write_ops": ("writes_per_s", 1.0),
    "total_read_bytes": ("read_mib_per_s", 1 / _MIB),
    "total_write_bytes": ("write_mib_per_s", 1 / _MIB),
    "ebs_volume_performance_exceeded_iops": ("volume_exceeded_iops_ratio", 1e-6),
    "ebs_volume_performance_exceeded_tp": ("volume_exceeded_throughput_ratio", 1e-6),
    "ec2_instance_ebs_performance_exceeded_iops": ("instance_exceeded_iops_ratio", 1e-6),
    "ec2_instance_ebs_performance_exceeded_tp": ("instance_exceeded_throughput_ratio", 1e-6),
}
_AWAITS = {
    "r_await_ms": ("total_read_time", "total_read_ops"),
    "w_await_ms": ("total_write_time", "total_write_ops"),
}
_QUEUE = "volume_queue_length"


def looks_like_nvme_log(text: str) -> bool:
    """Whether the first line is such an object."""
    first = text.lstrip().split("\n", 1)[0]
    return first.startswith("{") and '"total_read_ops"' in first


def parse_nvme_log(text: str, *, entity: str = "volume") -> dict[SeriesKey, Series]:
    """Rates between each two objects, times since the epoch; where counters fall (attached anew), none.

    Raises ValueError naming a line that is no such object.
    """
    table = SeriesTable()
    before: tuple[float, dict[str, Any]] | None = None
    for now in _objects(text):
        if before is not None and now[0] > before[0]:
            for metric, value in _between(before, now):
                table.add(now[0], SOURCE, metric, entity, value)
        before = now
    return table.series()


def parse_nvme_recording(text: str) -> Recorded:
    """The same as a recording with times of day in UTC. Raises ValueError as parse_nvme_log."""
    series = parse_nvme_log(text)
    return recorded_of_epochs(series) if series else Recorded(series={}, clocked=True)


def _objects(text: str) -> Iterator[tuple[float, dict[str, Any]]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = parse_json(line)
            if not isinstance(record, dict):
                raise TypeError("no object")
            at = next(record[name] for name in _TIMES if name in record)
            missing = [name for name in (*_RATES, *(time for time, _ in _AWAITS.values())) if name not in record]
        except (ValueError, TypeError, StopIteration) as error:
            raise ValueError(f"line {number} is no JSON object with a timestamp") from error
        if missing:
            raise ValueError(f"line {number} lacks {', '.join(missing[:3])}")
        counters = {name: value for name, value in record.items() if name.startswith(("total_", "e", _QUEUE))}
        wrong = [name for name, value in counters.items() if not _counts(value)]
        if wrong:
            raise ValueError(f"line {number}: {wrong[0]} is no counter")
        yield _epoch(at), record


def _between(
    before: tuple[float, dict[str, Any]], now: tuple[float, dict[str, Any]]
) -> Iterator[tuple[str, float]]:
    seconds = now[0] - before[0]
    grown = {name: now[1][name] - before[1][name] for name in before[1] if name.startswith(("total_", "e"))}
    if any(value < 0 for value in grown.values()):
        return
    for name, (metric, scale) in _RATES.items():
        yield metric, grown[name] * scale / seconds
    for metric, (time_name, count_name) in _AWAITS.items():
        if grown[count_name] > 0:
            yield metric, grown[time_name] / grown[count_name] / 1000
    if _QUEUE in now[1]:
        yield "queue_length", float(now[1][_QUEUE])


def _epoch(at: str | float) -> float:
    if _counts(at):
        return float(at)
    return parse_moment(str(at)).timestamp()


def _counts(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= WHOLE_MAX
