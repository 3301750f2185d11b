"""Cells of one run, or of one attached server, must have run the same server, with the same settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from volbench.core.records.cell import CellResult
from volbench.core.records.facts import ServerFacts

MUST_BE_EQUAL = (
    "version",
    "innodb_flush_log_at_trx_commit",
    "sync_binlog",
    "log_bin",
    "innodb_doublewrite",
    "innodb_flush_method",
    "innodb_use_fdatasync",
    "innodb_buffer_pool_size",
    "innodb_page_size",
    "innodb_redo_log_capacity",
    "innodb_log_file_size",
    "innodb_io_capacity",
    "innodb_io_capacity_max",
    "innodb_checksum_algorithm",
    "innodb_file_per_table",
    "transaction_isolation",
    "tx_isolation",
    "innodb_read_io_threads",
    "innodb_write_io_threads",
    "innodb_use_native_aio",
    "binlog_format",
)
"""Server variables that change what a volume is asked for, or what a commit promises."""


def odd_settings(results: Iterable[CellResult]) -> Mapping[str, tuple[str, ...]]:
    """For each cell whose settings are not those of most cells: a reason for each such setting.

    A variable that a server does not have counts as a value of its own. Where there is no majority, the value of
    the earlier cells is taken for it.
    """
    settings = {result.cell_id: _of(result.server) for result in results if result.server is not None}
    usual = {
        name: Counter(values[name] for values in settings.values()).most_common(1)[0][0]
        for name in (MUST_BE_EQUAL if settings else ())
    }
    return {
        cell_id: reasons
        for cell_id, values in settings.items()
        if (
            reasons := tuple(
                f"engine settings differ: {name} is {value}, in the other cells {usual[name]}"
                for name, value in values.items()
                if value != usual[name]
            )
        )
    }


def server_differences(results: Iterable[CellResult], volume_of: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return setting -> value by server, for each setting in which the servers of a run differ.

    Args:
        volume_of: cell -> the name of its server. Of a server, the first cell counts.
    """
    servers: dict[str, dict[str, str]] = {}
    for result in results:
        if result.server is not None:
            servers.setdefault(volume_of[result.cell_id], _of(result.server))
    values = {name: {server: servers[server][name] for server in servers} for name in MUST_BE_EQUAL}
    return {name: by_server for name, by_server in values.items() if len(set(by_server.values())) > 1}


def _of(server: ServerFacts) -> dict[str, str]:
    variables = {name: server.variables.get(name, "absent") for name in MUST_BE_EQUAL[1:]}
    return {"version": server.version, **variables}
