"""What each metric is about, and which time contains which: for metrics that are held against a cause.

A descriptor of a cause says which topics it accounts for (`CauseInfo.accounts_for`). Metrics are named by
descriptors, so that one that does not exist fails at import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from volbench.core.records.layout import base_source
from volbench.core.records.named_metrics import (
    CPU,
    PSI,
    TCP,
    VM,
    CgroupCpu,
    CgroupIo,
    CgroupMemory,
    Cloudwatch,
    Diskstats,
    EbsNvme,
    Emulator,
    Innodb,
    Mountstats,
    NamedMetric,
    PerformanceSchema,
    Progress,
    RoundTrip,
    Tasks,
)
from volbench.core.records.sources import SOURCES
from volbench.core.records.sources.host.tasks import CARRIERS_OF_IO
from volbench.core.records.sources.server.performance_schema import WaitClass

Topic = Literal[
    "reads of the volume",
    "writes of the volume",
    "queue of the volume",
    "metadata of the volume",
    "traffic of the volume",
    "limit of the volume",
    "service of the volume",
    "reads of files",
    "writes of files",
    "traffic of files",
    "tables",
    "locks",
    "buffer pool",
    "redo log",
    "statements",
    "replication",
    "CPUs",
    "memory",
    "network",
]
WAITS_OF_VOLUME: frozenset[Topic] = frozenset(
    {"reads of the volume", "writes of the volume", "queue of the volume", "metadata of the volume"}
)
"""How long operations take at the volume, or how many wait there."""
USE_OF_VOLUME: frozenset[Topic] = WAITS_OF_VOLUME | {"traffic of the volume", "limit of the volume"}
"""The same, and what it does and may do: of causes that are about how much the volume does."""
CONTAINS: Mapping[Topic, frozenset[Topic]] = {
    "reads of files": frozenset({"reads of the volume"}),
    "writes of files": frozenset({"writes of the volume"}),
    "traffic of files": frozenset({"traffic of the volume"}),
    "tables": frozenset({"reads of files", "locks"}),
}
"""What the server does and waits for, by what is part of it: `table` contains the waits for pages and for rows."""
SERVED: Mapping[Topic, frozenset[Topic]] = {"service of the volume": USE_OF_VOLUME}
"""Work of processes that carry out operations, by what these are."""
_OF_DEVICES: Mapping[Topic, tuple[NamedMetric, ...]] = {
    "reads of the volume": (
        Diskstats.r_await_ms,
        Mountstats.r_rtt_ms,
        EbsNvme.r_latency_ms_p50,
        EbsNvme.r_latency_ms_p99,
    ),
    "writes of the volume": (
        Diskstats.w_await_ms,
        Diskstats.f_await_ms,
        Diskstats.d_await_ms,
        Mountstats.w_rtt_ms,
        Mountstats.commit_await_ms,
        Mountstats.commit_rtt_ms,
        EbsNvme.w_latency_ms_p50,
        EbsNvme.w_latency_ms_p99,
    ),
    "queue of the volume": (
        Diskstats.aqu_sz,
        Diskstats.await_ms,
        Diskstats.in_flight,
        Diskstats.util_ratio,
        Cloudwatch.queue_length,
        Emulator.waited_s_per_s,
        Emulator.operation_await_ms,
        Mountstats.transport_in_flight,
        Mountstats.transport_backlog,
    ),
    "metadata of the volume": (
        Mountstats.metadata_await_ms,
        Mountstats.metadata_ops_per_s,
        Mountstats.open_await_ms,
        Mountstats.open_rtt_ms,
        Mountstats.close_await_ms,
        Mountstats.close_rtt_ms,
        Mountstats.getattr_await_ms,
        Mountstats.getattr_rtt_ms,
        Mountstats.lookup_await_ms,
        Mountstats.lookup_rtt_ms,
    ),
    "traffic of the volume": (
        Diskstats.reads_per_s,
        Diskstats.writes_per_s,
        Diskstats.read_mib_per_s,
        Diskstats.write_mib_per_s,
        Diskstats.discards_per_s,
        Diskstats.flushes_per_s,
        Diskstats.reads_merged_per_s,
        Diskstats.writes_merged_per_s,
        Diskstats.r_size_kib,
        Diskstats.w_size_kib,
        Diskstats.operations_per_s,
        Diskstats.mib_per_s,
        Mountstats.commits_per_s,
        Mountstats.unknown_ops_per_s,
        CgroupIo.read_ops_per_s,
        CgroupIo.write_ops_per_s,
        Cloudwatch.metadata_mib_per_s,
        Cloudwatch.total_mib_per_s,
        Cloudwatch.metered_mib_per_s,
        Emulator.disk_reads_per_s,
        Emulator.disk_writes_per_s,
    ),
    "limit of the volume": (
        Emulator.volume_exceeded_iops_ratio,
        Emulator.volume_exceeded_throughput_ratio,
        Emulator.instance_exceeded_iops_ratio,
        Emulator.instance_exceeded_throughput_ratio,
        Emulator.balance_percent,
        Emulator.disk_limit_per_s,
        Cloudwatch.instance_io_balance_percent,
        Cloudwatch.instance_byte_balance_percent,
        Cloudwatch.balance_bytes,
        Cloudwatch.permitted_mib_per_s,
        Cloudwatch.io_limit_percent,
        CgroupIo.read_iops_max,
        CgroupIo.write_iops_max,
        CgroupIo.read_mib_per_s_max,
        CgroupIo.write_mib_per_s_max,
    ),
    "network": (Mountstats.retransmissions_per_s,),
}
"""Of all sources that count a volume's operations, by the metric's name."""
_OF_THE_REST: Mapping[Topic, tuple[NamedMetric, ...]] = {
    "queue of the volume": (CPU.iowait_ratio, CPU.blocked_threads, PSI.io_some_ratio, PSI.io_full_ratio),
    "reads of files": (
        PerformanceSchema.file_read_s_per_s,
        PerformanceSchema.file_read_ms,
        Innodb.pending_reads,
    ),
    "writes of files": (
        PerformanceSchema.file_write_s_per_s,
        PerformanceSchema.file_write_ms,
        PerformanceSchema.file_sync_s_per_s,
        PerformanceSchema.file_sync_ms,
        Innodb.pending_writes,
        Innodb.pending_fsyncs,
        Innodb.pending_log_fsyncs,
        Innodb.pending_log_writes,
        Innodb.log_waits_per_s,
    ),
    "traffic of files": (
        PerformanceSchema.file_reads_per_s,
        PerformanceSchema.file_writes_per_s,
        PerformanceSchema.file_syncs_per_s,
        PerformanceSchema.file_read_mib_per_s,
        PerformanceSchema.file_write_mib_per_s,
        Innodb.data_reads_per_s,
        Innodb.data_writes_per_s,
        Innodb.data_fsyncs_per_s,
        Innodb.data_read_mib_per_s,
        Innodb.data_written_mib_per_s,
        Innodb.os_log_fsyncs_per_s,
        Innodb.os_log_written_mib_per_s,
        Innodb.log_writes_per_s,
        Innodb.dblwr_pages_per_s,
        Innodb.dblwr_writes_per_s,
        Innodb.pages_written_per_s,
        Innodb.buffer_pool_pages_flushed_per_s,
    ),
    "buffer pool": (
        Innodb.pages_read_per_s,
        Innodb.buffer_pool_reads_per_s,
        Innodb.buffer_pool_read_ahead_per_s,
        Innodb.buffer_pool_wait_free_per_s,
        Innodb.buffer_pool_miss_ratio,
        Innodb.buffer_pool_free_ratio,
    ),
    "redo log": (
        Innodb.buffer_pool_dirty_ratio,
        Innodb.checkpoint_age_mib,
        Innodb.checkpoint_age_ratio,
    ),
    "locks": (
        Innodb.row_lock_waits_per_s,
        Innodb.row_lock_wait_s_per_s,
        Innodb.row_lock_current_waits,
        Innodb.metadata_lock_current_waits,
    ),
    "statements": (
        PerformanceSchema.statements_per_s,
        Innodb.buffer_pool_read_requests_per_s,
        Innodb.buffer_pool_write_requests_per_s,
        Innodb.log_write_requests_per_s,
        Innodb.threads_running,
        Innodb.questions_per_s,
        Innodb.commits_per_s,
        Innodb.tmp_disk_tables_per_s,
        Innodb.binlog_cache_disk_uses_per_s,
        Progress.standstill_ms_max,
        Progress.statements_begun_per_s,
    ),
    "replication": (Innodb.semi_sync_wait_s_per_s, Innodb.flow_control_paused_ratio),
    "CPUs": (
        CPU.user_ratio,
        CPU.system_ratio,
        CPU.steal_ratio,
        CPU.idle_ratio,
        CPU.least_busy_ratio,
        CPU.nice_ratio,
        CPU.context_switches_per_s,
        CPU.processes_started_per_s,
        CPU.runnable_threads,
        PSI.cpu_some_ratio,
        PSI.cpu_full_ratio,
        Tasks.cpus_used,
        Tasks.run_delay_s_per_s,
        CgroupCpu.cpus_used,
        CgroupCpu.throttled_ratio,
        CgroupCpu.throttled_s_per_s,
    ),
    "memory": (
        PSI.memory_some_ratio,
        PSI.memory_full_ratio,
        VM.swap_in_pages_per_s,
        VM.swap_out_pages_per_s,
        VM.page_faults_per_s,
        VM.major_faults_per_s,
        CgroupMemory.used_mib,
        CgroupMemory.limit_mib,
        CgroupMemory.high_events_per_s,
        CgroupMemory.max_events_per_s,
        CgroupMemory.reclaimed_mib_per_s,
        CgroupMemory.refaults_per_s,
    ),
    "network": (
        TCP.segments_sent_per_s,
        TCP.retransmitted_per_s,
        TCP.timeouts_per_s,
        TCP.probed_losses_per_s,
        RoundTrip.round_trip_ms_min,
        RoundTrip.round_trip_ms,
        RoundTrip.round_trip_ms_max,
        RoundTrip.round_trips_per_s,
    ),
}
WITHOUT_TOPIC = frozenset(
    {
        Emulator.errors_per_s,
        Emulator.late_ratio,
        Emulator.lateness_s_per_s,
        Mountstats.errors_per_s,
        Cloudwatch.replica_lag_s,
        Innodb.history_list_length,
        PerformanceSchema.program_connections,
    }
)
"""Metrics of which no cause says what it does to them."""
_OF_WAITS: Mapping[WaitClass, Topic] = {
    "file_data": "reads of files",
    "file_redo": "writes of files",
    "file_dblwr": "writes of files",
    "file_binlog": "writes of files",
    "binlog_group": "writes of files",
    "table": "tables",
    "lock_table": "locks",
    "lock_metadata": "locks",
}
_BY_NAME: Mapping[str, Topic] = {metric.name: topic for topic, metrics in _OF_DEVICES.items() for metric in metrics}
_BY_METRIC: Mapping[NamedMetric, Topic] = {
    metric: topic for topic, metrics in _OF_THE_REST.items() for metric in metrics
}
_BY_WAIT: Mapping[str, Topic] = dict(_OF_WAITS.items())


def topic_of(source: str, metric: str, entity: str = "") -> Topic | None:
    """Return what a metric is about; None where no descriptor says it."""
    base, _ = base_source(source)
    named = NamedMetric(base, metric)
    if named == PerformanceSchema.wait_s_per_s:
        return _BY_WAIT.get(entity)
    if named == Tasks.cpus_used and entity in CARRIERS_OF_IO:
        return "service of the volume"
    if base in SOURCES and SOURCES[base].role == "device":
        return _BY_NAME.get(metric)
    return _BY_METRIC.get(named)


def contains(topic: Topic, candidates: frozenset[Topic]) -> bool:
    """Return whether some of these topics are part of a topic, however many layers below."""
    below = CONTAINS.get(topic, frozenset())
    return bool(below & candidates) or any(contains(inner, candidates) for inner in below)


def serves(topic: Topic, candidates: frozenset[Topic]) -> bool:
    """Return whether a topic is the work of a process that carries out what some of these topics are about."""
    return bool(SERVED.get(topic, frozenset()) & candidates)


def consists_of(topic: Topic, candidates: frozenset[Topic]) -> bool:
    """Return whether a topic is one of these, or what is directly part of it is of no others."""
    below = CONTAINS.get(topic, frozenset())
    return topic in candidates or (bool(below) and below <= candidates)
