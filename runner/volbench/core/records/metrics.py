"""Metrics: every name volbench may report, with its unit and which direction is better.

Units are last in names. A metric that is not in the catalogue cannot be reported, so that a name means the
same thing in every file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from volbench.core.records.base import Record
from volbench.core.records.metric import Better, Metric
from volbench.core.records.steps import STEP_KINDS


class MetricValue(Record):
    """One number of one step: unrounded, with its unit and direction. Missing metrics are left out, never 0."""

    value: float
    unit: str
    better: Better


STORAGE_METRICS = (
    Metric("iops_read", "1/s", "none", "read IOPS", "reads that the device finished per second"),
    Metric("iops_write", "1/s", "none", "write IOPS", "writes that the device finished per second"),
    Metric("read_mib_per_s", "MiB/s", "none", "read throughput", "MiB that the device read per second"),
    Metric("write_mib_per_s", "MiB/s", "none", "write throughput", "MiB that the device wrote per second"),
    Metric(
        "read_await_ms", "ms", "lower", "read await", "mean time of a read in the block layer, queueing included"
    ),
    Metric(
        "write_await_ms", "ms", "lower", "write await", "mean time of a write in the block layer, queueing included"
    ),
    Metric("queue_depth", "1", "none", "queue", "requests in flight on average (aqu-sz of iostat)"),
    Metric(
        "device_util_ratio",
        "1",
        "none",
        "utilisation",
        "share of time with any request in flight; high is not yet saturated",
    ),
    Metric("server_cpu_ratio", "1", "none", "server CPU", "share of the CPUs that the server used"),
)
"""Of every step: means over its window, of the volume's disk."""
PLACEMENT_METRICS = (
    Metric(
        "pod_scheduled_s",
        "s",
        "lower",
        "pod scheduled",
        "until the pod had a node; with volumes that wait for their first pod, until the volume was made too. Pod"
        " times have a resolution of one second, and are those of the cluster's own clocks",
    ),
    Metric(
        "pod_volume_attached_s",
        "s",
        "lower",
        "volume attached",
        "from there until the last volume was attached to the node, where a driver does that",
    ),
    Metric(
        "pod_image_pull_s",
        "s",
        "lower",
        "image pull",
        "spent on pulling images, summed; absent when they were present",
    ),
    Metric(
        "pod_sandbox_s",
        "s",
        "lower",
        "pod sandbox",
        "from the node's choice until volumes were attached and mounted and the network was ready",
    ),
    Metric(
        "pod_server_started_s",
        "s",
        "lower",
        "server container started",
        "from the pod's creation until the server's container ran",
    ),
    Metric("pod_ready_s", "s", "lower", "pod ready", "from the pod's creation until its agent ran"),
    Metric(
        "mysqld_ready_s",
        "s",
        "lower",
        "server ready",
        "from the start of the server on its copy of the data until it answered a query",
    ),
)
"""Of the placement of a cell in a cluster."""
PLACEMENT_STEP = "placement"
"""The row of a cell in a cluster, which no step of the suite has."""


def _catalogue(metrics: Iterable[Metric]) -> Mapping[str, Metric]:
    """Return metrics by name. Raise ValueError for a name with two meanings."""
    catalogue: dict[str, Metric] = {}
    for metric in metrics:
        if catalogue.setdefault(metric.name, metric) != metric:
            raise ValueError(f"the metric {metric.name} is described twice and differently")
    return catalogue


CATALOGUE: Mapping[str, Metric] = _catalogue(
    (*(metric for kind in STEP_KINDS.values() for metric in kind.metrics), *STORAGE_METRICS, *PLACEMENT_METRICS)
)

PRIMARY_METRICS: Mapping[str, tuple[str, ...]] = {name: kind.primary for name, kind in STEP_KINDS.items()}
"""Per step kind, the metrics whose comparison makes the verdict."""


def metric(name: str, value: float) -> MetricValue:
    """Return the value with the catalogue's unit and direction.

    Raises KeyError for a name that is not catalogued.
    """
    entry = CATALOGUE[name]
    return MetricValue(value=value, unit=entry.unit, better=entry.better)
