"""Slow query logs next to recordings: they are not read as one, and a message says what takes them."""

from __future__ import annotations

from pathlib import Path

from volbench.core.base import safe_files

HEAD_BYTES = 64 << 10
"""A log that was rotated in the middle of a statement still has the next entry's head within so much."""
COMMANDS = (
    "`volbench capture OUT --from LOG --mask` masks it; `queries.slow_log` and `replay.slow_log` of a validation"
    " plan, and `log` of a suite's replay step, take it as it is"
)


def is_slow_log(path: Path) -> bool:
    """Return whether a file's beginning has the head of a slow query log's entry; False if it cannot be read."""
    try:
        with safe_files.open_given(path) as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return False
    return b"\n# Query_time: " in head and b"# User@Host: " in head
