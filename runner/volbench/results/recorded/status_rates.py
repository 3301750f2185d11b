"""Rates of a server's status counters that another tool recorded, by the names that the sampler gives them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_MIB = float(1 << 20)
RATES = {
    "innodb_data_reads": ("data_reads_per_s", 1.0),
    "innodb_data_writes": ("data_writes_per_s", 1.0),
    "innodb_data_fsyncs": ("data_fsyncs_per_s", 1.0),
    "innodb_data_read": ("data_read_mib_per_s", 1 / _MIB),
    "innodb_data_written": ("data_written_mib_per_s", 1 / _MIB),
    "innodb_os_log_fsyncs": ("os_log_fsyncs_per_s", 1.0),
    "innodb_pages_read": ("pages_read_per_s", 1.0),
    "innodb_pages_written": ("pages_written_per_s", 1.0),
    "innodb_buffer_pool_reads": ("buffer_pool_reads_per_s", 1.0),
    "innodb_buffer_pool_read_requests": ("buffer_pool_read_requests_per_s", 1.0),
    "innodb_buffer_pool_wait_free": ("buffer_pool_wait_free_per_s", 1.0),
    "innodb_row_lock_waits": ("row_lock_waits_per_s", 1.0),
    "innodb_row_lock_time": ("row_lock_wait_s_per_s", 1e-3),
    "questions": ("questions_per_s", 1.0),
    "com_commit": ("commits_per_s", 1.0),
}
GAUGES = {
    "threads_running": "threads_running",
    "innodb_data_pending_reads": "pending_reads",
    "innodb_data_pending_writes": "pending_writes",
    "innodb_data_pending_fsyncs": "pending_fsyncs",
}


def status_rates(
    before: Mapping[str, int], after: Mapping[str, int], dt_s: float
) -> Iterator[tuple[str, float | None]]:
    """Metrics of the time between two reports; None for a counter that went backwards or is not there.

    Nothing for reports of one moment: no rate can be known.
    """
    if dt_s <= 0:
        return
    for name, (metric, scale) in RATES.items():
        grown = _grown(before, after, name)
        yield metric, None if grown is None else grown * scale / dt_s
    for name, metric in GAUGES.items():
        yield metric, float(after[name]) if name in after else None
    missed, requests = (
        _grown(before, after, f"innodb_buffer_pool_{counter}") for counter in ("reads", "read_requests")
    )
    yield "buffer_pool_miss_ratio", missed / requests if missed is not None and requests else None
    total, free, dirty = (after.get(f"innodb_buffer_pool_pages_{state}") for state in ("total", "free", "dirty"))
    yield "buffer_pool_free_ratio", free / total if total and free is not None else None
    yield "buffer_pool_dirty_ratio", dirty / total if total and dirty is not None else None


def _grown(before: Mapping[str, int], after: Mapping[str, int], name: str) -> int | None:
    if name not in before or name not in after or after[name] < before[name]:
        return None
    return after[name] - before[name]
