"""What a source is, and the metrics that several sources have.

A unit of `s/s` is time spent by all threads together in a second of the clock: 2 means that two threads did nothing
else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

Role = Literal["device", "host", "server"]
View = Literal["block", "files", "volume", "exporter", "vendor", "group"]
Harm = Literal["more", "less", "either"]
"""Which change of a metric can raise a latency: more of work, of waiting or of use; less of what is left, such as
credits or idle time, or of what a limit allows; either way, such as the size of an operation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledMetric:
    """One metric of a source: its unit, what it is, what its entity names, and which change of it does harm."""

    unit: str
    text: str
    entity: str = ""
    harm: Harm = "more"


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


def metric_table(
    entity: str, rows: Mapping[str, tuple[str, str]], *, less: Collection[str] = (), either: Collection[str] = ()
) -> dict[str, SampledMetric]:
    """Return metrics by name.

    Args:
        entity: what the entity of each one names.
        rows: (unit, text) by name.
        less: those of which less does harm. either: those of which more or less may.
    """
    harms: dict[str, Harm] = {**dict.fromkeys(less, "less"), **dict.fromkeys(either, "either")}
    return {
        name: SampledMetric(unit=unit, text=text, entity=entity, harm=harms.get(name, "more"))
        for name, (unit, text) in rows.items()
    }


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
