"""The user's own files that a cell reads: scripts, dumps, logs."""

from __future__ import annotations

from pathlib import Path

from volbench.records.cell import CellSpec
from volbench.records.steps.oltp import OltpStep
from volbench.records.steps.replay import ReplayStep


def own_files(cell: CellSpec) -> list[Path]:
    """Return the absolute paths of the user's files and directories that the cell's agent reads."""
    texts = [cell.dataset.path, *(step.script for step in cell.steps if isinstance(step, OltpStep))]
    texts += [step.log for step in cell.steps if isinstance(step, ReplayStep)]
    return [Path(text) for text in dict.fromkeys(texts) if text]


def own_directories(cell: CellSpec) -> list[Path]:
    """Return the directories that have these files: a script's modules are beside it."""
    return list(dict.fromkeys(path if path.is_dir() else path.parent for path in own_files(cell)))
