"""What an observation sees, for Prometheus: `--listen 127.0.0.1:9104`, OpenMetrics or the older text format.

Counters are the sources' own, under their exporters' names: node_exporter for disks, mysqld_exporter for status
variables. What volbench makes of them has names of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    UnknownMetricFamily,
)
from prometheus_client.registry import Collector

from volbench.measure.sample.interface import Reading
from volbench.observe.observer import Now

_SECTOR = 512
_MS = 1 / 1000
_DISK = {
    "reads": ("node_disk_reads_completed", 1.0, "reads completed"),
    "writes": ("node_disk_writes_completed", 1.0, "writes completed"),
    "read_sectors": ("node_disk_read_bytes", _SECTOR, "bytes read"),
    "write_sectors": ("node_disk_written_bytes", _SECTOR, "bytes written"),
    "read_ms": ("node_disk_read_time_seconds", _MS, "time of reads"),
    "write_ms": ("node_disk_write_time_seconds", _MS, "time of writes"),
    "busy_ms": ("node_disk_io_time_seconds", _MS, "time with a request in flight"),
    "weighted_ms": ("node_disk_io_time_weighted_seconds", _MS, "time of all requests in flight"),
    "flushes": ("node_disk_flush_requests", 1.0, "flushes completed"),
}
_LATENCY = "volbench_statement_latency_seconds"
_PS = 1e-12
_NOW = {
    "credits": ("volbench_volume_credits_ratio", 0.01, "burst credits left"),
    "await": ("volbench_volume_await_seconds", _MS, "mean time of an operation in the last interval"),
    "stalled": (
        "volbench_volume_stalled_seconds",
        _MS,
        "so long nothing was completed while a request is in flight",
    ),
    "threads_running": ("volbench_threads_running", 1.0, "threads executing, ours not counted"),
}
_QUANTILES = {"p50": "0.5", "p95": "0.95", "p99": "0.99"}
_GENERATION = "connection"


class ObservationCollector(Collector):
    """Families from the latest readings.

    Args:
        readings: the latest reading of each source, as a mapping that may change meanwhile.
        now: what the observation knows at this moment.
    """

    def __init__(self, readings: Callable[[], Mapping[str, Reading]], now: Now) -> None:
        self._readings = readings
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """All families; what is not known now has no sample."""
        readings = dict(self._readings())
        yield from _disks(readings.get("diskstats"))
        yield from _status(readings.get("innodb"))
        yield from self._statements(readings.get("performance_schema"))
        yield from self._latest()

    def describe(self) -> Iterator[Metric]:
        """Nothing: the families are those that there are readings of."""
        return iter(())

    def _statements(self, reading: Reading | None) -> Iterator[Metric]:
        """A summary: all statements that ended, ours not counted; quantiles of the last interval."""
        if reading is None or ("statements", "") not in reading.values:
            return
        latency = Metric(_LATENCY, "time of statements; quantiles are of the last interval", "summary")
        for name, quantile in _QUANTILES.items():
            value = self._now.value(name)
            if value is not None:
                latency.add_sample(_LATENCY, {"quantile": quantile}, value * _MS)
        latency.add_sample(f"{_LATENCY}_count", {}, reading.values["statements", ""])
        latency.add_sample(f"{_LATENCY}_sum", {}, reading.values.get(("statement_ps", ""), 0) * _PS)
        yield latency
        errors = reading.values.get(("statement_errors", ""))
        if errors is not None:
            yield CounterMetricFamily("volbench_statement_errors", "errors of statements", value=errors)

    def _latest(self) -> Iterator[Metric]:
        now = self._now
        for name, (metric, scale, text) in _NOW.items():
            value = now.value(name)
            if value is not None:
                yield GaugeMetricFamily(metric, text, value=value * scale)
        yield CounterMetricFamily("volbench_incidents", "incidents by triggers", value=now.incidents)
        yield GaugeMetricFamily(
            "volbench_incident", "1 while an incident goes on", value=1 if now.in_incident else 0
        )
        yield InfoMetricFamily("volbench_suspicion", "what explains the last minute", {"cause": now.suspicion})


def _disks(reading: Reading | None) -> Iterator[Metric]:
    if reading is None:
        return
    for name, (metric, scale, text) in _DISK.items():
        family = CounterMetricFamily(metric, text, labels=["device"])
        for (counter, device), value in reading.values.items():
            if counter == name:
                family.add_metric([device], value * scale)
        yield family
    flying = GaugeMetricFamily("node_disk_io_now", "requests in flight", labels=["device"])
    for (counter, device), value in reading.values.items():
        if counter == "in_flight":
            flying.add_metric([device], value)
    yield flying


def _status(reading: Reading | None) -> Iterator[Metric]:
    for (name, _), value in {} if reading is None else dict(reading.values).items():
        if name != _GENERATION:
            yield UnknownMetricFamily(f"mysql_global_status_{name}", "SHOW GLOBAL STATUS", value=value)
