"""Source `diskstats`."""

from __future__ import annotations

from volbench.core.records.sources.info import AWAITS, TRAFFIC, SourceInfo, metric_table

_METRICS = metric_table(
    "block device",
    {
        **TRAFFIC,
        **AWAITS,
        "discards_per_s": ("1/s", "discards completed"),
        "flushes_per_s": ("1/s", "flushes completed"),
        "reads_merged_per_s": ("1/s", "reads merged with another before they reached the device"),
        "writes_merged_per_s": ("1/s", "writes merged with another before they reached the device"),
        "d_await_ms": ("ms", "mean time of a discard; absent without one"),
        "f_await_ms": ("ms", "mean time of a flush; absent without one"),
        "r_size_kib": ("KiB", "mean size of a read; absent without one"),
        "w_size_kib": ("KiB", "mean size of a write; absent without one"),
        "aqu_sz": ("1", "mean number of requests in the queue and at the device"),
        "util_ratio": ("1", "share of time with a request in flight; no measure of headroom"),
        "in_flight": ("1", "requests in flight at the tick"),
    },
    either=("r_size_kib", "w_size_kib"),
)
SOURCE = SourceInfo(
    name="diskstats",
    role="device",
    text="The disk behind the data directory, all its partitions together.",
    metrics=_METRICS,
    view="block",
    block=True,
)
