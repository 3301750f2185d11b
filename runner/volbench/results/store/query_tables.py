"""The cells' tables as a file system that DuckDB may read, and of which nothing can be written.

DuckDB has no permission that only reads: of a path that it may open, a SELECT can make a target of COPY, and a
symbolic link among these paths opens what it leads to. So it may open no file of the machine at all. It reads
checked tables by names of this file system, which knows those tables, opens them without following links, and
cannot write.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import fsspec

from volbench.core.base import safe_files
from volbench.errors import RunUnreadable

PROTOCOL = "volbench-tables"
"""No name of it is a path."""
KEPT_BYTES_MAX = 64 << 20
"""Of small tables, which would otherwise be opened again, twice each."""
SMALL_BYTES = 1 << 20
_NEVER_CHANGED = datetime(2000, 1, 1, tzinfo=UTC)


def all_of(kind: str) -> str:
    """Return the beginning of the names of all tables of a kind."""
    return f"{PROTOCOL}://{kind}"


@contextmanager
def held_run(run: Path) -> Iterator[int]:
    """Hold a run's directory, below which no link is followed. Raises OSError."""
    descriptor = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class TableState(NamedTuple):
    """What tells a table that was checked from what is there when it is read."""

    device: int
    inode: int
    size: int
    modified_ns: int

    @classmethod
    def of(cls, descriptor: int) -> TableState:
        """Return the state of an open table."""
        status = os.fstat(descriptor)
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class _Table(NamedTuple):
    run: Path
    inside: str
    state: TableState
    content: bytes


class QueryTables(fsspec.AbstractFileSystem):  # type: ignore[misc]  # the package has no types
    """What DuckDB calls of a file system, for tables that were checked."""

    protocol = PROTOCOL
    cachable = False

    def __init__(self, damaged: Mapping[str, str]) -> None:
        super().__init__()
        self._damaged = damaged
        self._tables: dict[str, _Table] = {}
        self._names: dict[str, list[str]] = {}
        self._kept_bytes = 0

    def add(self, kind: str, run: Path, cell_id: str, inside: str, state: TableState, content: bytes) -> None:
        """Take a checked table of a cell, with its bytes where they were read. Raises RunUnreadable if damaged."""
        name = f"{all_of(kind)}/run_id={quote(run.name, safe='')}/cell_id={quote(cell_id, safe='')}/table"
        if name in self._damaged:
            raise RunUnreadable("the file is damaged", where=str(run / inside), evidence=self._damaged[name])
        if self._kept_bytes + len(content) > KEPT_BYTES_MAX:
            content = b""
        self._kept_bytes += len(content)
        self._names.setdefault(all_of(kind), []).append(name)
        self._tables[name] = _Table(run, inside, state, content)

    def names(self, kind: str | None = None) -> list[str]:
        """Return the names of all tables, or of those of a kind."""
        return list(self._tables) if kind is None else self._names.get(all_of(kind), [])

    @property
    def are_small(self) -> bool:
        """Whether opening the tables takes longer than reading them."""
        return sum(table.state.size for table in self._tables.values()) < SMALL_BYTES * len(self._tables)

    def open(self, path: str, mode: str = "rb", **_options: Any) -> io.IOBase:
        """Open a table. Raises PermissionError for another mode than reading, OSError for a table that changed."""
        if mode != "rb":
            raise PermissionError("tables of results are only read")
        table = self._table(path)
        if table.content:
            return io.BytesIO(table.content)
        with held_run(table.run) as run:
            descriptor = safe_files.open_regular(run, table.inside)
        if TableState.of(descriptor) != table.state:
            os.close(descriptor)
            raise OSError(f"{table.run / table.inside} changed while it was read")
        return _OpenTable(descriptor, "rb")

    def size(self, path: str) -> int:
        """Return the bytes of a table."""
        return self._table(path).state.size

    def glob(self, path: str, **_options: Any) -> list[str]:
        """Return the tables of a kind, or the name of one: none is looked for. Raises FileNotFoundError."""
        if path in self._tables:
            return [path]
        if names := self._names.get(path.removesuffix("/*")):
            return names
        raise FileNotFoundError(f"no table of results has the name {path}")

    def exists(self, path: str, **_options: Any) -> bool:
        """Return whether a table has this name."""
        return path in self._tables

    isfile = exists

    def isdir(self, _path: str) -> bool:
        """There is none."""
        return False

    def modified(self, _path: str) -> datetime:
        """Return one time for all: what changes is refused."""
        return _NEVER_CHANGED

    def _table(self, path: str) -> _Table:
        table = self._tables.get(path)
        if table is None:
            raise FileNotFoundError(f"no table of results has the name {path}")
        return table


class _OpenTable(io.FileIO):
    """DuckDB drops its files without closing them."""

    def __del__(self) -> None:
        self.close()
