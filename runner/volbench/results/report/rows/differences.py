"""Differences between volumes other than their names: settings, mount options, devices, kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from volbench.core.records.cell import CellResult
from volbench.core.records.facts import VolumeFacts
from volbench.results.report.rows.nodes import HOST_FACTS, host_name

ABSENT = "\N{EN DASH}"
_LOCATION_FACTS = {
    "path",
    "mount_point",
    "mount_source",
    "device_number",
    "free_bytes",
    "notes",
    "loop_backing_file",
    "claim",
    "claim_uid",
    "persistent_volume",
    "persistent_volume_uid",
    "foreign_pods",
    "class_driver",
    "class_parameters",
    "class_is_newer",
}
"""Facts about the location of a volume, which always differ and explain nothing."""
_PER_CELL_VARIABLES = (
    "datadir",
    "basedir",
    "socket",
    "port",
    "pid_file",
    "server_uuid",
    "hostname",
    "log_error",
    "timestamp",
    "general_log_file",
    "slow_query_log_file",
    "gtid_executed",
    "gtid_purged",
    "server_id",
    "pseudo_thread_id",
    "tmpdir",
    "report_host",
    "report_port",
    "mysqlx_socket",
    "log_bin_basename",
    "log_bin_index",
    "relay_log",
    "relay_log_basename",
    "relay_log_index",
    "relay_log_info_file",
    "secure_file_priv",
    "uptime",
)
"""Server variables that name a path or an instance: they differ between any two cells."""


def differing_settings(results: Iterable[CellResult], volume_of: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return setting or fact -> volume -> value, where volumes or the cells of one volume differ.

    Args:
        results: of all cells.
        volume_of: the volume of each cell id.

    Several values of one volume are joined by " | " in order of appearance. Keys start with `server.`, `volume.`
    or `host.`.
    """
    values_by_setting: dict[str, dict[str, list[str]]] = {}
    volumes: dict[str, int] = {}
    for result in results:
        volume = volume_of[result.cell_id]
        volumes[volume] = volumes.get(volume, 0) + 1
        for name, value in _facts(result):
            values = values_by_setting.setdefault(name, {}).setdefault(volume, [])
            if value not in values:
                values.append(value)
    return {
        name: {volume: " | ".join(by_volume.get(volume, [ABSENT])) for volume in volumes}
        for name, by_volume in sorted(values_by_setting.items())
        if len({tuple(by_volume.get(volume, [ABSENT])) for volume in volumes}) > 1
        or any(len(values) > 1 for values in by_volume.values())
    }


def _facts(result: CellResult) -> Iterator[tuple[str, str]]:
    for name in VolumeFacts.model_fields:
        value = getattr(result.volume_facts, name)
        if name not in _LOCATION_FACTS and value is not None:
            yield f"volume.{name}", _text(value)
    if result.server is not None:
        yield "server.version", f"{result.server.flavor} {result.server.version}"
        for name, text in result.server.variables.items():
            if name not in _PER_CELL_VARIABLES:
                yield f"server.{name}", text
    for name in (*HOST_FACTS, "cpus", "memory_bytes"):
        value = host_name(result.host) if name == "hostname" else getattr(result.host, name)
        if value is not None:
            yield f"host.{name}", _text(value)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value) or ABSENT
    if isinstance(value, dict):
        return " ".join(f"{name}={item}" for name, item in sorted(value.items())) or ABSENT
    return str(value)
