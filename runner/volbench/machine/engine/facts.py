"""Facts about a running server: its settings, and which of its counters are not available."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from volbench.core.records.facts import ServerFacts
from volbench.errors import StepFailed
from volbench.machine.engine.answers import reads_answers

Query = Callable[[str], list[tuple[Any, ...]]]

_PREFIXES = (
    "innodb_",
    "binlog_",
    "performance_schema",
    "sync_",
    "aria_",
    "table_",
    "tmp_table",
    "thread_",
    "temptable_",
)
_NAMES = frozenset(
    {
        "autocommit",
        "back_log",
        "character_set_server",
        "collation_server",
        "default_storage_engine",
        "flush",
        "flush_time",
        "general_log",
        "gtid_mode",
        "internal_tmp_mem_storage_engine",
        "join_buffer_size",
        "key_buffer_size",
        "large_pages",
        "log_bin",
        "log_replica_updates",
        "log_slave_updates",
        "lower_case_table_names",
        "max_binlog_size",
        "max_connections",
        "max_heap_table_size",
        "open_files_limit",
        "query_cache_size",
        "query_cache_type",
        "read_buffer_size",
        "read_rnd_buffer_size",
        "skip_networking",
        "slow_query_log",
        "sort_buffer_size",
        "sql_mode",
        "super_read_only",
        "read_only",
        "transaction_isolation",
        "tx_isolation",
        "version_compile_machine",
        "version_compile_os",
    }
)
_PATH_SUFFIXES = (
    "_dir",
    "_directory",
    "_home_dir",
    "_directories",
    "_basename",
    "_index_file",
    "_filename",
    "_path",
)
"""Endings of variables that name paths, which differ in each cell by nature."""
_NOT_SETTINGS = frozenset({"innodb_buffer_pool_load_now", "innodb_buffer_pool_dump_now", "innodb_version"})

_PERFORMANCE_SCHEMA = "performance_schema"
_TABLES = {
    "statement_histograms": "events_statements_histogram_global",
    "digest_histograms": "events_statements_histogram_by_digest",
    "file_io_by_class": "file_summary_by_event_name",
    "waits_by_thread": "events_waits_summary_by_thread_by_event_name",
}
_INSTRUMENTS = {
    "data_file_io": "wait/io/file/innodb/innodb_data_file",
    "redo_log_io": "wait/io/file/innodb/innodb_log_file",
    "doublewrite_io": "wait/io/file/innodb/innodb_dblwr_file",
    "binlog_io": "wait/io/file/sql/binlog",
}
_FILE_INSTRUMENTS = (
    "SELECT name, enabled FROM performance_schema.setup_instruments WHERE name LIKE 'wait/io/file/%'"
)
_DENIED = ("1142 (42000)", "1044 (42000)")


@reads_answers("its settings")
def server_facts(query: Query) -> ServerFacts:
    """Query a running server for its facts. Raise what `query` raises."""
    variables = {str(name): str(value) for name, value in query("SHOW GLOBAL VARIABLES")}
    version = variables.get("version", "")
    return ServerFacts(
        flavor="mariadb" if "mariadb" in version.lower() else "mysql",
        version=version,
        version_comment=variables.get("version_comment", ""),
        variables={name: value for name, value in sorted(variables.items()) if _is_setting(name)},
        absent=_absent(query, variables),
    )


def _is_setting(name: str) -> bool:
    if name.endswith(_PATH_SUFFIXES) or name in _NOT_SETTINGS:
        return False
    return name in _NAMES or name.startswith(_PREFIXES)


def _absent(query: Query, variables: dict[str, str]) -> dict[str, str]:
    if variables.get(_PERFORMANCE_SCHEMA, "OFF") not in {"ON", "1"}:
        reason = "performance_schema is off"
        return {_PERFORMANCE_SCHEMA: reason} | dict.fromkeys((*_TABLES, *_INSTRUMENTS), reason)
    absent: dict[str, str] = {}
    tables = {
        str(name)
        for (name,) in query(
            "SELECT table_name FROM information_schema.tables WHERE table_schema='performance_schema'"
        )
    }
    try:
        instruments = {str(name): str(enabled) for name, enabled in query(_FILE_INSTRUMENTS)}
    except StepFailed as error:  # an account of an attached server may lack the right
        reason = "this account may not read performance_schema"
        if not any(code in error.evidence for code in _DENIED):
            raise
        return {_PERFORMANCE_SCHEMA: reason} | dict.fromkeys((*_TABLES, *_INSTRUMENTS), reason)
    for capability, table in _TABLES.items():
        if table not in tables:
            absent[capability] = f"this server has no performance_schema.{table}"
    for capability, instrument in _INSTRUMENTS.items():
        if instrument not in instruments:
            absent[capability] = f"this server has no instrument {instrument}"
        elif instruments[instrument] != "YES":
            absent[capability] = f"the instrument {instrument} is switched off"
    return absent
