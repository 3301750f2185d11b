"""The load of an observation as evidence for a recommendation: its operations and its statements."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from volbench.core.base.text import counted
from volbench.core.records.named_metrics import Client
from volbench.errors import Undecided
from volbench.observe.report import ObservationReport, report_of
from volbench.results.credits.history import History
from volbench.results.credits.work import from_points
from volbench.results.explain.evidence.device import Device
from volbench.results.recommend.lateness import PERIOD_S
from volbench.results.recommend.recorded_load import ObservedStatements, RecordedLoad
from volbench.results.stats.grid import Floats, mean

_MIB = 2.0**20


def recorded_load(directory: Path) -> RecordedLoad:
    """Return an observation as a recorded load. Raises RunUnreadable, or Undecided without counts of a volume."""
    report = report_of(directory)
    device = report.case.device
    if device is None or device.reads is None or device.writes is None:
        raise Undecided(
            "the observation has no operations of a volume",
            where=str(directory),
            evidence="; ".join(f"{name}: {reason}" for name, reason in report.sources.items())[:300],
            next_step="observe on the server's own host, or give CloudWatch's JSON of its volume",
        )
    grid = report.case.grid
    work = from_points(
        t_s=grid.t_s,
        reads_per_s=device.reads,
        writes_per_s=device.writes,
        read_bytes_per_s=_bytes(device.read_mib_per_s),
        write_bytes_per_s=_bytes(device.write_mib_per_s),
        interval_s=grid.width_s,
        where=str(directory),
    )
    return RecordedLoad(
        name=report.observation.server_address,
        history=History(
            work=work, text=f"observation {directory.name}, {counted(len(grid), 'interval')} of {grid.width_s:g} s"
        ),
        source="observe",
        statements=_statements(report, device),
        more_notes=report.notes,
    )


def _bytes(mib_per_s: Floats | None) -> Floats | None:
    return None if mib_per_s is None else mib_per_s * _MIB


def _statements(report: ObservationReport, device: Device) -> ObservedStatements | None:
    """Return p95 of statements in the worst hour, and what operations took; None without times of statements."""
    p95_ms = report.case.at(Client.latency_ms_p95)
    if p95_ms is None or not np.isfinite(p95_ms).any():
        return None
    period = (report.case.grid.t_s // PERIOD_S).astype(np.int64)
    hours = [p95_ms[(period == hour) & np.isfinite(p95_ms)] for hour in np.unique(period)]
    return ObservedStatements(
        p95_s=max(float(np.median(hour)) for hour in hours if len(hour)) / 1000,
        read_s=_seconds(device.r_await_ms),
        write_s=_seconds(device.w_await_ms),
    )


def _seconds(await_ms: Floats | None) -> float | None:
    value = None if await_ms is None else mean(await_ms)
    return value / 1000 if value else None
