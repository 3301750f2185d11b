"""What a source is, and the metrics that several sources have.

A unit of `s/s` is time spent by all threads together in a second of the clock: 2 means that two threads did nothing
else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Role = Literal["device", "host", "server"]
View = Literal["block", "files", "volume", "exporter", "vendor", "group"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledMetric:
    """One metric of a source: its unit, what it is, and what its entity names."""

    unit: str
    text: str
    entity: str = ""


@dataclass(frozen=True, kw_only=True)
class SourceInfo:
    """One source.

    Args:
        name: as in series.parquet.
        role: what its counters are about: the volume, the machine, or the server.
        text: a sentence for the documentation.
        metrics: every metric that it may have, by name.
        view: of a source of the volume's counters, who counts: the kernel's block layer, its NFS client, the volume
            itself, a service of the node that asks the volume, the vendor, or the server's control group.
        block: whether it counts operations of a block device, without round trips for metadata.
        sampled: whether a run samples it; others come from recordings, or from a server in use.
    """

    name: str
    role: Role
    text: str
    metrics: Mapping[str, SampledMetric]
    view: View | None = None
    block: bool = False
    sampled: bool = True


def metric_table(entity: str, rows: Mapping[str, tuple[str, str]]) -> dict[str, SampledMetric]:
    """Return metrics by name, of (unit, text) by name."""
    return {name: SampledMetric(unit=unit, text=text, entity=entity) for name, (unit, text) in rows.items()}


TRAFFIC = {
    "reads_per_s": ("1/s", "reads completed"),
    "writes_per_s": ("1/s", "writes completed"),
    "read_mib_per_s": ("MiB/s", "data read"),
    "write_mib_per_s": ("MiB/s", "data written"),
}
AWAITS = {
    "r_await_ms": ("ms", "mean time of a read, queue and service; absent without a read"),
    "w_await_ms": ("ms", "mean time of a write, queue and service; absent without a write"),
}
EBS = {
    **TRAFFIC,
    **AWAITS,
    "volume_exceeded_iops_ratio": (
        "1",
        "share of time in which more operations were wanted than the volume allows",
    ),
    "volume_exceeded_throughput_ratio": (
        "1",
        "share of time in which more MiB/s were wanted than the volume allows",
    ),
    "instance_exceeded_iops_ratio": ("1", "share of time in which the instance's limit of operations was exceeded"),
    "instance_exceeded_throughput_ratio": (
        "1",
        "share of time in which the instance's limit of MiB/s was exceeded",
    ),
    "queue_length": ("1", "operations in the volume's queue at the tick"),
}
METADATA = {
    "metadata_ops_per_s": ("1/s", "operations other than reading, writing and syncing data"),
    "metadata_await_ms": ("ms", "their mean time; absent without one"),
}
