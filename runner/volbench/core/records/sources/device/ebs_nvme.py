"""Source `ebs_nvme`."""

from __future__ import annotations

from volbench.core.records.sources.info import EBS, SourceInfo, metric_table

_METRICS = metric_table(
    "device",
    {
        **EBS,
        **{
            f"{direction}_latency_ms_{quantile}": ("ms", f"{quantile} of a {verb} as the volume saw it")
            for direction, verb in (("r", "read"), ("w", "write"))
            for quantile in ("p50", "p99")
        },
    },
)
SOURCE = SourceInfo(
    name="ebs_nvme",
    role="device",
    text="The log page of an EBS volume on a Nitro instance; needs root, or in a pod the node helper "
    "(k8s/README.md).",
    metrics=_METRICS,
    view="volume",
    block=True,
)
