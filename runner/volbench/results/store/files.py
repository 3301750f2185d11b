"""Small files written so that a crash leaves either the old or the new one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from volbench import __version__
from volbench.core.base import safe_files
from volbench.core.base.parse import parse_record_json
from volbench.core.base.system_errors import refusal_of_system
from volbench.core.records.format_version import version_fault
from volbench.errors import RunUnreadable

Model = TypeVar("Model", bound=BaseModel)
CELLS = "cells"
"""The directory of a run below which its cells are; everything from there on is opened without following links."""
_OF_ANOTHER_VERSION = frozenset({"extra_forbidden", "literal_error", "union_tag_invalid"})
"""Pydantic's types of faults that a key, a choice and a kind of step of another version make."""
_VERSION_CHARACTERS_MAX = 20


def write_atomically(path: Path, content: str | bytes, *, mode: int = 0o666) -> None:
    """Write, fsync and rename into place; the directory entry is synced too. `mode` is before the umask.

    Below a run's directory no symbolic link is followed. Raises OSError.
    """
    data = content.encode() if isinstance(content, str) else content
    with held_parent(path) as parent:
        safe_files.write_new(parent, path.name, data, mode=mode & ~_umask())


@contextmanager
def held_parent(path: Path) -> Iterator[int]:
    """Hold the directory of a file of a run, reached without symbolic links below the run's own directory.

    A run may come from somebody else: `cells` or a cell's directory could be a link to anywhere. Raises OSError.
    """
    components = path.parts
    depth = next(
        (number for number in range(len(components) - 2, 0, -1) if components[number] == CELLS), len(components) - 1
    )
    root = os.open(Path(*components[:depth]), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        inside = "/".join(components[depth:-1]) or "."
        parent = safe_files.open_beneath(root, inside, os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(root)
    try:
        yield parent
    finally:
        os.close(parent)


def open_file(path: Path, flags: int = os.O_RDONLY, mode: int = 0o644) -> int:
    """Return the descriptor of a file of a run: a regular file, not reached through a link. Raises OSError."""
    with held_parent(path) as parent:
        return safe_files.open_regular(parent, path.name, flags, mode)


def read_file(path: Path, *, bytes_max: int = safe_files.DOCUMENT_BYTES_MAX) -> bytes:
    """Return the bytes of a file of a run, see `open_file`. Raises OSError, EFBIG for a file that is too large."""
    with held_parent(path) as parent:
        return safe_files.read_regular(parent, path.name, bytes_max=bytes_max)


def _umask() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return next((int(line.split()[1], 8) for line in status.splitlines() if line.startswith("Umask:")), 0o022)


def write_record(path: Path, record: BaseModel) -> None:
    """Write the record as indented JSON, with its aliases (`schema`)."""
    write_atomically(path, record.model_dump_json(indent=1, by_alias=True) + "\n")


def read_record(path: Path, model: type[Model], *, schema: int | None = None) -> Model:
    """Return the record in a JSON file.

    Raises RunUnreadable naming the file and what is wrong: absent, truncated, foreign, or of another schema;
    MissingPrerequisite where the machine cannot read it now.
    """
    try:
        raw: Any = parse_record_json(read_file(path))
    except FileNotFoundError as error:
        raise RunUnreadable("no such file", where=str(path)) from error
    except OSError as error:
        raise refusal_of_system(error, str(path)) or RunUnreadable(
            "the file cannot be read as a file of a run",
            where=str(path),
            evidence=f"{error.strerror or error}",
            next_step="see what it is with `ls -la`: a run holds regular files and no links",
        ) from error
    except ValueError as error:
        raise RunUnreadable(
            "the file is truncated or is not JSON",
            where=str(path),
            evidence=str(error),
            next_step="remove its cell's directory and run `volbench resume RUN`, or take the run from a backup",
        ) from error
    if schema is not None:
        _check_version(raw, schema, path)
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise unknown_content(error, path, where=str(path)) or RunUnreadable(
            "the file is not one that volbench wrote", where=str(path), evidence=_first_fault(error)
        ) from error


def unknown_content(error: ValidationError, path: Path, *, where: str) -> RunUnreadable | None:
    """Return the refusal of a record that is well formed but has a key or a value that this version lacks.

    None for every other fault. Another version, or one with other plug-ins, may have written the file.

    Args:
        path: of the file; the run.json of its run tells the version that wrote it.
        where: file, and line where it has several records.
    """
    faults = error.errors(include_url=False)
    unknown = [fault for fault in faults if fault["type"] in _OF_ANOTHER_VERSION]
    if len(unknown) < len(faults):
        return None
    written_by = _written_by(path)
    wrote = (
        f"version {written_by} of volbench wrote the run" if written_by else "another version may have written it"
    )
    return RunUnreadable(
        "the file has content that this version of volbench does not know",
        where=where,
        evidence=f"{_fault_text(unknown[0])}; {wrote}, this is version {__version__}",
        next_step="read the run with the version, and the plug-ins, that wrote it",
    )


def _written_by(path: Path) -> str:
    """Return the version of volbench that wrote the run of a file; empty where no run.json tells it."""
    for directory in list(path.parents)[:3]:
        try:
            version = parse_record_json(read_file(directory / "run.json")).get("volbench_version")
        except (OSError, ValueError, AttributeError):
            continue
        return version[:_VERSION_CHARACTERS_MAX] if isinstance(version, str) else ""
    return ""


def _check_version(raw: Any, schema: int, path: Path) -> None:
    """Raise RunUnreadable unless the version of a file is today's."""
    version = raw.get("schema") if isinstance(raw, dict) else None
    fault = version_fault(version, schema, rewrite="measure again: `volbench run` writes today's format")
    if fault is not None:
        raise RunUnreadable(fault.message, where=str(path), next_step=fault.next_step)


def _first_fault(error: ValidationError) -> str:
    return _fault_text(error.errors(include_url=False)[0])


def _fault_text(fault: ErrorDetails) -> str:
    value = f", not {str(fault['input'])[:40]!r}" if fault["type"] == "literal_error" else ""
    return f"{'.'.join(str(key) for key in fault['loc'])}: {fault['msg']}{value}"
