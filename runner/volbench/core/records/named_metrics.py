"""A name for each metric of each source, so that none is misspelt. `make docs` writes this module."""

from __future__ import annotations

from typing import NamedTuple


class NamedMetric(NamedTuple):
    """A metric of a source."""

    source: str
    name: str

    def of(self, source: str) -> NamedMetric:
        """Return the metric of the same name of another source."""
        return NamedMetric(source, self.name)


class CgroupCpu:
    """Metrics of the source cgroup_cpu."""

    cpus_used = NamedMetric("cgroup_cpu", "cpus_used")
    throttled_ratio = NamedMetric("cgroup_cpu", "throttled_ratio")
    throttled_s_per_s = NamedMetric("cgroup_cpu", "throttled_s_per_s")


class CgroupIo:
    """Metrics of the source cgroup_io."""

    reads_per_s = NamedMetric("cgroup_io", "reads_per_s")
    writes_per_s = NamedMetric("cgroup_io", "writes_per_s")
    read_mib_per_s = NamedMetric("cgroup_io", "read_mib_per_s")
    write_mib_per_s = NamedMetric("cgroup_io", "write_mib_per_s")
    read_ops_per_s = NamedMetric("cgroup_io", "read_ops_per_s")
    write_ops_per_s = NamedMetric("cgroup_io", "write_ops_per_s")
    read_iops_max = NamedMetric("cgroup_io", "read_iops_max")
    write_iops_max = NamedMetric("cgroup_io", "write_iops_max")
    read_mib_per_s_max = NamedMetric("cgroup_io", "read_mib_per_s_max")
    write_mib_per_s_max = NamedMetric("cgroup_io", "write_mib_per_s_max")


class CgroupMemory:
    """Metrics of the source cgroup_memory."""

    used_mib = NamedMetric("cgroup_memory", "used_mib")
    limit_mib = NamedMetric("cgroup_memory", "limit_mib")
    high_events_per_s = NamedMetric("cgroup_memory", "high_events_per_s")
    max_events_per_s = NamedMetric("cgroup_memory", "max_events_per_s")
    reclaimed_mib_per_s = NamedMetric("cgroup_memory", "reclaimed_mib_per_s")
    refaults_per_s = NamedMetric("cgroup_memory", "refaults_per_s")


class Cloudwatch:
    """Metrics of the source cloudwatch."""

    reads_per_s = NamedMetric("cloudwatch", "reads_per_s")
    writes_per_s = NamedMetric("cloudwatch", "writes_per_s")
    read_mib_per_s = NamedMetric("cloudwatch", "read_mib_per_s")
    write_mib_per_s = NamedMetric("cloudwatch", "write_mib_per_s")
    r_await_ms = NamedMetric("cloudwatch", "r_await_ms")
    w_await_ms = NamedMetric("cloudwatch", "w_await_ms")
    volume_exceeded_iops_ratio = NamedMetric("cloudwatch", "volume_exceeded_iops_ratio")
    volume_exceeded_throughput_ratio = NamedMetric("cloudwatch", "volume_exceeded_throughput_ratio")
    instance_exceeded_iops_ratio = NamedMetric("cloudwatch", "instance_exceeded_iops_ratio")
    instance_exceeded_throughput_ratio = NamedMetric("cloudwatch", "instance_exceeded_throughput_ratio")
    queue_length = NamedMetric("cloudwatch", "queue_length")
    metadata_ops_per_s = NamedMetric("cloudwatch", "metadata_ops_per_s")
    aqu_sz = NamedMetric("cloudwatch", "aqu_sz")
    balance_percent = NamedMetric("cloudwatch", "balance_percent")
    instance_io_balance_percent = NamedMetric("cloudwatch", "instance_io_balance_percent")
    instance_byte_balance_percent = NamedMetric("cloudwatch", "instance_byte_balance_percent")
    replica_lag_s = NamedMetric("cloudwatch", "replica_lag_s")
    balance_bytes = NamedMetric("cloudwatch", "balance_bytes")
    metadata_mib_per_s = NamedMetric("cloudwatch", "metadata_mib_per_s")
    total_mib_per_s = NamedMetric("cloudwatch", "total_mib_per_s")
    metered_mib_per_s = NamedMetric("cloudwatch", "metered_mib_per_s")
    permitted_mib_per_s = NamedMetric("cloudwatch", "permitted_mib_per_s")
    io_limit_percent = NamedMetric("cloudwatch", "io_limit_percent")


class CPU:
    """Metrics of the source cpu."""

    user_ratio = NamedMetric("cpu", "user_ratio")
    system_ratio = NamedMetric("cpu", "system_ratio")
    iowait_ratio = NamedMetric("cpu", "iowait_ratio")
    steal_ratio = NamedMetric("cpu", "steal_ratio")
    idle_ratio = NamedMetric("cpu", "idle_ratio")
    least_busy_ratio = NamedMetric("cpu", "least_busy_ratio")
    context_switches_per_s = NamedMetric("cpu", "context_switches_per_s")
    processes_started_per_s = NamedMetric("cpu", "processes_started_per_s")
    runnable_threads = NamedMetric("cpu", "runnable_threads")
    blocked_threads = NamedMetric("cpu", "blocked_threads")
    nice_ratio = NamedMetric("cpu", "nice_ratio")


class Diskstats:
    """Metrics of the source diskstats."""

    reads_per_s = NamedMetric("diskstats", "reads_per_s")
    writes_per_s = NamedMetric("diskstats", "writes_per_s")
    read_mib_per_s = NamedMetric("diskstats", "read_mib_per_s")
    write_mib_per_s = NamedMetric("diskstats", "write_mib_per_s")
    r_await_ms = NamedMetric("diskstats", "r_await_ms")
    w_await_ms = NamedMetric("diskstats", "w_await_ms")
    discards_per_s = NamedMetric("diskstats", "discards_per_s")
    flushes_per_s = NamedMetric("diskstats", "flushes_per_s")
    reads_merged_per_s = NamedMetric("diskstats", "reads_merged_per_s")
    writes_merged_per_s = NamedMetric("diskstats", "writes_merged_per_s")
    d_await_ms = NamedMetric("diskstats", "d_await_ms")
    f_await_ms = NamedMetric("diskstats", "f_await_ms")
    r_size_kib = NamedMetric("diskstats", "r_size_kib")
    w_size_kib = NamedMetric("diskstats", "w_size_kib")
    aqu_sz = NamedMetric("diskstats", "aqu_sz")
    util_ratio = NamedMetric("diskstats", "util_ratio")
    in_flight = NamedMetric("diskstats", "in_flight")
    operations_per_s = NamedMetric("diskstats", "operations_per_s")
    await_ms = NamedMetric("diskstats", "await_ms")
    mib_per_s = NamedMetric("diskstats", "mib_per_s")


class EbsCsi:
    """Metrics of the source ebs_csi."""

    reads_per_s = NamedMetric("ebs_csi", "reads_per_s")
    writes_per_s = NamedMetric("ebs_csi", "writes_per_s")
    read_mib_per_s = NamedMetric("ebs_csi", "read_mib_per_s")
    write_mib_per_s = NamedMetric("ebs_csi", "write_mib_per_s")
    r_await_ms = NamedMetric("ebs_csi", "r_await_ms")
    w_await_ms = NamedMetric("ebs_csi", "w_await_ms")
    volume_exceeded_iops_ratio = NamedMetric("ebs_csi", "volume_exceeded_iops_ratio")
    volume_exceeded_throughput_ratio = NamedMetric("ebs_csi", "volume_exceeded_throughput_ratio")
    instance_exceeded_iops_ratio = NamedMetric("ebs_csi", "instance_exceeded_iops_ratio")
    instance_exceeded_throughput_ratio = NamedMetric("ebs_csi", "instance_exceeded_throughput_ratio")
    queue_length = NamedMetric("ebs_csi", "queue_length")


class EbsNvme:
    """Metrics of the source ebs_nvme."""

    reads_per_s = NamedMetric("ebs_nvme", "reads_per_s")
    writes_per_s = NamedMetric("ebs_nvme", "writes_per_s")
    read_mib_per_s = NamedMetric("ebs_nvme", "read_mib_per_s")
    write_mib_per_s = NamedMetric("ebs_nvme", "write_mib_per_s")
    r_await_ms = NamedMetric("ebs_nvme", "r_await_ms")
    w_await_ms = NamedMetric("ebs_nvme", "w_await_ms")
    volume_exceeded_iops_ratio = NamedMetric("ebs_nvme", "volume_exceeded_iops_ratio")
    volume_exceeded_throughput_ratio = NamedMetric("ebs_nvme", "volume_exceeded_throughput_ratio")
    instance_exceeded_iops_ratio = NamedMetric("ebs_nvme", "instance_exceeded_iops_ratio")
    instance_exceeded_throughput_ratio = NamedMetric("ebs_nvme", "instance_exceeded_throughput_ratio")
    queue_length = NamedMetric("ebs_nvme", "queue_length")
    r_latency_ms_p50 = NamedMetric("ebs_nvme", "r_latency_ms_p50")
    r_latency_ms_p99 = NamedMetric("ebs_nvme", "r_latency_ms_p99")
    w_latency_ms_p50 = NamedMetric("ebs_nvme", "w_latency_ms_p50")
    w_latency_ms_p99 = NamedMetric("ebs_nvme", "w_latency_ms_p99")


class Emulator:
    """Metrics of the source emulator."""

    reads_per_s = NamedMetric("emulator", "reads_per_s")
    writes_per_s = NamedMetric("emulator", "writes_per_s")
    read_mib_per_s = NamedMetric("emulator", "read_mib_per_s")
    write_mib_per_s = NamedMetric("emulator", "write_mib_per_s")
    r_await_ms = NamedMetric("emulator", "r_await_ms")
    w_await_ms = NamedMetric("emulator", "w_await_ms")
    volume_exceeded_iops_ratio = NamedMetric("emulator", "volume_exceeded_iops_ratio")
    volume_exceeded_throughput_ratio = NamedMetric("emulator", "volume_exceeded_throughput_ratio")
    instance_exceeded_iops_ratio = NamedMetric("emulator", "instance_exceeded_iops_ratio")
    instance_exceeded_throughput_ratio = NamedMetric("emulator", "instance_exceeded_throughput_ratio")
    queue_length = NamedMetric("emulator", "queue_length")
    metadata_ops_per_s = NamedMetric("emulator", "metadata_ops_per_s")
    metadata_await_ms = NamedMetric("emulator", "metadata_await_ms")
    flushes_per_s = NamedMetric("emulator", "flushes_per_s")
    f_await_ms = NamedMetric("emulator", "f_await_ms")
    waited_s_per_s = NamedMetric("emulator", "waited_s_per_s")
    errors_per_s = NamedMetric("emulator", "errors_per_s")
    late_ratio = NamedMetric("emulator", "late_ratio")
    lateness_s_per_s = NamedMetric("emulator", "lateness_s_per_s")
    balance_percent = NamedMetric("emulator", "balance_percent")
    disk_reads_per_s = NamedMetric("emulator", "disk_reads_per_s")
    disk_writes_per_s = NamedMetric("emulator", "disk_writes_per_s")
    disk_limit_per_s = NamedMetric("emulator", "disk_limit_per_s")
    operations_per_s = NamedMetric("emulator", "operations_per_s")
    operation_await_ms = NamedMetric("emulator", "operation_await_ms")


class Innodb:
    """Metrics of the source innodb."""

    data_reads_per_s = NamedMetric("innodb", "data_reads_per_s")
    data_writes_per_s = NamedMetric("innodb", "data_writes_per_s")
    data_fsyncs_per_s = NamedMetric("innodb", "data_fsyncs_per_s")
    data_read_mib_per_s = NamedMetric("innodb", "data_read_mib_per_s")
    data_written_mib_per_s = NamedMetric("innodb", "data_written_mib_per_s")
    os_log_fsyncs_per_s = NamedMetric("innodb", "os_log_fsyncs_per_s")
    os_log_written_mib_per_s = NamedMetric("innodb", "os_log_written_mib_per_s")
    log_waits_per_s = NamedMetric("innodb", "log_waits_per_s")
    log_writes_per_s = NamedMetric("innodb", "log_writes_per_s")
    log_write_requests_per_s = NamedMetric("innodb", "log_write_requests_per_s")
    dblwr_pages_per_s = NamedMetric("innodb", "dblwr_pages_per_s")
    dblwr_writes_per_s = NamedMetric("innodb", "dblwr_writes_per_s")
    pages_read_per_s = NamedMetric("innodb", "pages_read_per_s")
    pages_written_per_s = NamedMetric("innodb", "pages_written_per_s")
    buffer_pool_reads_per_s = NamedMetric("innodb", "buffer_pool_reads_per_s")
    buffer_pool_read_requests_per_s = NamedMetric("innodb", "buffer_pool_read_requests_per_s")
    buffer_pool_read_ahead_per_s = NamedMetric("innodb", "buffer_pool_read_ahead_per_s")
    buffer_pool_wait_free_per_s = NamedMetric("innodb", "buffer_pool_wait_free_per_s")
    buffer_pool_pages_flushed_per_s = NamedMetric("innodb", "buffer_pool_pages_flushed_per_s")
    buffer_pool_write_requests_per_s = NamedMetric("innodb", "buffer_pool_write_requests_per_s")
    buffer_pool_miss_ratio = NamedMetric("innodb", "buffer_pool_miss_ratio")
    buffer_pool_dirty_ratio = NamedMetric("innodb", "buffer_pool_dirty_ratio")
    buffer_pool_free_ratio = NamedMetric("innodb", "buffer_pool_free_ratio")
    pending_reads = NamedMetric("innodb", "pending_reads")
    pending_writes = NamedMetric("innodb", "pending_writes")
    pending_fsyncs = NamedMetric("innodb", "pending_fsyncs")
    pending_log_fsyncs = NamedMetric("innodb", "pending_log_fsyncs")
    pending_log_writes = NamedMetric("innodb", "pending_log_writes")
    row_lock_waits_per_s = NamedMetric("innodb", "row_lock_waits_per_s")
    row_lock_wait_s_per_s = NamedMetric("innodb", "row_lock_wait_s_per_s")
    row_lock_current_waits = NamedMetric("innodb", "row_lock_current_waits")
    metadata_lock_current_waits = NamedMetric("innodb", "metadata_lock_current_waits")
    history_list_length = NamedMetric("innodb", "history_list_length")
    checkpoint_age_mib = NamedMetric("innodb", "checkpoint_age_mib")
    checkpoint_age_ratio = NamedMetric("innodb", "checkpoint_age_ratio")
    threads_running = NamedMetric("innodb", "threads_running")
    questions_per_s = NamedMetric("innodb", "questions_per_s")
    commits_per_s = NamedMetric("innodb", "commits_per_s")
    tmp_disk_tables_per_s = NamedMetric("innodb", "tmp_disk_tables_per_s")
    binlog_cache_disk_uses_per_s = NamedMetric("innodb", "binlog_cache_disk_uses_per_s")
    semi_sync_wait_s_per_s = NamedMetric("innodb", "semi_sync_wait_s_per_s")
    flow_control_paused_ratio = NamedMetric("innodb", "flow_control_paused_ratio")


class Mountstats:
    """Metrics of the source mountstats."""

    reads_per_s = NamedMetric("mountstats", "reads_per_s")
    writes_per_s = NamedMetric("mountstats", "writes_per_s")
    read_mib_per_s = NamedMetric("mountstats", "read_mib_per_s")
    write_mib_per_s = NamedMetric("mountstats", "write_mib_per_s")
    commits_per_s = NamedMetric("mountstats", "commits_per_s")
    r_await_ms = NamedMetric("mountstats", "r_await_ms")
    r_rtt_ms = NamedMetric("mountstats", "r_rtt_ms")
    w_await_ms = NamedMetric("mountstats", "w_await_ms")
    w_rtt_ms = NamedMetric("mountstats", "w_rtt_ms")
    commit_await_ms = NamedMetric("mountstats", "commit_await_ms")
    commit_rtt_ms = NamedMetric("mountstats", "commit_rtt_ms")
    open_await_ms = NamedMetric("mountstats", "open_await_ms")
    open_rtt_ms = NamedMetric("mountstats", "open_rtt_ms")
    close_await_ms = NamedMetric("mountstats", "close_await_ms")
    close_rtt_ms = NamedMetric("mountstats", "close_rtt_ms")
    getattr_await_ms = NamedMetric("mountstats", "getattr_await_ms")
    getattr_rtt_ms = NamedMetric("mountstats", "getattr_rtt_ms")
    lookup_await_ms = NamedMetric("mountstats", "lookup_await_ms")
    lookup_rtt_ms = NamedMetric("mountstats", "lookup_rtt_ms")
    metadata_ops_per_s = NamedMetric("mountstats", "metadata_ops_per_s")
    metadata_await_ms = NamedMetric("mountstats", "metadata_await_ms")
    unknown_ops_per_s = NamedMetric("mountstats", "unknown_ops_per_s")
    retransmissions_per_s = NamedMetric("mountstats", "retransmissions_per_s")
    errors_per_s = NamedMetric("mountstats", "errors_per_s")
    transport_in_flight = NamedMetric("mountstats", "transport_in_flight")
    transport_backlog = NamedMetric("mountstats", "transport_backlog")


class PerformanceSchema:
    """Metrics of the source performance_schema."""

    statements_per_s = NamedMetric("performance_schema", "statements_per_s")
    statement_s_per_s = NamedMetric("performance_schema", "statement_s_per_s")
    statement_lock_s_per_s = NamedMetric("performance_schema", "statement_lock_s_per_s")
    statement_errors_per_s = NamedMetric("performance_schema", "statement_errors_per_s")
    statement_ms = NamedMetric("performance_schema", "statement_ms")
    file_reads_per_s = NamedMetric("performance_schema", "file_reads_per_s")
    file_writes_per_s = NamedMetric("performance_schema", "file_writes_per_s")
    file_syncs_per_s = NamedMetric("performance_schema", "file_syncs_per_s")
    file_read_s_per_s = NamedMetric("performance_schema", "file_read_s_per_s")
    file_write_s_per_s = NamedMetric("performance_schema", "file_write_s_per_s")
    file_sync_s_per_s = NamedMetric("performance_schema", "file_sync_s_per_s")
    file_read_ms = NamedMetric("performance_schema", "file_read_ms")
    file_write_ms = NamedMetric("performance_schema", "file_write_ms")
    file_sync_ms = NamedMetric("performance_schema", "file_sync_ms")
    file_read_mib_per_s = NamedMetric("performance_schema", "file_read_mib_per_s")
    file_write_mib_per_s = NamedMetric("performance_schema", "file_write_mib_per_s")
    wait_s_per_s = NamedMetric("performance_schema", "wait_s_per_s")
    query_per_s = NamedMetric("performance_schema", "query_per_s")
    query_s_per_s = NamedMetric("performance_schema", "query_s_per_s")
    query_lock_s_per_s = NamedMetric("performance_schema", "query_lock_s_per_s")
    query_cpu_s_per_s = NamedMetric("performance_schema", "query_cpu_s_per_s")
    query_rows_examined_per_s = NamedMetric("performance_schema", "query_rows_examined_per_s")
    query_rows_sent_per_s = NamedMetric("performance_schema", "query_rows_sent_per_s")
    query_rows_affected_per_s = NamedMetric("performance_schema", "query_rows_affected_per_s")
    query_tmp_disk_tables_per_s = NamedMetric("performance_schema", "query_tmp_disk_tables_per_s")
    program_connections = NamedMetric("performance_schema", "program_connections")


class Progress:
    """Metrics of the source progress."""

    standstill_ms_max = NamedMetric("progress", "standstill_ms_max")
    statements_begun_per_s = NamedMetric("progress", "statements_begun_per_s")


class PSI:
    """Metrics of the source psi."""

    cpu_some_ratio = NamedMetric("psi", "cpu_some_ratio")
    cpu_full_ratio = NamedMetric("psi", "cpu_full_ratio")
    io_some_ratio = NamedMetric("psi", "io_some_ratio")
    io_full_ratio = NamedMetric("psi", "io_full_ratio")
    memory_some_ratio = NamedMetric("psi", "memory_some_ratio")
    memory_full_ratio = NamedMetric("psi", "memory_full_ratio")


class RoundTrip:
    """Metrics of the source round_trip."""

    round_trip_ms_min = NamedMetric("round_trip", "round_trip_ms_min")
    round_trip_ms = NamedMetric("round_trip", "round_trip_ms")
    round_trip_ms_max = NamedMetric("round_trip", "round_trip_ms_max")
    round_trips_per_s = NamedMetric("round_trip", "round_trips_per_s")


class Tasks:
    """Metrics of the source tasks."""

    cpus_used = NamedMetric("tasks", "cpus_used")
    run_delay_s_per_s = NamedMetric("tasks", "run_delay_s_per_s")


class TCP:
    """Metrics of the source tcp."""

    segments_sent_per_s = NamedMetric("tcp", "segments_sent_per_s")
    retransmitted_per_s = NamedMetric("tcp", "retransmitted_per_s")
    timeouts_per_s = NamedMetric("tcp", "timeouts_per_s")
    probed_losses_per_s = NamedMetric("tcp", "probed_losses_per_s")


class VM:
    """Metrics of the source vm."""

    swap_in_pages_per_s = NamedMetric("vm", "swap_in_pages_per_s")
    swap_out_pages_per_s = NamedMetric("vm", "swap_out_pages_per_s")
    page_faults_per_s = NamedMetric("vm", "page_faults_per_s")
    major_faults_per_s = NamedMetric("vm", "major_faults_per_s")


class Client:
    """Metrics of the source client."""

    latency_ms_avg = NamedMetric("client", "latency_ms_avg")
    latency_ms_p50 = NamedMetric("client", "latency_ms_p50")
    latency_ms_p95 = NamedMetric("client", "latency_ms_p95")
    latency_ms_p99 = NamedMetric("client", "latency_ms_p99")
    latency_ms_max = NamedMetric("client", "latency_ms_max")
    tps = NamedMetric("client", "tps")
    queue_length = NamedMetric("client", "queue_length")
    threads_running = NamedMetric("client", "threads_running")
    errors_per_s = NamedMetric("client", "errors_per_s")
    reconnects_per_s = NamedMetric("client", "reconnects_per_s")


PERCENTILES = {"p95": Client.latency_ms_p95, "p99": Client.latency_ms_p99, "p50": Client.latency_ms_p50}
"""Of the clients' latency, the one that says most first."""
