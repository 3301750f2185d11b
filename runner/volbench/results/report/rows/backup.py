"""Backups during a load: their effect on queries, their duration, and the window that they need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from volbench.core.records.cell import CellResult, StepResult, is_beyond
from volbench.core.records.report import BackupRow
from volbench.core.records.run import ResolvedSuite
from volbench.core.records.steps.dump import DumpStep
from volbench.core.records.steps.oltp import OltpStep
from volbench.core.records.steps.snapshot import SnapshotStep
from volbench.results.report.rows.few_transactions import P95, SLOWEST, stated_metrics, transactions

SPARE = 1.5
"""The recommended window is the slowest backup of all cells times this: nights differ more than the cells of a test
do, and a volume without burst credits is slower still."""
ROUND_S = 60.0


def backup_rows(
    suite: ResolvedSuite, results: Sequence[CellResult], volume_of: dict[str, str], volumes: Sequence[str]
) -> tuple[BackupRow, ...]:
    """Return one row for each volume and each backup that ran during a load; of valid steps only."""
    rows = []
    for volume in volumes:
        cells = [result for result in results if volume_of[result.cell_id] == volume and result.status == "done"]
        for load in suite.steps:
            if isinstance(load, OltpStep):
                for number, dump in enumerate(load.concurrent, start=1):
                    if not isinstance(dump, DumpStep | SnapshotStep):
                        continue
                    suffix = f"beside-{number}-{dump.tool}" if len(load.concurrent) > 1 else f"beside-{dump.tool}"
                    row = _row(suite, volume, cells, load, dump, f"{load.name}/{suffix}")
                    rows += [row] if row is not None else []
    return tuple(rows)


def _row(
    suite: ResolvedSuite,
    volume: str,
    cells: Sequence[CellResult],
    load: OltpStep,
    dump: DumpStep | SnapshotStep,
    name: str,
) -> BackupRow | None:
    durations_s = _values(cells, name, "dump_s" if isinstance(dump, DumpStep) else "snapshot_ready_s")
    if not durations_s:
        return None
    alone = _load_without(suite, load)
    if not _values(cells, alone, "tps"):
        alone = f"{load.name}/alone"  # second best: the queue that the backup left drains in it
    during = f"{load.name}/during"
    few = _few(cells, during)
    return BackupRow(
        volume=volume,
        step=load.name,
        tool=dump.tool,
        cells=len(durations_s),
        dump_s=median(durations_s),
        dump_s_max=max(durations_s),
        dump_mib_per_s=_median(cells, name, "dump_mib_per_s"),
        latency_ms_p95_alone=_median(cells, alone, "latency_ms_p95"),
        latency_ms_p95_during=_median(cells, during, "latency_ms_p95"),
        latency_ms_max_during=few[1] if few else None,
        transactions_during=few[0] if few else None,
        tps_alone=_median(cells, alone, "tps"),
        tps_during=_median(cells, during, "tps"),
        stalled_s_during=_median(cells, during, "stalled_s"),
        window_s=dump.window_s,
        fits=None if dump.window_s is None else max(durations_s) <= dump.window_s,
        recommended_window_s=math.ceil(max(durations_s) * SPARE / ROUND_S) * ROUND_S,
    )


def _load_without(suite: ResolvedSuite, load: OltpStep) -> str:
    """Return the name of a step with the same load and no concurrent step; empty without one."""

    def load_of(step: OltpStep) -> tuple[object, ...]:
        return step.test, step.threads, step.rate, step.rand_type, step.options

    candidates = (step for step in suite.steps if isinstance(step, OltpStep) and not step.concurrent)
    return next((step.name for step in candidates if load_of(step) == load_of(load)), "")


def _few(cells: Sequence[CellResult], name: str) -> tuple[int, float] | None:
    """Return the transactions of all cells, and the slowest, where they are too few for p95 in each cell."""
    steps = [step for cell in cells for step in cell.steps if step.step == name and step.valid]
    counts = [transactions(step) for step in steps]
    slowest = [step.metrics[SLOWEST].value for step in steps if SLOWEST in step.metrics]
    if not slowest or None in counts or any(P95 in stated_metrics(step) for step in steps):
        return None
    return sum(count or 0 for count in counts), max(slowest)


def _values(cells: Sequence[CellResult], name: str, metric: str) -> list[float]:
    steps: list[StepResult] = [step for cell in cells for step in cell.steps if step.step == name and step.valid]
    values = [stated[metric].value for stated in map(stated_metrics, steps) if metric in stated]
    return [*values, *(math.inf for step in steps if is_beyond(metric, step.metrics, step.notes))]


def _median(cells: Sequence[CellResult], name: str, metric: str) -> float | None:
    values = _values(cells, name, metric)
    return median(values) if values and math.isfinite(median(values)) else None
