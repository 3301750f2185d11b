"""The files of a layout's roles, copied from a template to their own volumes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from volbench.core.records.layout import ROLE_TEXTS, Role
from volbench.errors import UsageError
from volbench.machine.engine.roles import role_of_file
from volbench.machine.volume.copying import copy_tree

_AT_START = ("tmp", "binlog", "doublewrite")
"""Roles whose files a server makes at its start where they are missing."""


def seed_roles(data_dir: Path, directories: Mapping[Role, Path], *, workers: int = 4) -> None:
    """Copy the files of each role out of a template's data directory.

    Args:
        directories: of each role, absent or empty; its parent exists.

    Raises UsageError for a role that the template has no files of, and what `copy_tree` raises.
    """
    for role, directory in directories.items():
        entries = [path.name for path in data_dir.iterdir() if role_of_file(path.name) == role]
        if not entries and role not in _AT_START:
            raise UsageError(
                f"this server has no {ROLE_TEXTS[role]} outside the system tablespace",
                where=f"the layout's component for the {ROLE_TEXTS[role]}",
                evidence=f"its data directory has {_listed(data_dir)}",
                next_step="leave that component out; MariaDB has undo tablespaces with innodb_undo_tablespaces: 3",
            )
        copy_tree(data_dir, directory, workers=workers, reflink=False, select=set(entries).__contains__)


def _listed(data_dir: Path) -> str:
    names = sorted(path.name for path in data_dir.iterdir() if path.is_file())
    return ", ".join(names[:8])
