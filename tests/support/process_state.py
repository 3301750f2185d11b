"""Whether a process of this machine is there still."""

from __future__ import annotations

from pathlib import Path


def is_running(pid: int) -> bool:
    """Return whether a process is there and is no zombie; it may end, and be reaped, at any time."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the latter between open and read
        return False
    return state != "Z"
