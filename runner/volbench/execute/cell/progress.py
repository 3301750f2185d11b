"""progress.json: how far an agent is; a small file, replaced atomically."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from volbench.records.parse import parse_json
from volbench.store.files import read_file

PROGRESS_FILE = "progress.json"
PROGRESS_BYTES_MAX = 1 << 20
_INTERVAL_S_MIN = 0.2


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What the agent does, and the fraction done, None if unknown."""

    text: str
    fraction: float | None = None


class ProgressFile:
    """Writes progress.json. A report too soon after the last one is dropped, unless its text is new."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / PROGRESS_FILE
        self._last_s = 0.0
        self._last_text = ""

    def report(self, text: str, fraction: float | None = None) -> None:
        """Write what the agent does now."""
        now = time.monotonic()
        if text == self._last_text and now - self._last_s < _INTERVAL_S_MIN:
            return
        self._last_s, self._last_text = now, text
        partial = self._path.with_name(f".{PROGRESS_FILE}.partial")
        partial.write_text(
            json.dumps({"text": text, "fraction": fraction}) + "\n"
        )  # a line, for those who follow it
        partial.replace(self._path)


def read_progress(directory: Path) -> Progress | None:
    """Return the agent's last report, or None before the first one."""
    try:
        raw = parse_json(read_file(directory / PROGRESS_FILE, bytes_max=PROGRESS_BYTES_MAX))
        return Progress(text=str(raw["text"]), fraction=raw.get("fraction"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
