"""SHOW GLOBAL STATUS: the counters of InnoDB that samplers read, under the names of MySQL and of MariaDB."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

COUNTERS = (
    "Innodb_data_reads",
    "Innodb_data_writes",
    "Innodb_data_fsyncs",
    "Innodb_data_read",
    "Innodb_data_written",
    "Innodb_os_log_fsyncs",
    "Innodb_os_log_written",
    "Innodb_log_waits",
    "Innodb_log_writes",
    "Innodb_log_write_requests",
    "Innodb_dblwr_pages_written",
    "Innodb_dblwr_writes",
    "Innodb_pages_read",
    "Innodb_pages_written",
    "Innodb_buffer_pool_reads",
    "Innodb_buffer_pool_read_requests",
    "Innodb_buffer_pool_read_ahead",
    "Innodb_buffer_pool_wait_free",
    "Innodb_buffer_pool_pages_flushed",
    "Innodb_buffer_pool_write_requests",
    "Innodb_row_lock_waits",
    "Innodb_row_lock_time",
    "Questions",
    "Com_commit",
    "Created_tmp_disk_tables",
    "Binlog_cache_disk_use",
    "Rpl_semi_sync_source_tx_wait_time",
    "Rpl_semi_sync_master_tx_wait_time",
    "wsrep_flow_control_paused_ns",
)
"""Grow while the server lives."""
GAUGES = (
    "Innodb_data_pending_reads",
    "Innodb_data_pending_writes",
    "Innodb_data_pending_fsyncs",
    "Innodb_os_log_pending_fsyncs",
    "Innodb_os_log_pending_writes",
    "Innodb_buffer_pool_pages_dirty",
    "Innodb_buffer_pool_pages_free",
    "Innodb_buffer_pool_pages_total",
    "Innodb_row_lock_current_waits",
    "Innodb_redo_log_current_lsn",
    "Innodb_redo_log_checkpoint_lsn",
    "Innodb_redo_log_capacity_resized",
    "Innodb_checkpoint_age",
    "Innodb_checkpoint_max_age",
    "Innodb_history_list_length",
    "Threads_running",
)
"""Have a value at each moment."""
STATUS_QUERY = "SHOW GLOBAL STATUS WHERE Variable_name IN ({})".format(
    ", ".join(f"'{name}'" for name in COUNTERS + GAUGES)
)

HISTORY_QUERY = "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'"
"""MySQL has the length of the history list here alone; asking takes the PROCESS privilege."""

SESSIONS_QUERY = "SHOW PROCESSLIST"
"""Id, User, Host, db, Command, Time, State, Info; without the PROCESS privilege of the account's own sessions."""
_COMMAND, _STATE = 4, 6
_NO_CLIENTS = frozenset({"Daemon", "Binlog Dump", "Binlog Dump GTID", "Slave_IO"})
"""Commands of threads that are no sessions of clients; Threads_running counts some, as MySQL's event scheduler."""
_WAITS = re.compile(r"Waiting for .*(lock|flush)|User lock")
"""States of waits for the server's locks, not InnoDB's: sql/mdl.cc and sql/mysqld.cc of MySQL and MariaDB."""


def lock_waits(sessions: Iterable[Sequence[str]], running: float) -> int | None:
    """Return how many sessions wait for a lock that is no row lock; None where the list does not show all sessions.

    Args:
        sessions: rows of SHOW PROCESSLIST.
        running: sessions that the server itself counts as running.
    """
    listed = [session for session in sessions if session[_COMMAND] != "Sleep"]
    if len(listed) < running:
        return None
    active = (session for session in listed if session[_COMMAND] not in _NO_CLIENTS)
    return sum(_WAITS.fullmatch(session[_STATE]) is not None for session in active)


def parse_status(rows: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Return names in lower case, with their numbers; what is not a number is left out."""
    return {name.lower(): int(value) for name, value in rows if value.lstrip("-").isdecimal()}
