"""Names and explanations of metrics, and texts of rows that several report formats share."""

from __future__ import annotations

from collections.abc import Mapping

from volbench.base.text import change, duration, interval, number, quantity, size
from volbench.records.base import Scalar
from volbench.records.metrics import PRIMARY_METRICS
from volbench.records.report import BackupRow, CellRow, ComparisonRow, DataRow, DurabilityRow

GLOSSARY: Mapping[str, tuple[str, str]] = {
    "tps": ("transactions/s", "sysbench transactions finished per second of the measured window"),
    "qps": ("queries/s", "statements of these transactions per second"),
    "errors_per_s": ("errors/s", "statements that the server refused, deadlocks included"),
    "stalled_s": ("stalled time", "seconds of the window in which no transaction finished"),
    "latency_ms_p50": ("median latency", "half of the transactions were faster, as the client saw them"),
    "latency_ms_p95": ("p95 latency", "95 of 100 transactions were faster; from the merged histogram"),
    "latency_ms_p99": ("p99 latency", "99 of 100 transactions were faster; from the merged histogram"),
    "latency_ms_p999": ("p99.9 latency", "999 of 1000 transactions were faster"),
    "latency_ms_max": ("highest latency", "the slowest transaction: one event, so it varies a lot"),
    "latency_ms_mean": ("mean latency", "tells little about what users wait for"),
    "rate_achieved_ratio": ("rate achieved", "finished against offered transactions of an open loop"),
    "dump_s": ("dump time", "logical backup from start to end, synced"),
    "dump_mib_per_s": ("dump speed", "bytes of the dump per second"),
    "dump_bytes": ("dump size", "bytes of the dump"),
    "restore_s": ("restore time", "the dump loaded into an empty schema and proven equal"),
    "restore_mib_per_s": ("restore speed", "bytes of the dump loaded per second"),
    "cold_read_mib_per_s": ("cold read speed", "files of the data directory read with no cache to serve them"),
    "cold_read_s": ("cold read time", "the same, in seconds"),
    "cold_read_files_per_s": ("cold files/s", "files opened and read per second"),
    "warm_read_mib_per_s": ("warm read speed", "the same files from the page cache: memory, not storage"),
    "table_scan_s": ("cold table scan", "all tables scanned after a cold restart of the server"),
    "table_scan_mib_per_s": ("table scan speed", "bytes of the tables per second of that scan"),
    "first_query_ms": ("first query", "the first query after a cold restart or a crash of the server"),
    "server_start_s": ("server start", "until the server answered a query"),
    "files_per_s": ("files/s", "small files handled per second"),
    "files_mib_per_s": ("content of files", "MiB of small files' content moved per second"),
    "warm_files_per_s": ("warm files/s", "small files from the page cache: memory, and round trips"),
    "files_s": ("time for files", "one phase over all small files"),
    "cpu_user_s": ("user CPU", "CPU time of the program that worked on the files, as `time` shows it"),
    "cpu_system_s": ("system CPU", "CPU time of the kernel for that program"),
    "files_total_s": ("time for all phases", "all phases over small files but the warm read"),
    "ddl_per_s": ("DDL/s", "statements on tables' files per second"),
    "ddl_s": ("DDL time", "one phase of DDL"),
    "ddl_total_s": ("time for all DDL", "all phases of DDL together"),
    "fio_iops": ("IOPS of fio", "operations of fio per second"),
    "fio_mib_per_s": ("throughput of fio", "MiB of fio's operations per second"),
    "fio_prefill_s": ("prefill", "fio's file written once, before anything is measured"),
    "sequential_mib_per_s": ("sequential speed", "one large file from start to end"),
    "unsynced_write_mib_per_s": ("unsynced write speed", "what the page cache took: memory, not storage"),
    "sequential_s": ("sequential time", "the same, in seconds"),
    "commits_per_s": ("commits/s", "acknowledged commits per second, before the cuts of a crash test"),
    "acknowledged_commits": ("acknowledged commits", "commits that the server acknowledged before the cuts"),
    "lost_commits": ("lost commits", "acknowledged commits that are missing after the recovery"),
    "lost_s": ("lost work", "from the first lost commit to the cut, the longest of all cuts"),
    "unacknowledged_commits": ("unacknowledged commits", "present without an acknowledgement: legal, and no fault"),
    "torn_commits": ("torn commits", "present in part after the recovery: never legal"),
    "damaged_rows": ("damaged rows", "rows with other bytes than were written"),
    "damaged_tables": ("damaged tables", "tables that CHECK TABLE reports as corrupt"),
    "failed_recoveries": ("failed recoveries", "cuts after which the server did not recover"),
    "recovery_s": ("recovery", "from the server's start after a cut to its first answer; the median of all cuts"),
    "iops_read": ("read IOPS", "reads that the device finished per second"),
    "iops_write": ("write IOPS", "writes that the device finished per second"),
    "read_mib_per_s": ("read throughput", "MiB that the device read per second"),
    "write_mib_per_s": ("write throughput", "MiB that the device wrote per second"),
    "read_await_ms": ("read await", "mean time of a read in the block layer, queueing included"),
    "write_await_ms": ("write await", "mean time of a write in the block layer, queueing included"),
    "queue_depth": ("queue", "requests in flight on average (aqu-sz of iostat)"),
    "device_util_ratio": ("utilisation", "share of time with any request in flight; high is not yet saturated"),
    "server_cpu_ratio": ("server CPU", "share of the CPUs that the server used"),
    "statement_latency_ms_p95": ("p95 statement", "95 of 100 statements were faster, as the server saw them"),
    "statement_latency_ms_p99": ("p99 statement", "99 of 100 statements were faster, as the server saw them"),
}  # fmt: skip
"""Metric -> label and explanation. A metric without an entry is shown by its own name."""


def label(metric: str) -> str:
    """Return the label of a metric."""
    return GLOSSARY[metric][0] if metric in GLOSSARY else metric


def parameter_text(parameters: Mapping[str, Scalar]) -> str:
    """Return parameters on one line: threads=8 rate=200."""
    return " ".join(f"{name}={value}" for name, value in parameters.items())


def comparison_text(row: ComparisonRow, *, steps: bool) -> str:
    """Return one comparison within a sentence: `tps +38 % [+31 %, +45 %]`, with its step if `steps`."""
    step_text = f" ({row.step})" if steps else ""
    return f"{label(row.metric)} {change(row.ratio)} {interval(row.ci)}{step_text}"


def how_text(row: DurabilityRow) -> str:
    """Return `2 power cuts (volume: async)`, `1 kill of the server`."""
    event = "power cut" if row.how == "power_cut" else "kill of the server"
    event_text = event if row.cuts == 1 else event.replace("cut", "cuts").replace("kill", "kills")
    durability_text = f" (volume: {row.volume_promises.replace('_', '-')})" if row.volume_promises else ""
    return f"{row.cuts} {event_text}{durability_text}"


def recovery_text(row: DurabilityRow) -> str:
    """Return `2.1 s`; `failed after 1 of 6 cuts, else 2.1 s`; a server that never recovered has no time."""
    took = quantity(row.recovery_s, "s")
    if not row.failed_recoveries:
        return took
    failed = f"failed after {row.failed_recoveries} of {row.cuts} cuts"
    return failed if row.recovery_s is None else f"{failed}, else {took}"


def window_text(row: BackupRow) -> str:
    """Return `fits 10 min; recommended 3 min`; of a suite without a window only the recommended one."""
    verdict = "" if row.window_s is None else f"{'fits' if row.fits else 'does not fit'} {duration(row.window_s)}; "
    return f"{verdict}recommended {duration(row.recommended_window_s)}"


def data_text(data: DataRow) -> str:
    """Return `229 MiB of data, buffer pool 32 MiB (7.2 times)`."""
    text = f"{size(data.bytes)} of data"
    if data.buffer_pool_bytes is None or data.data_to_pool_ratio is None:
        return text
    return f"{text}, buffer pool {size(data.buffer_pool_bytes)} ({data.data_to_pool_ratio:.2g} times)"


def why_invalid(cell: CellRow) -> str:
    """Return the reasons of an invalid step, and the bounds of its figures when comparisons use them."""
    reasons = "; ".join(cell.invalid_reasons)
    used = [name for name in cell.used_within_bounds if name in PRIMARY_METRICS.get(cell.kind, ())]
    if not cell.used_within_bounds:
        return reasons
    bounds = ", ".join(bounds_text(cell, name) for name in used)
    return f"{reasons}; compared within its bounds{f': {bounds}' if bounds else ''}"


def bounds_text(cell: CellRow, name: str) -> str:
    """Return the bounds of a figure without the disturbance: `transactions/s 61.2 to 70.4`."""
    low, high = cell.bounds[name]
    unit = cell.metrics[name].unit
    ends = [number(end) if unit == "1/s" else quantity(end, unit) for end in (low, high) if end is not None]
    return f"{label(name)} {' to '.join(ends)}" if high is not None else f"{label(name)} {ends[0]} or more"
