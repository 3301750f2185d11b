"""Where a server keeps the files of each role of a layout: options, directories, and names of files.

Sources: MySQL 9.7's manual on innodb_log_group_home_dir, innodb_undo_directory, innodb_doublewrite_dir (8.0.20),
innodb_temp_tablespaces_dir (8.0.13), log_bin; MariaDB's on the first two. A directory for each role, below the
run's own on the component's volume: two roles on one volume must not mix their files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from volbench.core.records.base import Scalar
from volbench.core.records.layout import ROLE_TEXTS, ComponentPlaces, Role
from volbench.errors import UsageError
from volbench.machine.engine.differences import ServerIdentity

_FILES: dict[Role, re.Pattern[str]] = {
    "redo": re.compile(r"#innodb_redo|ib_logfile\d+|ib_redo\d+"),
    "undo": re.compile(r"undo_?\d{3}"),
    "doublewrite": re.compile(r"#ib_\d+_\d+\.b?dblwr"),
    "binlog": re.compile(r"binlog\.(\d+|index|state)"),
}
"""Names in a data directory that belong to a role; temporary files are made at each start."""
_TABLESPACE = "ibtmp1"
_DOUBLEWRITE_SINCE = (8, 0, 20)


def role_directory(volume_dir: str, role: Role) -> Path:
    """Return the directory of a role's files on a component's volume."""
    return Path(volume_dir) / role


def role_directories(components: Iterable[ComponentPlaces]) -> dict[Role, Path]:
    """Return the directory of each role of a layout, as this process sees it."""
    return {
        role: role_directory(component.volume_dir, role) for component in components for role in component.roles
    }


def server_directories(components: Iterable[ComponentPlaces]) -> dict[Role, str]:
    """Return the same as the server sees it."""
    return {
        role: str(role_directory(component.server_dir or component.volume_dir, role))
        for component in components
        for role in component.roles
    }


def role_of_file(name: str) -> Role | None:
    """Return the role of an entry of a data directory; None for data."""
    return next((role for role, pattern in _FILES.items() if pattern.fullmatch(name)), None)


def role_options(
    identity: ServerIdentity, directories: Mapping[Role, str], *, data_dir: str, options: Mapping[str, Scalar]
) -> list[tuple[str, Scalar]]:
    """Return the server's options for its directories, none for roles that are with the data.

    Args:
        directories: of each role, as the server sees it.
        options: of the suite, under their plain names, with the pinned ones.

    Raises UsageError for a role that this server has no files of.
    """
    chosen: list[tuple[str, Scalar]] = []
    for role, directory in directories.items():
        if fault := _fault(role, identity, options):
            raise UsageError(
                fault,
                where=f"the layout's component for the {ROLE_TEXTS[role]}",
                next_step="leave that component out",
            )
        if role == "redo":
            chosen.append(("innodb_log_group_home_dir", directory))
        elif role == "undo":
            chosen.append(("innodb_undo_directory", directory))
        elif role == "doublewrite":
            chosen.append(("innodb_doublewrite_dir", directory))
        elif role == "binlog":
            chosen += [("log_bin", f"{directory}/binlog"), ("log_bin_index", f"{directory}/binlog.index")]
        else:
            chosen += _temporary(identity, directory, data_dir)
    return chosen


def _temporary(identity: ServerIdentity, directory: str, data_dir: str) -> list[tuple[str, Scalar]]:
    """Return where temporary tables and tablespaces are; `tmpdir` is set with the other directories.

    The global temporary tablespace is named relative to the data directory: an absolute path is refused.
    """
    file = os.path.relpath(f"{directory}/{_TABLESPACE}", data_dir)
    options: list[tuple[str, Scalar]] = [("innodb_temp_data_file_path", f"{file}:12M:autoextend")]
    if identity.flavor == "mysql":
        options.append(("innodb_temp_tablespaces_dir", directory))
    return options


def _fault(role: Role, identity: ServerIdentity, options: Mapping[str, Scalar]) -> str:
    off = {name for name, value in options.items() if str(value).lower() in ("false", "off", "0")}
    if role == "binlog" and "log_bin" in off:
        return "log_bin is off: there is no binary log to place"
    if role != "doublewrite":
        return ""
    if identity.flavor == "mariadb":
        return "MariaDB writes its doublewrite buffer into the system tablespace: it cannot be on another volume"
    if identity.number < _DOUBLEWRITE_SINCE:
        return f"MySQL {identity.version} writes its doublewrite buffer into the system tablespace (until 8.0.19)"
    return "innodb_doublewrite is off: there are no files to place" if "innodb_doublewrite" in off else ""
