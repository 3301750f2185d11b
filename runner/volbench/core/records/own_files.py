"""The user's own files that a cell reads: scripts, dumps, logs; and where its own dumps are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from volbench.core.records.cell import CellSpec
from volbench.core.records.steps import Step
from volbench.core.records.steps.dump import DumpStep
from volbench.core.records.steps.modify import ModifyStep
from volbench.core.records.steps.oltp import OltpStep, all_steps
from volbench.core.records.steps.replay import ReplayStep
from volbench.core.records.steps.snapshot import SnapshotStep

CLAIM_PREFIX = "pvc:"
"""Of a dataset's path that lies on a claim of a cluster: `pvc:CLAIM/PATH`."""
_LUA_FILES_MAX = 200


def is_on_claim(path: str) -> bool:
    """Return whether a dataset's path lies on a claim of a cluster, and not on this machine."""
    return path.startswith(CLAIM_PREFIX)


def file_key(step: Step) -> str:
    """Return the key of a step that names a file of the user; empty for any step that names none."""
    if isinstance(step, ReplayStep):
        return "log"
    return "test" if isinstance(step, OltpStep) and step.script else ""


def own_files(cell: CellSpec, *, with_dataset: bool = True) -> list[Path]:
    """Return the absolute paths of the user's files and directories that the cell's agent reads.

    Args:
        with_dataset: also what the dataset is loaded from, which is there before a cell is measured.
    """
    texts = [
        cell.dataset.path if with_dataset else "",
        *(getattr(step, key) for step in cell.steps if (key := file_key(step))),
    ]
    return [Path(text) for text in dict.fromkeys(texts) if text and not is_on_claim(text)]


def scripts_of(script: Path) -> list[Path]:
    """Return a Lua script and, after it, the modules in its directory."""
    modules = sorted(script.parent.glob("*.lua"))[:_LUA_FILES_MAX]
    return [script, *(module for module in modules if module != script)]


def with_places(cell: CellSpec, path_of: Mapping[str, str]) -> CellSpec:
    """Return the cell with its files where its agent has them: `path_of` is path here -> path there."""
    dataset = cell.dataset
    steps: list[Any] = [
        step.model_copy(update={key: path_of.get(getattr(step, key), getattr(step, key))})
        if (key := file_key(step))
        else step
        for step in cell.steps
    ]
    path = path_of.get(dataset.path, dataset.path)
    return cell.model_copy(update={"dataset": dataset.model_copy(update={"path": path}), "steps": tuple(steps)})


def dump_steps(steps: Iterable[Step]) -> list[DumpStep]:
    """Return the backups, those that run concurrently with a load too."""
    return [step for step in all_steps(steps) if isinstance(step, DumpStep)]


def snapshot_steps(steps: Iterable[Step]) -> list[SnapshotStep]:
    """Return the backups by the snapshot API of a cluster, those that run concurrently with a load too."""
    return [step for step in all_steps(steps) if isinstance(step, SnapshotStep)]


def claim_changes(steps: Iterable[Step]) -> dict[str, ModifyStep]:
    """Return the steps that change a cluster's claim, by name."""
    return {
        step.name or step.kind: step
        for step in all_steps(steps)
        if isinstance(step, ModifyStep) and step.claim_change is not None
    }


def dump_parents(steps: Iterable[Step]) -> list[Path]:
    """Return the directories of other volumes that steps dump to."""
    return [Path(text) for text in dict.fromkeys(step.directory for step in dump_steps(steps) if step.directory)]


def dump_folder(cell: CellSpec) -> str:
    """Return the name of the directory that a cell has for its dumps on other volumes, and in a bucket."""
    return f"volbench-{cell.run_id.rsplit('-', 1)[-1]}-{cell.cell_id}"


def dump_directories(cell: CellSpec) -> list[Path]:
    """Return the cell's own directories on other volumes, which exist while the cell does."""
    return [parent / dump_folder(cell) for parent in dump_parents(cell.steps)]
