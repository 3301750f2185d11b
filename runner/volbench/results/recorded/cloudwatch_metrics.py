"""Metrics of CloudWatch for EBS, EFS, RDS and EC2 by name, and the statistics that they may be asked for.

Sources: Amazon EBS User Guide, metrics for EBS volumes; Amazon EFS User Guide, CloudWatch metrics; Amazon RDS User
Guide, instance-level metrics; Amazon EC2 User Guide, EBS metrics of instances.
"""

from __future__ import annotations

import re

VOLUME, INSTANCE = "volume", "instance"
"""What a metric is of where its label names nothing."""
_MIB = 1024 * 1024
AURORA_PERIOD_S = 300
"""A cluster volume's metrics count the billed operations of 5 minutes each. Source: Amazon Aurora User Guide,
cluster-level metrics."""
SUMS = {
    "VolumeReadOps": ("reads_per_s", 1.0),
    "VolumeWriteOps": ("writes_per_s", 1.0),
    "VolumeReadBytes": ("read_mib_per_s", 1 / _MIB),
    "VolumeWriteBytes": ("write_mib_per_s", 1 / _MIB),
    "EBSReadOps": ("reads_per_s", 1.0),
    "EBSWriteOps": ("writes_per_s", 1.0),
    "EBSReadBytes": ("read_mib_per_s", 1 / _MIB),
    "EBSWriteBytes": ("write_mib_per_s", 1 / _MIB),
    "DataReadIOBytes": ("read_mib_per_s", 1 / _MIB),
    "DataWriteIOBytes": ("write_mib_per_s", 1 / _MIB),
    "MetadataIOBytes": ("metadata_mib_per_s", 1 / _MIB),
    "TotalIOBytes": ("total_mib_per_s", 1 / _MIB),
    "MeteredIOBytes": ("metered_mib_per_s", 1 / _MIB),
}
"""By the name of a metric whose sum over a period counts: our name, and what one is worth in its unit."""
COUNTS = {
    "DataReadIOBytes": "reads_per_s",
    "DataWriteIOBytes": "writes_per_s",
    "MetadataIOBytes": "metadata_ops_per_s",
}
LEVELS = {
    "VolumeQueueLength": ("aqu_sz", 1.0, VOLUME),
    "BurstBalance": ("balance_percent", 1.0, VOLUME),
    "VolumeAvgReadLatency": ("r_await_ms", 1.0, VOLUME),
    "VolumeAvgWriteLatency": ("w_await_ms", 1.0, VOLUME),
    "VolumeIOPSExceededCheck": ("volume_exceeded_iops_ratio", 1.0, VOLUME),
    "VolumeThroughputExceededCheck": ("volume_exceeded_throughput_ratio", 1.0, VOLUME),
    "InstanceEBSIOPSExceededCheck": ("instance_exceeded_iops_ratio", 1.0, VOLUME),
    "InstanceEBSThroughputExceededCheck": ("instance_exceeded_throughput_ratio", 1.0, VOLUME),
    "EBSIOBalance%": ("instance_io_balance_percent", 1.0, INSTANCE),
    "EBSByteBalance%": ("instance_byte_balance_percent", 1.0, INSTANCE),
    "BurstCreditBalance": ("balance_bytes", 1.0, VOLUME),
    "PermittedThroughput": ("permitted_mib_per_s", 1 / _MIB, VOLUME),
    "PercentIOLimit": ("io_limit_percent", 1.0, VOLUME),
    "ReadIOPS": ("reads_per_s", 1.0, VOLUME),
    "WriteIOPS": ("writes_per_s", 1.0, VOLUME),
    "ReadThroughput": ("read_mib_per_s", 1 / _MIB, VOLUME),
    "WriteThroughput": ("write_mib_per_s", 1 / _MIB, VOLUME),
    "ReadLatency": ("r_await_ms", 1000.0, VOLUME),
    "WriteLatency": ("w_await_ms", 1000.0, VOLUME),
    "DiskQueueDepth": ("aqu_sz", 1.0, VOLUME),
    "ReplicaLag": ("replica_lag_s", 1.0, INSTANCE),
    "AuroraReplicaLag": ("replica_lag_s", 1e-3, INSTANCE),
    "VolumeReadIOPs": ("reads_per_s", 1 / AURORA_PERIOD_S, VOLUME),
    "VolumeWriteIOPs": ("writes_per_s", 1 / AURORA_PERIOD_S, VOLUME),
}
"""By the name of a metric that is a level or a rate by itself: our name, its worth, and what it is of."""
AWAITS = {
    "r_await_ms": ("VolumeTotalReadTime", "VolumeReadOps"),
    "w_await_ms": ("VolumeTotalWriteTime", "VolumeWriteOps"),
}
CPU = "CPUUtilization"
"""Of the instance, user and system together."""
COUNT = "SampleCount"
STATISTICS = ("Sum", "Average", "Maximum", "Minimum", COUNT)
EXTENDED = re.compile(r"p\d{1,3}(?:\.\d+)?|(?:tm|tc|ts|wm)\d{1,2}(?:\.\d+)?|IQM")
"""Percentiles and trimmed statistics, which are of samples and neither their sum nor their mean."""
TIMES = frozenset(name for name, _ in AWAITS.values())
SUPPORTED = frozenset({*SUMS, *LEVELS, *TIMES, CPU})
_ANY_LEVEL = frozenset({"BurstBalance", "EBSIOBalance%", "EBSByteBalance%", "BurstCreditBalance"})
"""Levels that move so slowly that the least and the largest of a period are nearly its mean."""


def refusal(name: str, statistic: str) -> str:
    """Return why a metric's values of a statistic are not its values over a period; empty where they are.

    A counter needs its sum; the mean, the largest and the least are of samples whose number is not told. A level
    needs its mean. An empty statistic is one that no line tells.
    """
    if statistic == COUNT:
        return "" if name in COUNTS else f"{name} has only {COUNT}, how many samples there were"
    if name in SUMS or name in TIMES:
        if statistic in ("", "Sum"):
            return ""
        return f"{name} counts: it needs --statistics Sum, and has {statistic}"
    if statistic in ("", "Average") or (name in _ANY_LEVEL and statistic in ("Maximum", "Minimum")):
        return ""
    return f"{name} is a level: it needs --statistics Average, and has {statistic}"
