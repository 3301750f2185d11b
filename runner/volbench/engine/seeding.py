"""Gives a cell its data directory: a copy of the dataset's template, on the volume."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from volbench.engine.template import verify_template
from volbench.volume.copying import CopyStats, copy_tree, no_progress

DATA_DIR_MODE = 0o700


def seed(
    template_dir: Path,
    data_dir: Path,
    *,
    workers: int = 4,
    progress: Callable[[int, int], None] = no_progress,
) -> CopyStats:
    """Copy a template's data to a new or empty data directory, for a server that runs as this process's user.

    Args:
        template_dir: CACHE/KEY, as `template_path` names it.
        progress: called with bytes done and bytes in all.

    Raises StepFailed for a template that is missing or damaged, and what `copy_tree` raises.
    """
    template = verify_template(template_dir)
    stats = copy_tree(template.data_dir, data_dir, workers=workers, progress=progress)
    data_dir.chmod(DATA_DIR_MODE)
    if os.geteuid() == 0:
        _own(data_dir)
    return stats


def _own(data_dir: Path) -> None:
    """For root, whose copy has kept the owners of the template's files."""
    for root, directories, files in os.walk(data_dir):
        for name in (".", *directories, *files):
            os.chown(Path(root) / name, os.geteuid(), os.getegid(), follow_symlinks=False)
