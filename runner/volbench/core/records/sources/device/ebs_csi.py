"""Source `ebs_csi`."""

from __future__ import annotations

from volbench.core.records.sources.info import EBS, SourceInfo, metric_table

_METRICS = metric_table("EBS volume", EBS)
SOURCE = SourceInfo(
    name="ebs_csi",
    role="device",
    text="What the EBS CSI driver exposes of the volume on Kubernetes (`--target-option ebs_csi=URL`); the "
    "same counters as the log page's.",
    metrics=_METRICS,
    view="exporter",
    block=True,
)
