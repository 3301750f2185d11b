"""Parts of a slow log that can be read apart: each begins at a head at which the whole log is divided as well."""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO

from volbench.core.base import safe_files

PART_BYTES = 16 << 20
_WINDOW_BYTES = 1 << 20
_SECONDS = rb"[0-9]{1,9}\.[0-9]{6}"
_HEAD_AFTER_LINE = re.compile(
    rb"\n(?P<before>[^\n]*)\n"
    rb"(?P<head># (?P<time>Time: [^\n]*\n# )?User@Host: [^\n]*\n# (?:(?:Thread_id|Schema): [^\n]*\n# )?"
    rb"Query_time: " + _SECONDS + rb"  ?Lock_time: " + _SECONDS + rb"  ?"
    rb"Rows_sent: [0-9]{1,20}  ?Rows_examined: [0-9]{1,20}[^\n]*\n)"
)
_BEGINS_HEAD = re.compile(rb"# (?:Time|User@Host|Thread_id|Schema): ")
"""With such text in the line before, the head of the whole log may begin there."""
_HEAD_BYTES_MAX = 4096


def part_offsets(path: Path, *, part_bytes: int = PART_BYTES) -> list[int]:
    """Return the offsets in bytes at which parts begin, the first is 0, and the size of the file.

    Where no head is close to the end of a part, the part is longer. Raises OSError.
    """
    with safe_files.open_given(path) as file:
        size = file.seek(0, 2)
        offsets = [0]
        for nominal in range(part_bytes, size - part_bytes // 2, part_bytes):
            begin = _first_head(file, nominal)
            if begin is not None and begin > offsets[-1]:
                offsets.append(begin)
    return [*offsets, size]


def _first_head(file: BinaryIO, offset: int) -> int | None:
    """Return where the first head of a window begins, if possible one with a time; None without a head."""
    file.seek(offset)
    window = file.read(_WINDOW_BYTES)
    timeless = None
    for match in _HEAD_AFTER_LINE.finditer(window):
        if len(match["head"]) > _HEAD_BYTES_MAX or _BEGINS_HEAD.search(match["before"]):
            continue
        if match["time"] is not None:
            return offset + match.start("head")
        timeless = match.start("head") if timeless is None else timeless
    return None if timeless is None else offset + timeless
