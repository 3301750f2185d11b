"""A physical copy of a server as the data of a run: of MySQL's CLONE, XtraBackup or mariadb-backup, prepared.

The copy is never written to: the template gets a copy of it. There, volbench sets the password of root@localhost,
disables events, and forgets what it replicates from, before it looks at the tables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from volbench.core.base import safe_files
from volbench.core.base.text import counted
from volbench.core.records.dataset import DatasetSpec
from volbench.errors import MissingPrerequisite, UsageError
from volbench.machine.engine.connection import quoted_name
from volbench.machine.engine.differences import ServerIdentity
from volbench.machine.volume.copying import copy_tree

FIRST_START = {"event_scheduler": "OFF"}
"""Options of the first start on a copy, whose events would change the data."""
_CHECKPOINTS = ("xtrabackup_checkpoints", "mariadb_backup_checkpoints")
_INFO = ("xtrabackup_info", "mariadb_backup_info")
_PREPARED = ("full-prepared", "log-applied")
"""`backup_type` after --prepare, of XtraBackup and of mariadb-backup."""
_PACKED = (".qp", ".zst", ".lz4", ".gz", ".xbcrypt", ".ibd.delta")
_OF_ANOTHER_SERVER = (
    "auto.cnf",
    "mysqld-auto.cnf",
    "ib_buffer_pool",
    "backup-my.cnf",
    "*master*.info",
    "relay-log*.info",
    "xtrabackup_*",
    "mariadb_backup_*",
)
"""Its UUID, its persisted settings, the pages that it would load at its start, where a MariaDB replicates from, and
what the tools noted."""
_SAYS_REPLICA = (8, 0, 22)
"""MySQL's version from which its statements say REPLICA instead of SLAVE."""
_COPYING = "copying the physical copy"
_EVENTS = "SELECT event_schema, event_name FROM information_schema.events WHERE status = 'ENABLED'"


class _Queried(Protocol):
    """The server on the copy."""

    @property
    def identity(self) -> ServerIdentity:
        """Flavor and version."""

    def query(self, sql: str) -> Sequence[Sequence[Any]]:
        """Return all rows of one statement."""


def is_physical_copy(dataset: DatasetSpec) -> bool:
    """Return whether the dataset's path is a directory with InnoDB's files."""
    path = Path(dataset.path)
    return dataset.kind == "dump" and any((path / name).exists() for name in ("ibdata1", *_CHECKPOINTS))


def place_physical_copy(
    dataset: DatasetSpec, data_dir: Path, identity: ServerIdentity, progress: Callable[[str, float | None], None]
) -> None:
    """Copy it to an empty data directory, without what belongs to the server that it was made of.

    Raises UsageError for a copy that is not prepared or packed, MissingPrerequisite for one of another server.
    """
    source = Path(dataset.path)
    check_physical_copy(source, identity)
    progress(_COPYING, 0.0)
    copy_tree(source, data_dir, progress=lambda done, size: progress(_COPYING, done / max(1, size)))
    for pattern in _OF_ANOTHER_SERVER:
        for path in data_dir.glob(pattern):
            if not path.is_dir():  # a schema may have such a name
                path.unlink()


def disarm(server: _Queried) -> tuple[str, ...]:
    """Disable the copy's events and end its replication. Return a note for each."""
    notes = []
    events = server.query(_EVENTS)
    for schema, name in events:
        server.query(f"ALTER EVENT {quoted_name(schema)}.{quoted_name(name)} DISABLE")
    if events:
        notes.append(
            f"{counted(len(events), 'event of the physical copy was', 'events of the physical copy were')} disabled"
        )
    replica = "REPLICA" if server.identity.number >= _SAYS_REPLICA else "SLAVE"
    if server.identity.flavor == "mysql" and server.query(f"SHOW {replica} STATUS"):
        server.query(f"RESET {replica} ALL")
        notes.append("the physical copy was a replica, and is none any more")
    return tuple(notes)


def _require_unused(source: Path) -> None:
    """Raise UsageError for the data directory of a running server: InnoDB holds a lock on its first file."""
    with suppress(OSError):
        status = (source / "ibdata1").stat()
        file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        locks = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
        process = next((fields[-4] for fields in locks if file in fields), None)
        if process is not None:
            raise UsageError(
                "a server runs on this directory, so that it is no copy",
                where="dataset.path",
                evidence=f"{source}/ibdata1 is locked by process {process}",
                next_step="make a copy with mariadb-backup, XtraBackup or CLONE, or stop the server",
            )


def check_physical_copy(source: Path, identity: ServerIdentity) -> None:
    """Raise UsageError for a copy in use, not prepared or packed; MissingPrerequisite for one of another server."""
    _require_unused(source)
    checkpoints = _text(source, _CHECKPOINTS)
    kind = re.search(r"^backup_type = (\S+)", checkpoints, re.MULTILINE)
    if kind is not None and kind[1] not in _PREPARED:
        raise UsageError(
            "the physical copy is not prepared",
            where="dataset.path",
            evidence=f"{source}: backup_type = {kind[1]}",
            next_step=f"run: xtrabackup --prepare --target-dir={source} (of MariaDB: mariadb-backup)",
        )
    packed = next((path for path in source.rglob("*") if path.name.endswith(_PACKED)), None)
    if packed is not None:
        raise UsageError(
            "the physical copy is compressed, encrypted or incremental",
            where="dataset.path",
            evidence=str(packed),
            next_step="decompress it and apply its increments, then prepare it",
        )
    elsewhere = next((path for path in source.rglob("*") if path.is_symlink() or path.name.endswith(".isl")), None)
    if elsewhere is not None:
        raise UsageError(
            "the physical copy has a file elsewhere: a link, or a table with DATA DIRECTORY",
            where="dataset.path",
            evidence=str(elsewhere),
            next_step="make a copy of a server whose files are all in its data directory",
        )
    made_of = re.search(r"^server_version = (\d{1,4}(?:\.\d{1,4})+)(\S*)", _text(source, _INFO), re.MULTILINE)
    if made_of is None:
        return
    flavor = "mariadb" if "mariadb" in made_of[2].lower() else "mysql"
    if flavor != identity.flavor or _numbers(made_of[1]) > _numbers(identity.version):
        raise MissingPrerequisite(
            "the physical copy is of another or a newer server",
            where="dataset.path",
            evidence=f"{source}: {flavor} {made_of[1]}; here: {identity.flavor} {identity.version}",
            next_step=f"choose the server: --set engine.flavor={flavor} --set engine.version={made_of[1]}",
        )


def _text(source: Path, names: Sequence[str]) -> str:
    for name in names:
        if (source / name).exists():
            return safe_files.read_given(source / name).decode(errors="replace")
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    """Return 10.11 of 10.11.6: within a series, files are the same."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
