"""What differs between volumes and is not their name: settings, mount options, devices, kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from volbench.records.cell import CellResult
from volbench.records.facts import VolumeFacts
from volbench.report.nodes import HOST_FACTS, host_name

ABSENT = "\N{EN DASH}"
_OF_THE_PLACE = {"path", "mount_point", "mount_source", "device_number", "free_bytes", "notes", "loop_backing_file",
                 "claim", "claim_uid", "persistent_volume", "persistent_volume_uid"}  # fmt: skip
"""Facts that say where a volume is, which always differs and explains nothing."""
_OF_THE_CELL = (
    "datadir", "basedir", "socket", "port", "pid_file", "server_uuid", "hostname", "log_error", "timestamp",
    "general_log_file", "slow_query_log_file", "gtid_executed", "gtid_purged", "server_id", "pseudo_thread_id",
    "tmpdir", "report_host", "report_port", "mysqlx_socket", "log_bin_basename", "log_bin_index",
    "relay_log", "relay_log_basename", "relay_log_index", "relay_log_info_file", "secure_file_priv", "uptime",
)  # fmt: skip
"""Server variables that name a place or an instance: they differ between any two cells."""


def differing_settings(results: Iterable[CellResult], volume_of: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Setting or fact -> volume -> value, for those in which volumes or the cells of one volume differ.

    Args:
        results: of all cells.
        volume_of: the volume of each cell id.

    Several values of one volume are joined by " | " in order of appearance. Keys start with what they are about:
    `server.`, `volume.`, `host.`.
    """
    found: dict[str, dict[str, list[str]]] = {}
    seen: dict[str, int] = {}
    for result in results:
        volume = volume_of[result.cell_id]
        seen[volume] = seen.get(volume, 0) + 1
        for name, value in _facts(result):
            values = found.setdefault(name, {}).setdefault(volume, [])
            if value not in values:
                values.append(value)
    return {
        name: {volume: " | ".join(by_volume.get(volume, [ABSENT])) for volume in seen}
        for name, by_volume in sorted(found.items())
        if len({tuple(by_volume.get(volume, [ABSENT])) for volume in seen}) > 1
        or any(len(values) > 1 for values in by_volume.values())
    }


def _facts(result: CellResult) -> Iterator[tuple[str, str]]:
    for name in VolumeFacts.model_fields:
        value = getattr(result.volume_facts, name)
        if name not in _OF_THE_PLACE and value is not None:
            yield f"volume.{name}", _text(value)
    if result.server is not None:
        yield "server.version", f"{result.server.flavor} {result.server.version}"
        for name, text in result.server.variables.items():
            if name not in _OF_THE_CELL:
                yield f"server.{name}", text
    for name in (*HOST_FACTS, "cpus", "memory_bytes"):
        value = host_name(result.host) if name == "hostname" else getattr(result.host, name)
        if value is not None:
            yield f"host.{name}", _text(value)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(str(part) for part in value) or ABSENT
    if isinstance(value, dict):
        return " ".join(f"{name}={part}" for name, part in sorted(value.items())) or ABSENT
    return str(value)
