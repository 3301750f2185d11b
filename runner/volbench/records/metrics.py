"""Metrics: every name volbench may report, with its unit and which direction is better.

Units are last in names. A metric that is not in the catalogue cannot be reported, so that a name means the
same thing in every file.
"""

from __future__ import annotations

from typing import Literal

from volbench.records.base import Record

Better = Literal["higher", "lower", "none"]


class MetricValue(Record):
    """One number of one step: unrounded, with its unit and direction. Missing metrics are left out, never 0."""

    value: float
    unit: str
    better: Better


_LATENCIES = ("p50", "p95", "p99", "p999", "max", "mean")

CATALOGUE: dict[str, tuple[str, Better]] = {
    "tps": ("1/s", "higher"),
    "qps": ("1/s", "higher"),
    "errors_per_s": ("1/s", "lower"),
    "stalled_s": ("s", "lower"),
    **{f"latency_ms_{q}": ("ms", "lower") for q in _LATENCIES},
    **{f"statement_latency_ms_{q}": ("ms", "lower") for q in _LATENCIES},
    "rate_achieved_ratio": ("1", "higher"),
    "dump_s": ("s", "lower"),
    "dump_mib_per_s": ("MiB/s", "higher"),
    "dump_bytes": ("B", "none"),
    "restore_s": ("s", "lower"),
    "restore_mib_per_s": ("MiB/s", "higher"),
    "cold_read_mib_per_s": ("MiB/s", "higher"),
    "cold_read_s": ("s", "lower"),
    "cold_read_files_per_s": ("1/s", "higher"),
    "warm_read_mib_per_s": ("MiB/s", "higher"),
    "table_scan_s": ("s", "lower"),
    "table_scan_mib_per_s": ("MiB/s", "higher"),
    "first_query_ms": ("ms", "lower"),
    "server_start_s": ("s", "lower"),
    "commits_per_s": ("1/s", "higher"),
    "acknowledged_commits": ("1", "none"),
    "lost_commits": ("1", "lower"),
    "lost_s": ("s", "lower"),
    "unacknowledged_commits": ("1", "none"),
    "torn_commits": ("1", "lower"),
    "damaged_rows": ("1", "lower"),
    "damaged_tables": ("1", "lower"),
    "failed_recoveries": ("1", "lower"),
    "recovery_s": ("s", "lower"),
    "files_per_s": ("1/s", "higher"),
    "files_mib_per_s": ("MiB/s", "higher"),
    "files_s": ("s", "lower"),
    "warm_files_per_s": ("1/s", "higher"),
    "files_total_s": ("s", "lower"),
    "cpu_user_s": ("s", "lower"),
    "cpu_system_s": ("s", "lower"),
    "ddl_per_s": ("1/s", "higher"),
    "ddl_s": ("s", "lower"),
    "ddl_total_s": ("s", "lower"),
    "fio_iops": ("1/s", "higher"),
    "fio_mib_per_s": ("MiB/s", "higher"),
    "fio_prefill_s": ("s", "lower"),
    "sequential_mib_per_s": ("MiB/s", "higher"),
    "unsynced_write_mib_per_s": ("MiB/s", "higher"),
    "sequential_s": ("s", "lower"),
    "iops_read": ("1/s", "none"),
    "iops_write": ("1/s", "none"),
    "read_mib_per_s": ("MiB/s", "none"),
    "write_mib_per_s": ("MiB/s", "none"),
    "read_await_ms": ("ms", "lower"),
    "write_await_ms": ("ms", "lower"),
    "queue_depth": ("1", "none"),
    "device_util_ratio": ("1", "none"),
    "server_cpu_ratio": ("1", "none"),
    "pod_scheduled_s": ("s", "lower"),
    "pod_volume_attached_s": ("s", "lower"),
    "pod_image_pull_s": ("s", "lower"),
    "pod_sandbox_s": ("s", "lower"),
    "pod_server_started_s": ("s", "lower"),
    "pod_ready_s": ("s", "lower"),
    "mysqld_ready_s": ("s", "lower"),
}

PRIMARY_METRICS: dict[str, tuple[str, ...]] = {
    "oltp": ("tps", "latency_ms_p95", "latency_ms_p99"),
    "dump": ("dump_s",),
    "restore": ("restore_s",),
    "cold_read": ("cold_read_mib_per_s", "table_scan_s", "first_query_ms"),
    "crash": ("commits_per_s", "recovery_s"),
    "idle": (),
    "small_files": ("files_per_s", "files_total_s"),
    "ddl": ("ddl_per_s", "ddl_total_s"),
    "fio": ("fio_iops", "latency_ms_p99"),
    "sequential": ("sequential_mib_per_s",),
}
"""Per step kind, the metrics whose comparison makes the verdict; few, since Holm's correction is over them."""


def metric(name: str, value: float) -> MetricValue:
    """The value with the catalogue's unit and direction. Raises KeyError for a name that is not catalogued."""
    unit, better = CATALOGUE[name]
    return MetricValue(value=value, unit=unit, better=better)
