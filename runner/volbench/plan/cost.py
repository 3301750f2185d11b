"""Estimates of a plan's time and space."""

from __future__ import annotations

from dataclasses import dataclass

from volbench.records.cell import DatasetSpec
from volbench.records.run import ResolvedSuite, RunRecord
from volbench.records.steps import (
    ColdReadStep,
    CrashStep,
    DdlPhase,
    DdlStep,
    DumpStep,
    FioStep,
    IdleStep,
    OltpStep,
    ReplayStep,
    RestoreStep,
    SequentialStep,
    SmallFilesStep,
    Step,
)

ROW_BYTES = 235
"""A sysbench row in InnoDB with its secondary index: 1,000,000 rows are about 235 MB (measured on MySQL 9.7)."""
SERVER_FILES_BYTES = 400 * 2**20
"""System tablespaces, redo, doublewrite and binary log, without the tables."""
CELL_OVERHEAD_S = 10.0
"""Copying a small template, starting and stopping the server."""
ASSUMED_DUMP_MIB_PER_S = 60.0
ASSUMED_RESTORE_MIB_PER_S = 15.0
ASSUMED_READ_MIB_PER_S = 100.0
ASSUMED_WRITE_MIB_PER_S = 100.0
ASSUMED_FILE_S = 0.003
"""One small file made, read or removed: a few trips to a network file system, next to nothing on a local disk."""
ASSUMED_DDL_S = 0.05
"""One statement that makes, changes or drops a table's file, with all its syncs."""
TABLE_FILE_BYTES = 160 * 2**10
"""An empty table's file (112 KiB on MySQL 9.7), and a second one while an ALTER copies it."""
RECOVERY_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Estimates. `measured_s` is time inside steps' windows; spaces are for one cell, freed after it."""

    cells: int
    wall_s: float
    measured_s: float
    template_bytes: int
    volume_bytes: int


def replacements_max(run: RunRecord) -> int:
    """Return how many cells may be repeated because other work made them invalid."""
    return int(run.suite.replacements * len(run.cells))


def dataset_bytes(dataset: DatasetSpec) -> int:
    """About how large the tables are on disk."""
    if dataset.is_own:
        return dataset.size_bytes
    return dataset.tables * (dataset.rows * ROW_BYTES + 2**17)


def estimate(suite: ResolvedSuite, *, volumes: int) -> Cost:
    """The cost of running a suite on that many volumes, each cell after the other."""
    data = dataset_bytes(suite.dataset)
    mib = data / 2**20
    step_s = sum(_step_s(step, mib) for step in suite.steps)
    warmup_s = sum(_unmeasured_s(step) for step in suite.steps)
    cells = volumes * suite.repeats
    copies = 1 + sum(isinstance(step, DumpStep | RestoreStep) for step in suite.steps)
    return Cost(
        cells=cells,
        wall_s=cells * (step_s + warmup_s + CELL_OVERHEAD_S + mib / 400),
        measured_s=cells * step_s,
        template_bytes=data + SERVER_FILES_BYTES,
        volume_bytes=copies * data + SERVER_FILES_BYTES + max(map(step_bytes, suite.steps), default=0),
    )


def step_bytes(step: Step) -> int:
    """Return a step's largest temporary use of the volume in bytes, without the data and dumps."""
    match step:
        case SmallFilesStep():
            trees = 1 + sum(phase in ("copy", "objects") for phase in step.phases)
            return trees * tree_bytes(step)
        case DdlStep():
            return step.tables * TABLE_FILE_BYTES
        case FioStep():
            return step.size_bytes
        case SequentialStep():
            return max(step.size_bytes)
        case _:
            return 0


def tree_bytes(step: SmallFilesStep) -> int:
    """Return the bytes of a small_files step's tree: each file at least a block of 4 KiB, and its name."""
    if step.sizes_bytes:
        rounds, remainder = divmod(step.files, len(step.sizes_bytes))
        content = rounds * sum(step.sizes_bytes) + sum(step.sizes_bytes[:remainder])
    else:
        content = step.total_size_bytes
    return content + step.files * 4608


def ddl_statements(step: DdlStep, phase: DdlPhase) -> int:
    """Return the number of operations in a phase of a ddl step."""
    match phase:
        case "alter_inplace" | "alter_copy":
            return min(step.altered, step.tables)
        case "temporary":
            return step.temporary
        case "binlog_rotation":
            return step.rotations
        case _:
            return step.tables


def fio_points(step: FioStep) -> int:
    """Return the number of combinations that a fio step measures."""
    return len(step.rw) * len(step.block_size_bytes) * len(step.iodepth) * len(step.numjobs)


def _unmeasured_s(step: Step) -> float:
    match step:
        case OltpStep() | ReplayStep():
            return step.warmup_s
        case FioStep():
            fill_s = step.size_bytes / 2**20 / ASSUMED_WRITE_MIB_PER_S if step.prefill else 0.0
            return fill_s + fio_points(step) * step.ramp_s + (CELL_OVERHEAD_S if step.server == "stopped" else 0.0)
        case _:
            return 0.0


def _step_s(step: Step, mib: float) -> float:  # noqa: PLR0911 - one for each kind
    match step:
        case OltpStep() | IdleStep() | ReplayStep():
            return step.duration_s
        case DumpStep():
            return mib / ASSUMED_DUMP_MIB_PER_S
        case RestoreStep():
            return mib / ASSUMED_RESTORE_MIB_PER_S
        case CrashStep():
            return step.cuts * (step.after_s + RECOVERY_S) + int(step.check_tables) * mib / ASSUMED_READ_MIB_PER_S
        case ColdReadStep():
            return (int(step.files) * 2 + int(step.table_scan)) * mib / ASSUMED_READ_MIB_PER_S
        case SmallFilesStep():
            content_s = tree_bytes(step) / 2**20 / ASSUMED_WRITE_MIB_PER_S
            return len(step.phases) * (step.files * ASSUMED_FILE_S / step.jobs + content_s)
        case DdlStep():
            return sum(ddl_statements(step, phase) for phase in step.phases) * ASSUMED_DDL_S / step.threads
        case FioStep():
            return fio_points(step) * step.duration_s
        case SequentialStep():
            return len(step.modes) * sum(step.size_bytes) / 2**20 / ASSUMED_WRITE_MIB_PER_S
