"""Source `innodb`."""

from __future__ import annotations

from volbench.core.records.sources.info import SourceInfo, metric_table

_METRICS = metric_table(
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
        "buffer_pool_write_requests_per_s": (
            "1/s",
            "changes of pages; a mini-transaction counts once for each page",
        ),
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
        "metadata_lock_current_waits": (
            "1",
            "sessions waiting for a table, its definition, a backup or a name at the tick; absent while running"
            " sessions do ten statements a second each",
        ),
        "history_list_length": ("1", "transactions whose undo is not yet purged"),
        "checkpoint_age_mib": ("MiB", "redo written since the last checkpoint"),
        "checkpoint_age_ratio": ("1", "the same, as a share of what the redo log can hold"),
        "threads_running": ("1", "threads executing at the tick, volbench's own included"),
        "questions_per_s": ("1/s", "statements from clients, volbench's own included"),
        "commits_per_s": ("1/s", "COMMIT statements"),
        "tmp_disk_tables_per_s": ("1/s", "temporary tables that went to disk"),
        "binlog_cache_disk_uses_per_s": ("1/s", "transactions whose binlog cache went to disk"),
        "semi_sync_wait_s_per_s": ("s/s", "time of commits that waited for a replica's acknowledgement"),
        "flow_control_paused_ratio": ("1", "share of time in which Galera's flow control paused writes"),
    },
    less=("buffer_pool_free_ratio",),
)
SOURCE = SourceInfo(
    name="innodb",
    role="server",
    text="Status variables.",
    metrics=_METRICS,
)
