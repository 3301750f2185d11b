"""Every metric that a sampler may yield, by source: its unit, what it is, and what its entity names.

Reports label their axes from it, and a name that is not here fails a test. A unit of `s/s` is time spent by all
threads together in a second of the clock: 2 means that two threads did nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledMetric:
    """One metric of a source."""

    unit: str
    text: str
    entity: str = ""


def _table(entity: str, rows: dict[str, tuple[str, str]]) -> dict[str, SampledMetric]:
    return {name: SampledMetric(unit=unit, text=text, entity=entity) for name, (unit, text) in rows.items()}


_TRAFFIC = {
    "reads_per_s": ("1/s", "reads completed"),
    "writes_per_s": ("1/s", "writes completed"),
    "read_mib_per_s": ("MiB/s", "data read"),
    "write_mib_per_s": ("MiB/s", "data written"),
}
_AWAITS = {
    "r_await_ms": ("ms", "mean time of a read, queue and service; absent without a read"),
    "w_await_ms": ("ms", "mean time of a write, queue and service; absent without a write"),
}
_EBS = {
    **_TRAFFIC,
    **_AWAITS,
    "volume_exceeded_iops_ratio": (
        "1",
        "share of time in which more operations were wanted than the volume allows",
    ),
    "volume_exceeded_throughput_ratio": (
        "1",
        "share of time in which more MiB/s were wanted than the volume allows",
    ),
    "instance_exceeded_iops_ratio": ("1", "share of time in which the instance's limit of operations was exceeded"),
    "instance_exceeded_throughput_ratio": (
        "1",
        "share of time in which the instance's limit of MiB/s was exceeded",
    ),
    "queue_length": ("1", "operations in the volume's queue at the tick"),
}
_METADATA = {
    "metadata_ops_per_s": ("1/s", "operations other than reading, writing and syncing data"),
    "metadata_await_ms": ("ms", "their mean time; absent without one"),
}

_DISKSTATS = _table(
    "block device",
    {
        **_TRAFFIC,
        **_AWAITS,
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
)
_MOUNTSTATS = _table(
    "",
    {
        **_TRAFFIC,
        "commits_per_s": ("1/s", "COMMIT operations"),
        **{
            f"{prefix}_{kind}_ms": ("ms", f"mean time of {operation}, {text}; absent without one")
            for prefix, operation in (
                ("r", "READ"), ("w", "WRITE"), ("commit", "COMMIT"), ("open", "OPEN"), ("close", "CLOSE"),
                ("getattr", "GETATTR"), ("lookup", "LOOKUP"),
            )
            for kind, text in (("await", "with the client's queue"), ("rtt", "network and server alone"))
        },
        **_METADATA,
        "retransmissions_per_s": ("1/s", "requests sent again"),
        "errors_per_s": ("1/s", "operations that ended with an error (statvers 1.1)"),
        "transport_in_flight": ("1", "mean number of requests on the wire when one was sent"),
        "transport_backlog": ("1", "mean number of requests waiting for a slot when one was sent"),
    },
)  # fmt: skip
_LIMIT_TEXT = "allowed by the tightest limit of the server's control groups; absent without a limit"
_CGROUP_IO = {
    **_table("block device, or server: the volume's own device", _TRAFFIC),
    **_table(
        "server",
        {
            "read_ops_per_s": ("1/s", "reads that the server's control group asked of the volume's own device"),
            "write_ops_per_s": ("1/s", "writes that it asked of that device"),
            "read_iops_max": ("1/s", f"reads {_LIMIT_TEXT}"),
            "write_iops_max": ("1/s", f"writes {_LIMIT_TEXT}"),
            "read_mib_per_s_max": ("MiB/s", f"data read, {_LIMIT_TEXT}"),
            "write_mib_per_s_max": ("MiB/s", f"data written, {_LIMIT_TEXT}"),
        },
    ),
}
_CGROUP_CPU = _table(
    "server or client",
    {
        "cpus_used": ("1", "CPUs that the control group used, 1 is one CPU all the time"),
        "throttled_ratio": ("1", "share of the quota's periods in which it was held back; absent without a quota"),
    },
)
_TASKS = _table(
    "cell or emulator",
    {
        "cpus_used": ("1", "CPUs that the processes used, 1 is one CPU all the time"),
        "run_delay_s_per_s": ("s/s", "time their tasks were runnable and waited for a CPU"),
    },
)
_PSI = _table(
    "",
    {
        f"{resource}_{kind}_ratio": ("1", f"share of time in which {who} waited for {resource}")
        for resource in ("cpu", "io", "memory")
        for kind, who in (("some", "at least one task"), ("full", "all tasks"))
    },
)
_CPU = _table(
    "",
    {
        "user_ratio": ("1", "share of all CPUs' time in user mode"),
        "system_ratio": ("1", "share of all CPUs' time in the kernel, with interrupts"),
        "iowait_ratio": ("1", "share of all CPUs' time idle while a task waited for I/O"),
        "steal_ratio": ("1", "share of all CPUs' time taken by the hypervisor"),
        "idle_ratio": ("1", "share of all CPUs' time idle otherwise"),
        "context_switches_per_s": ("1/s", "context switches"),
        "processes_started_per_s": ("1/s", "processes and threads started"),
        "runnable_threads": ("1", "threads running or ready at the tick"),
        "blocked_threads": ("1", "threads waiting for I/O at the tick"),
    },
)
_VM = _table(
    "",
    {
        "swap_in_pages_per_s": ("1/s", "pages read from swap"),
        "swap_out_pages_per_s": ("1/s", "pages written to swap"),
        "page_faults_per_s": ("1/s", "page faults"),
        "major_faults_per_s": ("1/s", "page faults that had to read"),
    },
)
_EBS_NVME = _table(
    "device",
    {
        **_EBS,
        **{
            f"{direction}_latency_ms_{quantile}": ("ms", f"{quantile} of a {verb} as the volume saw it")
            for direction, verb in (("r", "read"), ("w", "write"))
            for quantile in ("p50", "p99")
        },
    },
)
_EBS_CSI = _table("EBS volume", _EBS)
_PERFORMANCE_SCHEMA = {
    **_table(
        "",
        {
            "statements_per_s": ("1/s", "statements ended, ours not counted"),
            "statement_s_per_s": ("s/s", "time of the statements that ended"),
            "statement_lock_s_per_s": ("s/s", "time in which these waited for table locks"),
            "statement_errors_per_s": ("1/s", "errors of statements"),
            "statement_ms": ("ms", "mean time of a statement; absent without one"),
        },
    ),
    **_table(
        "file class (data, redo, dblwr, binlog, temp, other)",
        {
            "file_reads_per_s": ("1/s", "file reads by the server"),
            "file_writes_per_s": ("1/s", "file writes by the server"),
            "file_syncs_per_s": ("1/s", "other file operations: fsync above all, also open, close, stat"),
            "file_read_s_per_s": ("s/s", "time of file reads, all threads"),
            "file_write_s_per_s": ("s/s", "time of file writes, all threads"),
            "file_sync_s_per_s": ("s/s", "time of the other file operations, all threads"),
            "file_read_ms": ("ms", "mean time of a file read; absent without one"),
            "file_write_ms": ("ms", "mean time of a file write; absent without one"),
            "file_sync_ms": ("ms", "mean time of another file operation; absent without one"),
            "file_read_mib_per_s": ("MiB/s", "data read from files"),
            "file_write_mib_per_s": ("MiB/s", "data written to files"),
        },
    ),
    **_table(
        "class (file_data, file_redo, file_dblwr, file_binlog, table, lock_table, lock_metadata, binlog_group)",
        {"wait_s_per_s": ("s/s", "time foreground threads waited; `table` contains the file waits below it")},
    ),
    **_table(
        "query: the text of a statement digest, numbers in names as N",
        {
            "query_per_s": ("1/s", "statements of this text that ended"),
            "query_s_per_s": ("s/s", "their time"),
            "query_lock_s_per_s": ("s/s", "time in which these waited for table locks"),
            "query_cpu_s_per_s": ("s/s", "CPU time of their threads (MySQL 8.0.28 and later)"),
            "query_rows_examined_per_s": ("1/s", "rows that they examined; of observed servers only"),
            "query_rows_sent_per_s": ("1/s", "rows that they sent; of observed servers only"),
            "query_rows_affected_per_s": ("1/s", "rows that they changed; of observed servers only"),
            "query_tmp_disk_tables_per_s": ("1/s", "temporary tables on disk; of observed servers only"),
        },
    ),
    **_table(
        "backup tool: the program_name that it connects with",
        {"program_connections": ("1", "connections of this tool at the tick; of observed servers only")},
    ),
}
_INNODB = _table(
    "",
    {
        "data_reads_per_s": ("1/s", "reads of data files"),
        "data_writes_per_s": ("1/s", "writes of data files"),
        "data_fsyncs_per_s": ("1/s", "fsyncs"),
        "data_read_mib_per_s": ("MiB/s", "read from data files"),
        "data_written_mib_per_s": ("MiB/s", "written to files"),
        "os_log_fsyncs_per_s": ("1/s", "fsyncs of the redo log"),
        "os_log_written_mib_per_s": ("MiB/s", "written to the redo log"),
        "log_waits_per_s": ("1/s", "waits because the log buffer was full"),
        "log_writes_per_s": ("1/s", "writes of the redo log"),
        "log_write_requests_per_s": ("1/s", "requests to write to the redo log"),
        "dblwr_pages_per_s": ("1/s", "pages written to the doublewrite buffer"),
        "dblwr_writes_per_s": ("1/s", "writes of the doublewrite buffer"),
        "pages_read_per_s": ("1/s", "pages read"),
        "pages_written_per_s": ("1/s", "pages written"),
        "buffer_pool_reads_per_s": ("1/s", "page requests that had to read the page"),
        "buffer_pool_read_requests_per_s": ("1/s", "page requests"),
        "buffer_pool_read_ahead_per_s": ("1/s", "pages read ahead"),
        "buffer_pool_wait_free_per_s": ("1/s", "waits for a free page: the buffer pool is small or flushing slow"),
        "buffer_pool_pages_flushed_per_s": ("1/s", "pages flushed"),
        "buffer_pool_miss_ratio": ("1", "share of page requests that had to read; absent without a request"),
        "buffer_pool_dirty_ratio": ("1", "share of the buffer pool's pages that are dirty"),
        "buffer_pool_free_ratio": ("1", "share of the buffer pool's pages that are free"),
        "pending_reads": ("1", "reads pending at the tick"),
        "pending_writes": ("1", "writes pending at the tick"),
        "pending_fsyncs": ("1", "fsyncs pending at the tick"),
        "pending_log_fsyncs": ("1", "fsyncs of the redo log pending at the tick"),
        "pending_log_writes": ("1", "writes of the redo log pending at the tick"),
        "row_lock_waits_per_s": ("1/s", "waits for row locks"),
        "row_lock_wait_s_per_s": ("s/s", "time of the waits for row locks that ended"),
        "row_lock_current_waits": ("1", "threads waiting for a row lock at the tick"),
        "history_list_length": ("1", "transactions whose undo is not yet purged"),
        "checkpoint_age_mib": ("MiB", "redo written since the last checkpoint"),
        "checkpoint_age_ratio": ("1", "the same, as a share of what the redo log can hold"),
        "threads_running": ("1", "threads executing at the tick, ours too"),
        "questions_per_s": ("1/s", "statements from clients, ours too"),
        "commits_per_s": ("1/s", "COMMIT statements"),
        "tmp_disk_tables_per_s": ("1/s", "temporary tables that went to disk"),
        "binlog_cache_disk_uses_per_s": ("1/s", "transactions whose binlog cache went to disk"),
    },
)
_EMULATOR = {
    **_table(
        "",
        {
            **_EBS,
            **_METADATA,
            "flushes_per_s": ("1/s", "flushes completed"),
            "f_await_ms": ("ms", "mean time of a flush; absent without one"),
            "waited_s_per_s": ("s/s", "time operations were held back by limits and faults"),
            "errors_per_s": ("1/s", "operations that ended with an error"),
            "late_ratio": ("1", "share of operations that completed later than the model wanted"),
            "lateness_s_per_s": ("s/s", "time by which operations completed later than the model wanted, added up"),
        },
    ),
    **_table("limit", {"balance_percent": ("%", "credits left of a limit with a burst")}),
    **_table(
        "operation",
        {
            "operations_per_s": ("1/s", "operations of this kind completed"),
            "operation_await_ms": ("ms", "their mean time; absent without one"),
        },
    ),
}

SAMPLED: dict[str, dict[str, SampledMetric]] = {
    "diskstats": _DISKSTATS,
    "mountstats": _MOUNTSTATS,
    "cgroup_io": _CGROUP_IO,
    "cgroup_cpu": _CGROUP_CPU,
    "tasks": _TASKS,
    "psi": _PSI,
    "cpu": _CPU,
    "vm": _VM,
    "ebs_nvme": _EBS_NVME,
    "ebs_csi": _EBS_CSI,
    "performance_schema": _PERFORMANCE_SCHEMA,
    "innodb": _INNODB,
    "emulator": _EMULATOR,
}
"""By source, then by metric."""


def unit_of(source: str, metric: str) -> str:
    """The unit of a sampled metric. Raises KeyError for a name that is not here."""
    return SAMPLED[source][metric].unit
