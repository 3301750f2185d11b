"""Source `cloudwatch`: added to a run or read from a recording, never sampled."""

from __future__ import annotations

from volbench.core.records.sources.info import AWAITS, EBS, METADATA, TRAFFIC, SourceInfo, metric_table

_METRICS = metric_table(
    "volume or bucket of credits",
    {
        **EBS,
        **TRAFFIC,
        **AWAITS,
        "metadata_ops_per_s": METADATA["metadata_ops_per_s"],
        "aqu_sz": ("1", "mean number of operations in the queue and at the volume"),
        "balance_percent": ("%", "burst credits left"),
        "instance_io_balance_percent": ("%", "burst credits of the instance's operations left"),
        "instance_byte_balance_percent": ("%", "burst credits of the instance's bandwidth left"),
        "replica_lag_s": ("s", "how far a replica is behind its source"),
        "balance_bytes": ("B", "burst credits left of a file system"),
        "metadata_mib_per_s": ("MiB/s", "metadata moved, as a file system meters it"),
        "total_mib_per_s": ("MiB/s", "data and metadata moved"),
        "metered_mib_per_s": ("MiB/s", "what counts for the credits of a file system"),
        "permitted_mib_per_s": ("MiB/s", "what a file system allows at the moment"),
        "io_limit_percent": ("%", "how near a file system is to its limit of operations"),
    },
    less=(
        "balance_percent",
        "instance_io_balance_percent",
        "instance_byte_balance_percent",
        "balance_bytes",
        "permitted_mib_per_s",
    ),
)
SOURCE = SourceInfo(
    name="cloudwatch",
    role="device",
    text="What the vendor's monitoring says of a volume, a file system or an instance, mostly by the minute.",
    metrics=_METRICS,
    view="vendor",
    block=True,
    sampled=False,
)
