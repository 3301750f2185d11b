"""Source `performance_schema`."""

from __future__ import annotations

from typing import Literal, get_args

from volbench.core.records.sources.info import SourceInfo, metric_table

WaitClass = Literal[
    "file_data",
    "file_redo",
    "file_dblwr",
    "file_binlog",
    "table",
    "lock_table",
    "lock_metadata",
    "binlog_group",
]
"""What a foreground thread waits for: the entities of `wait_s_per_s`."""
_METRICS = {
    **metric_table(
        "",
        {
            "statements_per_s": ("1/s", "statements ended, without volbench's own"),
            "statement_s_per_s": ("s/s", "time of the statements that ended"),
            "statement_lock_s_per_s": ("s/s", "time in which these waited for table locks"),
            "statement_errors_per_s": ("1/s", "errors of statements"),
            "statement_ms": ("ms", "mean time of a statement; absent without one"),
        },
    ),
    **metric_table(
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
    **metric_table(
        f"class ({', '.join(get_args(WaitClass))})",
        {"wait_s_per_s": ("s/s", "time foreground threads waited; `table` contains the file waits below it")},
    ),
    **metric_table(
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
    **metric_table(
        "backup tool: the program_name that it connects with",
        {"program_connections": ("1", "connections of this tool at the tick; of observed servers only")},
    ),
}
SOURCE = SourceInfo(
    name="performance_schema",
    role="server",
    text="Sums over all threads: `s/s` above 1 means several threads. `wait_s_per_s` of files excludes "
    "background threads, which are read a moment later, so small values are uncertain.",
    metrics=_METRICS,
)
