"""Source `emulator`."""

from __future__ import annotations

from volbench.core.records.sources.info import EBS, METADATA, SourceInfo, metric_table

DATA_OPERATIONS = ("read", "write", "flush")
METADATA_OPERATIONS = (
    "lookup",
    "getattr",
    "setattr",
    "open",
    "close",
    "create",
    "unlink",
    "rename",
    "readdir",
    "other",
)
"""Operations of an emulated volume, as the daemon names them."""
_METRICS = {
    **metric_table(
        "",
        {
            **EBS,
            **METADATA,
            "flushes_per_s": ("1/s", "flushes completed"),
            "f_await_ms": ("ms", "mean time of a flush; absent without one"),
            "waited_s_per_s": ("s/s", "time by which limits and faults delayed operations"),
            "errors_per_s": ("1/s", "operations that ended with an error"),
            "late_ratio": ("1", "share of operations that completed later than the model required"),
            "lateness_s_per_s": ("s/s", "time by which operations completed later than the model required"),
        },
    ),
    **metric_table(
        "limit", {"balance_percent": ("%", "credits left of a limit with a burst")}, less=("balance_percent",)
    ),
    **metric_table(
        "disk",
        {
            "disk_reads_per_s": ("1/s", "I/Os for reads that this disk of a cluster did"),
            "disk_writes_per_s": ("1/s", "I/Os for writes that it did, for each copy that it has"),
            "disk_limit_per_s": ("1/s", "I/Os that it may do; its baseline when its credits are spent"),
        },
        less=("disk_limit_per_s",),
    ),
    **metric_table(
        "operation",
        {
            "operations_per_s": ("1/s", "operations of this kind completed"),
            "operation_await_ms": ("ms", "their mean time; absent without one"),
        },
    ),
}
SOURCE = SourceInfo(
    name="emulator",
    role="device",
    text="An emulated volume's own counters: of a model, not of hardware.",
    metrics=_METRICS,
    view="volume",
)
