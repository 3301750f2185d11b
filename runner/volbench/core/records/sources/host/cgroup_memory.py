"""Source `cgroup_memory`."""

from __future__ import annotations

from volbench.core.records.sources.info import SourceInfo, metric_table

_METRICS = metric_table(
    "server",
    {
        "used_mib": ("MiB", "memory charged to the control group, page cache included"),
        "limit_mib": ("MiB", "least of memory.high and memory.max of the group and those around it; absent: none"),
        "high_events_per_s": ("1/s", "times that a task was held back at memory.high, and had to reclaim"),
        "max_events_per_s": ("1/s", "times that memory.max was about to be exceeded"),
        "reclaimed_mib_per_s": ("MiB/s", "pages of the group that the kernel took back"),
        "refaults_per_s": ("1/s", "pages of files that were taken back and read again soon"),
    },
    less=("limit_mib",),
    either=("used_mib",),
)
SOURCE = SourceInfo(
    name="cgroup_memory",
    role="host",
    text="Of the server's control group, of version 2 alone. Events are those at the limits of the group and "
    "of the groups around it, which others in these may have met.",
    metrics=_METRICS,
)
