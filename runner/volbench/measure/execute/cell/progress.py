"""progress.json: how far an agent is, and what it asks of the orchestrator; a small file, replaced atomically."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from volbench.core.base.parse import parse_json
from volbench.core.records.snapshots import ClaimRequest, SnapshotRequest
from volbench.results.store.files import read_file

PROGRESS_FILE = "progress.json"
PROGRESS_BYTES_MAX = 1 << 20
JUDGING = "judging"
"""What an agent reports once nothing of its cell is measured any more."""
_INTERVAL_S_MIN = 0.2


@dataclass(frozen=True, kw_only=True)
class AgentProgress:
    """What the agent does, and the fraction done, None if unknown."""

    text: str
    fraction: float | None = None


class ProgressFile:
    """Writes progress.json. A report too soon after the last one is dropped, unless its text is new.

    Threads may share it.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / PROGRESS_FILE
        self._last_s = 0.0
        self._last = AgentProgress(text="")
        self._request: SnapshotRequest | ClaimRequest | None = None
        self._lock = threading.Lock()

    def report(self, text: str, fraction: float | None = None) -> None:
        """Write what the agent does now."""
        now = time.monotonic()
        with self._lock:
            if text == self._last.text and now - self._last_s < _INTERVAL_S_MIN:
                return
            self._last_s, self._last = now, AgentProgress(text=text, fraction=fraction)
            self._write()

    @contextmanager
    def requesting(self, request: SnapshotRequest | ClaimRequest) -> Iterator[None]:
        """Have the request in the file during the block."""
        self._set_request(request)
        try:
            yield
        finally:
            self._set_request(None)

    def _set_request(self, request: SnapshotRequest | ClaimRequest | None) -> None:
        with self._lock:
            self._request = request
            self._write()

    def _write(self) -> None:
        content: dict[str, object] = {"text": self._last.text, "fraction": self._last.fraction}
        if self._request is not None:
            content["request"] = self._request.model_dump()
        partial = self._path.with_name(f".{PROGRESS_FILE}.partial")
        partial.write_text(json.dumps(content) + "\n")  # a line, for those who follow it
        partial.replace(self._path)


def read_progress(directory: Path) -> AgentProgress | None:
    """Return the agent's last report, or None before the first one."""
    try:
        raw = parse_json(read_file(directory / PROGRESS_FILE, bytes_max=PROGRESS_BYTES_MAX))
        return AgentProgress(text=str(raw["text"]), fraction=raw.get("fraction"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
