"""Source `innodb`: what InnoDB and the server say of themselves in SHOW GLOBAL STATUS."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import ClassVar

from typing_extensions import override

from volbench.core.records.series import SeriesRow
from volbench.measure.sample.change import MIB, Change, ratio
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.connection import ServerConnection
from volbench.measure.sample.interface import Reading, Sampler, Unavailable, Values
from volbench.measure.sample.parsers.innodb import (
    HISTORY_QUERY,
    SESSIONS_QUERY,
    STATUS_QUERY,
    lock_waits,
    parse_status,
)
from volbench.measure.sample.shared import Shared

_GENERATION = ("connection", "")
_HISTORY = "innodb_history_list_length"
_LOCK_WAITS = "metadata_lock_current_waits"
MOVING_PER_S = 10.0
"""Statements a second for each running session from which sessions make progress, and are not listed."""
_PER_S = {
    "data_reads_per_s": "innodb_data_reads",
    "data_writes_per_s": "innodb_data_writes",
    "data_fsyncs_per_s": "innodb_data_fsyncs",
    "os_log_fsyncs_per_s": "innodb_os_log_fsyncs",
    "log_waits_per_s": "innodb_log_waits",
    "log_writes_per_s": "innodb_log_writes",
    "log_write_requests_per_s": "innodb_log_write_requests",
    "dblwr_pages_per_s": "innodb_dblwr_pages_written",
    "dblwr_writes_per_s": "innodb_dblwr_writes",
    "pages_read_per_s": "innodb_pages_read",
    "pages_written_per_s": "innodb_pages_written",
    "buffer_pool_reads_per_s": "innodb_buffer_pool_reads",
    "buffer_pool_read_requests_per_s": "innodb_buffer_pool_read_requests",
    "buffer_pool_read_ahead_per_s": "innodb_buffer_pool_read_ahead",
    "buffer_pool_wait_free_per_s": "innodb_buffer_pool_wait_free",
    "buffer_pool_pages_flushed_per_s": "innodb_buffer_pool_pages_flushed",
    "buffer_pool_write_requests_per_s": "innodb_buffer_pool_write_requests",
    "row_lock_waits_per_s": "innodb_row_lock_waits",
    "questions_per_s": "questions",
    "commits_per_s": "com_commit",
    "tmp_disk_tables_per_s": "created_tmp_disk_tables",
    "binlog_cache_disk_uses_per_s": "binlog_cache_disk_use",
}
_MIB_PER_S = {
    "data_read_mib_per_s": "innodb_data_read",
    "data_written_mib_per_s": "innodb_data_written",
    "os_log_written_mib_per_s": "innodb_os_log_written",
}
_GAUGES = {
    "pending_reads": "innodb_data_pending_reads",
    "pending_writes": "innodb_data_pending_writes",
    "pending_fsyncs": "innodb_data_pending_fsyncs",
    "pending_log_fsyncs": "innodb_os_log_pending_fsyncs",
    "pending_log_writes": "innodb_os_log_pending_writes",
    "row_lock_current_waits": "innodb_row_lock_current_waits",
    "history_list_length": _HISTORY,
    "threads_running": "threads_running",
    _LOCK_WAITS: _LOCK_WAITS,
}


class InnoDb(Sampler):
    """Reads some fifty status variables with one statement, and of MySQL the history list with another.

    While sessions run and hardly a statement is done, a third one says how many of them wait for a lock.
    """

    source: ClassVar[str] = "innodb"
    lane: ClassVar[str] = "server"

    def __init__(self, server: ServerConnection) -> None:
        self._server = server
        self._asks_history = True
        self._last: tuple[float, float] | None = None

    @classmethod
    @override
    def from_config(cls, config: SamplingConfig, shared: Shared) -> Sampler:
        """Return the sampler."""
        return cls(shared.server)

    @classmethod
    def is_remote(cls, config: SamplingConfig) -> bool:
        """Return whether there is a server, which may start later."""
        return bool(config.option_file)

    def close(self) -> None:
        """Close the connection, also for the other sources of this lane."""
        self._server.close()

    def read(self) -> Values:
        """Return the variables that this server has."""
        rows = self._server.rows(STATUS_QUERY)
        status = parse_status((_text(name), _text(value)) for name, value in rows)
        if _HISTORY not in status and self._asks_history:
            status.update(self._history())
        values: Values = {(name, ""): value for name, value in status.items()}
        values[_GENERATION] = self._server.generation
        waits = self._lock_waits(status)
        if waits is not None:
            values[_LOCK_WAITS, ""] = waits
        return values

    def _lock_waits(self, status: Mapping[str, float]) -> int | None:
        """Return sessions that wait for a table, its definition, a backup or a name.

        None where nobody had to be asked.

        performance_schema counts a wait when it ends: until then the list of sessions alone shows it.
        """
        questions, last = status.get("questions"), self._last
        self._last = None if questions is None else (time.monotonic(), questions)
        running = status.get("threads_running", 0.0)
        if last is None or self._last is None or running <= 1:  # this connection alone
            return None
        elapsed_s, done = (now - before for now, before in zip(self._last, last, strict=True))
        if done > MOVING_PER_S * (running - 1) * elapsed_s:
            return None
        try:
            sessions = self._server.rows(SESSIONS_QUERY)
        except Unavailable:
            return None
        return lock_waits(([_text(value) for value in session] for session in sessions), running)

    def _history(self) -> dict[str, float]:
        """Empty where the server refuses; it is not asked again then."""
        try:
            return {_HISTORY: float(self._server.text(HISTORY_QUERY)[0])}
        except (Unavailable, ValueError):
            self._asks_history = False
            return {}

    @staticmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """Yield rates and gauges; over a reconnection only gauges, since the counters may have begun anew."""
        change = Change(source=InnoDb.source, before=before, after=after)
        if not change.usable:
            return
        yield from change.rows((metric, change.gauge(name)) for metric, name in _GAUGES.items())
        yield from change.rows(_levels(change))
        if before.values.get(_GENERATION) != after.values.get(_GENERATION):
            return
        yield from change.rows((metric, change.per_s(name)) for metric, name in _PER_S.items())
        yield from change.rows((metric, change.per_s(name, unit=MIB)) for metric, name in _MIB_PER_S.items())
        yield from change.rows(
            (
                ("row_lock_wait_s_per_s", change.per_s("innodb_row_lock_time", unit=1000)),
                ("semi_sync_wait_s_per_s", _first(change, _SEMI_SYNC_WAITS, unit=1e6)),
                ("flow_control_paused_ratio", change.per_s("wsrep_flow_control_paused_ns", unit=1e9)),
                (
                    "buffer_pool_miss_ratio",
                    ratio(
                        change.grown("innodb_buffer_pool_reads"), change.grown("innodb_buffer_pool_read_requests")
                    ),
                ),
            )
        )


_SEMI_SYNC_WAITS = ("rpl_semi_sync_source_tx_wait_time", "rpl_semi_sync_master_tx_wait_time")
"""MySQL's name since 8.0.26, the older one and MariaDB's."""


def _first(change: Change, names: tuple[str, ...], *, unit: float) -> float | None:
    """Return the growth a second of the first of several names that the server has; None where it has none."""
    return next((grown for name in names if (grown := change.per_s(name, unit=unit)) is not None), None)


def _levels(change: Change) -> Iterator[tuple[str, float | None]]:
    total = change.gauge("innodb_buffer_pool_pages_total")
    yield "buffer_pool_dirty_ratio", ratio(change.gauge("innodb_buffer_pool_pages_dirty"), total)
    yield "buffer_pool_free_ratio", ratio(change.gauge("innodb_buffer_pool_pages_free"), total)
    age, capacity = _checkpoint(change)
    yield "checkpoint_age_mib", ratio(age, MIB)
    yield "checkpoint_age_ratio", ratio(age, capacity)


def _checkpoint(change: Change) -> tuple[float | None, float | None]:
    """Return age of the checkpoint and what it may grow to, bytes.

    MariaDB says both, MySQL from 8.0.30 two positions.
    """
    age = change.gauge("innodb_checkpoint_age")
    if age is not None:
        return age, change.gauge("innodb_checkpoint_max_age")
    current, checkpoint = (
        change.gauge("innodb_redo_log_current_lsn"),
        change.gauge("innodb_redo_log_checkpoint_lsn"),
    )
    if current is None or checkpoint is None or current < checkpoint:
        return None, None
    return current - checkpoint, change.gauge("innodb_redo_log_capacity_resized")


def _text(value: bytes | None) -> str:
    return "" if value is None else bytes(value).decode("utf-8", "replace")
