"""Loads a directory of mydumper, of any version, with myloader."""

from __future__ import annotations

import re
import tempfile
from contextlib import closing
from pathlib import Path

from volbench.engine.connection import MemoryFile
from volbench.engine.own_data.pipe import Loading, require_program, run_pipe, tool_version
from volbench.engine.own_data.sql_file import load_sql_file
from volbench.errors import EnvironmentLacks, UsageError

_SCHEMA_FILE = re.compile(r"(?P<schema>.+)-schema-create\.sql(\.\w+)?")
_TABLE_FILE = re.compile(r"(?P<schema>[^.]+)\..+-schema\.sql(\.\w+)?")
_VERSION = re.compile(r"(\d+)\.(\d+)")
_READABLE = (".sql", ".gz")
_CURRENT = (0, 12)
"""What every myloader reads, and the first version that reads zstd; Debian has 0.10."""


def load_mydumper(loading: Loading, path: Path) -> None:
    """Load one schema of the dump into the dataset's schema.

    Raises UsageError if the dump has several schemas and none of them is the dataset's, EnvironmentLacks for a
    compression that the installed myloader cannot read, StepFailed if myloader fails.
    """
    names = sorted(file.name for file in path.iterdir())
    myloader = require_program("myloader")
    version = tool_version(myloader)
    schema = source_schema(names, loading.dataset.schema_name)
    check_compression(path, names, version)
    with closing(MemoryFile(loading.account.option_file_text())) as options, tempfile.TemporaryFile() as nothing:
        argv = [
            myloader, f"--defaults-file={options.path}", f"--directory={path}",
            f"--source-db={schema}", f"--database={loading.dataset.schema_name}",
            f"--threads={loading.dataset.threads}",
        ]  # fmt: skip
        run_pipe([argv], loading, source=nothing, what=f"loading {path.name}")
    if not _is_current(version):
        for name in names:
            if name.startswith(f"{schema}-schema-triggers.sql"):
                load_sql_file(loading, path / name)


def source_schema(names: list[str], wanted: str) -> str:
    """Return the schema of the dump to load: the wanted one, else the only one. Raises UsageError."""
    matches = [_SCHEMA_FILE.fullmatch(name) or _TABLE_FILE.fullmatch(name) for name in names]
    schemas = sorted({match["schema"] for match in matches if match})
    if wanted in schemas:
        return wanted
    if len(schemas) == 1:
        return schemas[0]
    raise UsageError(
        f"the dump has no schema {wanted}", where="dataset.schema",
        evidence=f"its schemas are {', '.join(schemas) or 'none'}", next_step="set dataset.schema to one of them",
    )  # fmt: skip


def _is_current(version: str) -> bool:
    """Return whether the myloader reads zstd, and the file of all triggers of a schema: Debian's does not."""
    number = _VERSION.search(version)
    return number is not None and (int(number[1]), int(number[2])) >= _CURRENT


def check_compression(path: Path, names: list[str], version: str) -> None:
    """Raise EnvironmentLacks if a myloader of this version cannot read the dump's files."""
    unreadable = next((name for name in names if ".sql." in name and not name.endswith(_READABLE)), None)
    if unreadable is not None and not _is_current(version):
        raise EnvironmentLacks(
            f"this myloader cannot read the dump's compression: {version}", where="dataset.path",
            evidence=str(path / unreadable),
            next_step=f"decompress the dump first: zstd -d --rm {path}/*.zst",
        )  # fmt: skip
