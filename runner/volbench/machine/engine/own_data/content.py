"""What identifies the user's own data: a hash over the files that it comes from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from volbench.core.base import safe_files
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.own_files import scripts_of
from volbench.errors import UsageError


def content_hash(dataset: DatasetSpec) -> str:
    """Return a SHA-256 over the files of a dataset; empty for one without files. Raises UsageError."""
    if dataset.kind == "script" and dataset.path.endswith(".lua"):
        return hash_of_scripts(Path(dataset.path))
    return _hash_of(_files(Path(dataset.path)), Path(dataset.path)) if dataset.path else ""


def hash_of_scripts(script: Path) -> str:
    """Return a SHA-256 over a Lua script and the modules in its directory. Raises UsageError."""
    return _hash_of(scripts_of(script), script.parent)


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def _hash_of(files: Iterable[Path], root: Path) -> str:
    total = hashlib.sha256()
    try:
        for file in files:
            total.update(f"{file.relative_to(root) if file != root else file.name}\0".encode())
            with safe_files.open_given(file) as opened:
                total.update(hashlib.file_digest(opened, "sha256").digest())
    except OSError as error:
        raise UsageError("a file of the dataset cannot be read", where="dataset", evidence=str(error)) from error
    return total.hexdigest()
