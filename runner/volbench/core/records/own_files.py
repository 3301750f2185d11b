"""The user's own files that a cell reads: scripts, dumps, logs; and where its own dumps are written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from volbench.core.records.cell import CellSpec
from volbench.core.records.steps import Step
from volbench.core.records.steps.dump import DumpStep
from volbench.core.records.steps.oltp import OltpStep, all_steps
from volbench.core.records.steps.replay import ReplayStep
from volbench.core.records.steps.snapshot import SnapshotStep


def own_files(cell: CellSpec) -> list[Path]:
    """Return the absolute paths of the user's files and directories that the cell's agent reads."""
    texts = [cell.dataset.path, *(step.script for step in cell.steps if isinstance(step, OltpStep))]
    texts += [step.log for step in cell.steps if isinstance(step, ReplayStep)]
    return [Path(text) for text in dict.fromkeys(texts) if text]


def own_directories(cell: CellSpec) -> list[Path]:
    """Return the directories that have these files: a script's modules are beside it."""
    return list(dict.fromkeys(path if path.is_dir() else path.parent for path in own_files(cell)))


def dump_steps(steps: Iterable[Step]) -> list[DumpStep]:
    """Return the backups, those that run concurrently with a load too."""
    return [step for step in all_steps(steps) if isinstance(step, DumpStep)]


def snapshot_steps(steps: Iterable[Step]) -> list[SnapshotStep]:
    """Return the backups by the snapshot API of a cluster, those that run concurrently with a load too."""
    return [step for step in all_steps(steps) if isinstance(step, SnapshotStep)]


def dump_parents(steps: Iterable[Step]) -> list[Path]:
    """Return the directories of other volumes that steps dump to."""
    return [Path(text) for text in dict.fromkeys(step.directory for step in dump_steps(steps) if step.directory)]


def dump_folder(cell: CellSpec) -> str:
    """Return the name of the directory that a cell has for its dumps on other volumes, and in a bucket."""
    return f"volbench-{cell.run_id.rsplit('-', 1)[-1]}-{cell.cell_id}"


def dump_directories(cell: CellSpec) -> list[Path]:
    """Return the cell's own directories on other volumes, which exist while the cell does."""
    return [parent / dump_folder(cell) for parent in dump_parents(cell.steps)]
