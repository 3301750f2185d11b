"""What the EBS CSI driver's node pods expose of their volumes, in Prometheus' text format.

They read the log page that `ebs_nvme` reads, so the counters have the names of that one here.
Source of the names: docs/metrics.md of kubernetes-sigs/aws-ebs-csi-driver, "EBS NVMe Metrics".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from volbench.core.base.parse import NUMBER_MAX
from volbench.measure.sample.interface import Values

if TYPE_CHECKING:
    from prometheus_client.samples import Sample

PREFIX = "aws_ebs_csi_"
_US = 1e6
_NAMES = {
    "read_ops_total": ("reads", 1),
    "write_ops_total": ("writes", 1),
    "read_bytes_total": ("read_bytes", 1),
    "write_bytes_total": ("write_bytes", 1),
    "read_seconds_total": ("read_us", _US),
    "write_seconds_total": ("write_us", _US),
    "exceeded_iops_seconds_total": ("volume_exceeded_iops_us", _US),
    "exceeded_tp_seconds_total": ("volume_exceeded_throughput_us", _US),
    "ec2_exceeded_iops_seconds_total": ("instance_exceeded_iops_us", _US),
    "ec2_exceeded_tp_seconds_total": ("instance_exceeded_throughput_us", _US),
    "volume_queue_length": ("queue_length", 1),
}
"""Theirs after the prefix -> ours, and the factor from seconds to microseconds."""


def parse_exposition(text: str, volume_id: str) -> Values:
    """Return counters of one volume, the entity.

    Raises ValueError for text of another format, or without the volume.
    """
    values: Values = {}
    other_volumes: set[str] = set()
    for sample in _samples(text):
        named = _NAMES.get(sample.name.removeprefix(PREFIX)) if sample.name.startswith(PREFIX) else None
        if named is None or not abs(sample.value) <= NUMBER_MAX:
            continue
        volume = sample.labels.get("volume_id", "")
        if volume == volume_id:
            values[named[0], volume_id] = sample.value * named[1]
        else:
            other_volumes.add(volume)
    if not values:
        raise ValueError(
            f"nothing of volume {volume_id}, but of {', '.join(sorted(other_volumes)) or 'no volume at all'}"
        )
    return values


def _samples(text: str) -> list[Sample]:
    # Imported here: every cell's agent imports all sources, and few of them have this one.
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415

    try:
        return [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    except (IndexError, KeyError, TypeError, AttributeError) as error:  # the library's, of text that was cut
        raise ValueError(f"not Prometheus' text format: {error!r}") from error
