"""The cold_read step: reads without caches, of files first, then of tables after a cold start."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any

from volbench.core.base.text import percent
from volbench.core.base.units import MIB
from volbench.core.records.base import Scalar
from volbench.core.records.metrics import MetricValue, metric
from volbench.core.records.steps.cold_read import KIND, ColdReadStep
from volbench.errors import MissingPrerequisite, StepFailed
from volbench.machine.volume.coldness import Coldness
from volbench.measure.workload.cold.cold_files import (
    ColdFiles,
    cold_details,
    difference,
    label_of,
    make_cold,
    why_not_cold,
)
from volbench.measure.workload.cold.file_reader import FileRead, cat_files, read_files
from volbench.measure.workload.cold.table_scan import ScanResult, scan_cold
from volbench.measure.workload.files import CpuMeter
from volbench.measure.workload.interface import StepContext, StepOutcome, Workload
from volbench.measure.workload.schema_data import table_names

COLD_START: dict[str, Scalar] = {"innodb_buffer_pool_load_at_startup": "OFF"}
"""Otherwise the server warms its buffer pool from the list of pages of its last shutdown."""
SERVER_READ_SHARE_MIN = 0.7
"""Smallest read share of the clustered indexes' size, which includes reserved pages that are unused yet."""


@dataclass(kw_only=True)
class _Findings:
    """Collects the results of both parts of the step."""

    metrics: dict[str, MetricValue] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    invalid_reasons: list[str] = field(default_factory=list)

    def add(self, values: dict[str, float]) -> None:
        self.metrics |= {name: metric(name, value) for name, value in values.items()}

    def judge(self, label: Coldness, *, subject: str) -> None:
        self.notes.append(f"{subject}: {label.label} ({label.reason})")
        self.invalid_reasons += why_not_cold(label, subject=subject)


class ColdRead(Workload[ColdReadStep]):
    """Reads the schema's files, and its tables after a restart."""

    kind = "cold_read"

    def check(self, step: ColdReadStep, ctx: StepContext) -> None:
        """Check that volbench may restart the server and sees its files. Raise MissingPrerequisite."""
        ctx.server.own(KIND.own_server, where=f"step {step.name}")
        directory = ctx.server.data_dir / ctx.dataset.schema_name
        if not directory.is_dir():
            raise MissingPrerequisite(
                "the schema's files cannot be seen from here",
                where=f"step {step.name}",
                evidence=f"there is no directory {directory}",
                next_step="a cold read needs a server whose data directory the agent can read",
            )

    def run(self, step: ColdReadStep, ctx: StepContext) -> StepOutcome:
        """Run both parts; the server runs again afterwards. Raise StepFailed."""
        findings = _Findings()
        tables = table_names(ctx.server, ctx.dataset.schema_name)
        begun_s = ctx.clock.now_s()
        ended_s = begun_s
        ctx.progress("stopping the server", None)
        ctx.server.stop()
        try:
            if step.files:
                begun_s, ended_s = _read_cold(step, ctx, findings)
            if step.table_scan:
                scanned_from_s, ended_s = _scan_cold(step, ctx, tables, findings)
                begun_s = begun_s if step.files else scanned_from_s
        finally:
            if not ctx.server.alive():
                ctx.server.start()
        return StepOutcome(
            window_s=(begun_s, ended_s),
            metrics=findings.metrics,
            notes=tuple(findings.notes),
            details=findings.details,
            invalid_reasons=tuple(findings.invalid_reasons),
        )


def _read_cold(step: ColdReadStep, ctx: StepContext, findings: _Findings) -> tuple[float, float]:
    """Read the schema's files cold, and warm if the step says so; return the window of the cold read.

    MiB/s count stored bytes: allocated space that was never written reads as zeros without the device.
    """
    directory = ctx.server.data_dir / ctx.dataset.schema_name
    ctx.progress("evicting the schema's files", None)
    cold = make_cold(directory)
    size_bytes, stored = cold.size_bytes, cold.stored_bytes
    device_before = ctx.device_read_bytes()
    cpu = CpuMeter()
    begun_s, reads, ended_s = _timed_read(step, ctx, cold, "reading files, cold")
    findings.add(cpu.metrics())
    device_bytes = difference(device_before, ctx.device_read_bytes())
    seconds = ended_s - begun_s
    findings.add(
        {
            "cold_read_s": seconds,
            "cold_read_mib_per_s": stored / MIB / seconds,
            "cold_read_files_per_s": len(cold.paths) / seconds,
        }
    )
    label = label_of(cold, ctx.volume_facts, read_bytes=stored, device_bytes=device_bytes)
    findings.judge(label, subject="reading files")
    findings.details["files"] = {
        **cold_details(cold, label, read_bytes=stored, device_bytes=device_bytes, relative_to=ctx.server.data_dir),
        "size_bytes": size_bytes,
        "slowest_file_s": max((read.seconds for read in reads), default=None),
    }
    if step.warm_read:
        warm_from_s, _, warm_until_s = _timed_read(step, ctx, cold, "reading files, warm")
        findings.add({"warm_read_mib_per_s": stored / MIB / (warm_until_s - warm_from_s)})
    return begun_s, ended_s


def _timed_read(
    step: ColdReadStep, ctx: StepContext, cold: ColdFiles, text: str
) -> tuple[float, tuple[FileRead, ...], float]:
    """Read all files once; times of single files are known only without cat."""
    expected = max(1, cold.size_bytes)
    begun_s = ctx.clock.now_s()
    try:
        if step.reader == "cat":
            ctx.progress(text, None)
            cat_files(cold.paths, timeout_s=step.timeout_s, cancelled=ctx.cancelled, cwd=ctx.scratch_dir)
            return begun_s, (), ctx.clock.now_s()
        reads = read_files(
            cold.paths,
            readers=step.readers,
            block_size_bytes=step.block_size_bytes,
            timeout_s=step.timeout_s,
            cancelled=ctx.cancelled,
            on_progress=lambda read_bytes: ctx.progress(text, min(0.99, read_bytes / expected)),
        )
    except OSError as error:
        raise StepFailed(
            "a file of the schema cannot be read", where=f"step {step.name}", evidence=str(error)
        ) from error
    return begun_s, tuple(reads), ctx.clock.now_s()


def _scan_cold(step: ColdReadStep, ctx: StepContext, tables: list[str], findings: _Findings) -> tuple[float, float]:
    """Start the server on cold files, read one row, read every table in full; return the window of all three."""
    ctx.progress("evicting the data directory's files", None)
    cold = make_cold(ctx.server.data_dir)
    begun_s = ctx.clock.now_s()
    ctx.progress("starting the server, cold", None)
    start_s = ctx.server.start(COLD_START)
    scan: ScanResult = scan_cold(
        ctx,
        tables,
        first_row=random.Random(ctx.seed).randint(1, ctx.dataset.rows),
        until_monotonic_s=time.monotonic() + step.timeout_s,
    )
    findings.add(
        {
            "server_start_s": start_s,
            "first_query_ms": scan.first_query_ms,
            "table_scan_s": scan.seconds,
            "table_scan_mib_per_s": scan.data_bytes / MIB / scan.seconds,
        }
    )
    read_bytes = scan.data_bytes if scan.server_read_bytes is None else scan.server_read_bytes
    label = label_of(cold, ctx.volume_facts, read_bytes=read_bytes, device_bytes=scan.device_bytes)
    findings.judge(label, subject="table scan")
    if read_bytes < scan.data_bytes * SERVER_READ_SHARE_MIN:
        findings.invalid_reasons.append(
            f"the server read only {percent(read_bytes / scan.data_bytes)} of the tables' data: the rest was cached"
        )
    findings.details["table_scan"] = {
        **cold_details(
            cold, label, read_bytes=read_bytes, device_bytes=scan.device_bytes, relative_to=ctx.server.data_dir
        ),
        "data_bytes": scan.data_bytes,
        "tables": len(tables),
        "statement": scan.statement,
    }
    return begun_s, ctx.clock.now_s()
