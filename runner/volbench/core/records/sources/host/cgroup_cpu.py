"""Source `cgroup_cpu`."""

from __future__ import annotations

from volbench.core.records.sources.info import SourceInfo, metric_table

_METRICS = metric_table(
    "server or client",
    {
        "cpus_used": ("1", "CPUs that the control group used, 1 is one CPU all the time"),
        "throttled_ratio": ("1", "share of the quota's periods in which it was throttled; absent without a quota"),
    },
)
SOURCE = SourceInfo(
    name="cgroup_cpu",
    role="host",
    text="Of the containers of server and client; without a quota there is no `throttled_ratio`.",
    metrics=_METRICS,
)
