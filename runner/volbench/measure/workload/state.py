"""Values that earlier steps of a cell leave for later ones, in StepContext.state."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LAST_DUMP = "last_dump"
"""The `DumpFiles` that a restore loads."""
LAST_WRITE = "last_write_s"
"""When a step last wrote to the dataset, seconds since the cell's zero."""


@dataclass(frozen=True, kw_only=True)
class DumpFiles:
    """A dump on disk: one SQL file of mysqldump, or mydumper's files, in a directory."""

    tool: str
    directory: Path
    size_bytes: int
    schema: str
    begun_s: float
