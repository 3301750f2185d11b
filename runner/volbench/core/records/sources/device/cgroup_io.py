"""Source `cgroup_io`."""

from __future__ import annotations

from volbench.core.records.sources.info import TRAFFIC, SourceInfo, metric_table

_LIMIT_TEXT = "allowed by the tightest limit of the server's control groups; absent without a limit"

_METRICS = {
    **metric_table("block device, or server: the volume's own device", TRAFFIC),
    **metric_table(
        "server",
        {
            "read_ops_per_s": ("1/s", "reads that the server's control group asked of the volume's own device"),
            "write_ops_per_s": ("1/s", "writes that it asked of that device"),
            "read_iops_max": ("1/s", f"reads {_LIMIT_TEXT}"),
            "write_iops_max": ("1/s", f"writes {_LIMIT_TEXT}"),
            "read_mib_per_s_max": ("MiB/s", f"data read, {_LIMIT_TEXT}"),
            "write_mib_per_s_max": ("MiB/s", f"data written, {_LIMIT_TEXT}"),
        },
        less=("read_iops_max", "write_iops_max", "read_mib_per_s_max", "write_mib_per_s_max"),
    ),
}
SOURCE = SourceInfo(
    name="cgroup_io",
    role="device",
    text="The I/O of the server's control group, before merging, and its limits (`io.max` of the group and of "
    "those around it; `blkio.throttle` of the group in version 1). Buffered writes are charged when they "
    "are written back, to whom varies by version. Entity `server` is about the volume: its own device, "
    "and for limits those below it too.",
    metrics=_METRICS,
    view="group",
)
