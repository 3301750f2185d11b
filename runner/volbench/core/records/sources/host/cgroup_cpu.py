"""Source `cgroup_cpu`."""

from __future__ import annotations

from volbench.core.records.sources.info import SourceInfo, metric_table

_METRICS = metric_table(
    "server or client; cell: the group that both are in",
    {
        "cpus_used": ("1", "CPUs that the control group used, 1 is one CPU all the time"),
        "throttled_ratio": ("1", "share of the quota's periods in which it was throttled; absent without a quota"),
        "throttled_s_per_s": ("s/s", "time for which CPUs did not run its tasks because of the quota, all CPUs"),
    },
)
SOURCE = SourceInfo(
    name="cgroup_cpu",
    role="host",
    text="Of the control groups of server and client, and of the group that has both; a quota may be of the group "
    "or of one around it, and without one nothing is said of being throttled.",
    metrics=_METRICS,
)
