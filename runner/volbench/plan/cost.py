"""What a plan costs: estimates of time and space, said as estimates."""

from __future__ import annotations

from dataclasses import dataclass

from volbench.records.cell import DatasetSpec
from volbench.records.run import ResolvedSuite
from volbench.records.steps import ColdReadStep, DumpStep, IdleStep, OltpStep, RestoreStep, Step

ROW_BYTES = 235
"""A sysbench row in InnoDB with its secondary index: 1,000,000 rows are about 235 MB (measured on MySQL 9.7)."""
SERVER_FILES_BYTES = 400 * 2**20
"""System tablespaces, redo, doublewrite and binary log beside the tables."""
CELL_OVERHEAD_S = 10.0
"""Copying a small template, starting and stopping the server."""
ASSUMED_DUMP_MIB_PER_S = 60.0
ASSUMED_RESTORE_MIB_PER_S = 15.0
ASSUMED_READ_MIB_PER_S = 100.0


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Estimates. `measured_s` is time inside steps' windows; spaces are for one cell, freed after it."""

    cells: int
    wall_s: float
    measured_s: float
    template_bytes: int
    volume_bytes: int


def dataset_bytes(dataset: DatasetSpec) -> int:
    """About how large the tables are on disk."""
    return dataset.tables * (dataset.rows * ROW_BYTES + 2**17)


def estimate(suite: ResolvedSuite, *, volumes: int) -> Cost:
    """The cost of running a suite on that many volumes, each cell after the other."""
    data = dataset_bytes(suite.dataset)
    mib = data / 2**20
    step_s = sum(_step_s(step, mib) for step in suite.steps)
    warmup_s = sum(step.warmup_s for step in suite.steps if isinstance(step, OltpStep))
    cells = volumes * suite.repeats
    copies = 1 + sum(isinstance(step, DumpStep | RestoreStep) for step in suite.steps)
    return Cost(
        cells=cells,
        wall_s=cells * (step_s + warmup_s + CELL_OVERHEAD_S + mib / 400),
        measured_s=cells * step_s,
        template_bytes=data + SERVER_FILES_BYTES,
        volume_bytes=copies * data + SERVER_FILES_BYTES,
    )


def _step_s(step: Step, mib: float) -> float:
    match step:
        case OltpStep() | IdleStep():
            return step.duration_s
        case DumpStep():
            return mib / ASSUMED_DUMP_MIB_PER_S
        case RestoreStep():
            return mib / ASSUMED_RESTORE_MIB_PER_S
        case ColdReadStep():
            return (int(step.files) * 2 + int(step.table_scan)) * mib / ASSUMED_READ_MIB_PER_S
