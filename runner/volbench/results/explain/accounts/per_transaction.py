"""What one transaction costs over a step: operations, bytes, syncs and CPU time, after Mark Callaghan's reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from volbench.core.records.named_metrics import CPU, Client, Innodb
from volbench.results.explain.case import Case
from volbench.results.stats.grid import Floats

TITLES = {
    "device_reads": "reads of the volume",
    "device_writes": "writes of the volume",
    "device_read_kib": "KiB read from the volume",
    "device_written_kib": "KiB written to the volume",
    "reads": "reads of data files",
    "writes": "writes of data files",
    "fsyncs": "fsyncs",
    "read_kib": "KiB read by InnoDB",
    "written_kib": "KiB written by InnoDB",
    "cpu_ms": "CPU of the host, ms",
    "statement_cpu_ms": "CPU of statements, ms",
    "context_switches": "context switches",
}
"""Of each value, in order. The host's CPU time and context switches count all that runs there."""


@dataclass(frozen=True, kw_only=True)
class PerTransaction:
    """What one transaction costs, over a whole step; a key is left out when it is not known."""

    values: Mapping[str, tuple[float, str]]


def per_transaction(case: Case) -> PerTransaction:
    """Sums over the seconds in which both sides are known, divided by the transactions of these."""
    tps = case.at(Client.tps)
    if tps is None or not np.nansum(tps) > 0:
        return PerTransaction(values={})
    values: dict[str, tuple[float, str]] = {}
    for name, (column, scale, unit) in _columns(case).items():
        if column is not None:
            both = np.isfinite(column) & np.isfinite(tps)
            count = float(tps[both].sum())
            if count > 0:
                values[name] = (float(column[both].sum()) * scale / count, unit)
    return PerTransaction(values={name: values[name] for name in TITLES if name in values})


def _columns(case: Case) -> dict[str, tuple[Floats | None, float, str]]:
    grid, device = case.grid, case.device
    return {
        "device_reads": (None if device is None else device.reads, 1, "1"),
        "device_writes": (None if device is None else device.writes, 1, "1"),
        "device_read_kib": (None if device is None else device.read_mib_per_s, 1024, "KiB"),
        "device_written_kib": (None if device is None else device.write_mib_per_s, 1024, "KiB"),
        "reads": (grid.column(*Innodb.data_reads_per_s), 1, "1"),
        "writes": (grid.column(*Innodb.data_writes_per_s), 1, "1"),
        "fsyncs": (grid.column(*Innodb.data_fsyncs_per_s), 1, "1"),
        "read_kib": (grid.column(*Innodb.data_read_mib_per_s), 1024, "KiB"),
        "written_kib": (grid.column(*Innodb.data_written_mib_per_s), 1024, "KiB"),
        "cpu_ms": (case.cpu_s_per_s, 1000, "ms"),
        "statement_cpu_ms": (case.statement_cpu_s_per_s, 1000, "ms"),
        "context_switches": (grid.column(*CPU.context_switches_per_s), 1, "1"),
    }
