"""Small files written so that a crash leaves either the old or the new one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from volbench.errors import RunUnreadable

Model = TypeVar("Model", bound=BaseModel)


def write_atomically(path: Path, content: str | bytes, *, mode: int = 0o666) -> None:
    """Write, fsync and rename into place; the directory entry is synced too. `mode` is before the umask."""
    data = content.encode() if isinstance(content, str) else content
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def write_record(path: Path, record: BaseModel) -> None:
    """The record as indented JSON, with its aliases (`schema`)."""
    write_atomically(path, record.model_dump_json(indent=1, by_alias=True) + "\n")


def read_record(path: Path, model: type[Model], *, schema: int | None = None) -> Model:
    """The record in a JSON file.

    Raises RunUnreadable naming the file and what is wrong: absent, truncated, foreign, or of a newer schema.
    """
    try:
        raw: Any = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise RunUnreadable("no such file", where=str(path)) from error
    except (json.JSONDecodeError, UnicodeDecodeError, OSError) as error:
        raise RunUnreadable(
            "the file is truncated or is not JSON",
            where=str(path),
            evidence=str(error),
            next_step="remove the file's cell directory and run `volbench resume`, or take the run from a backup",
        ) from error
    found = raw.get("schema") if isinstance(raw, dict) else None
    if schema is not None and found != schema:
        raise RunUnreadable(
            f"schema {found!r} cannot be read by this volbench, which reads {schema}",
            where=str(path),
            next_step="use the volbench version that wrote it",
        )
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise RunUnreadable(
            "the file is not one that volbench wrote", where=str(path), evidence=_first_fault(error)
        ) from error


def _first_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False)[0]
    return f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"
