"""journal.jsonl: what a run has done, line by line, each synced before the next thing is done."""

from __future__ import annotations

import logging
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from volbench.core.base.parse import parse_json
from volbench.core.base.system_errors import refusal_of_system
from volbench.core.records.run import JournalEvent
from volbench.errors import RunUnreadable
from volbench.results.store.files import open_file, read_file, unknown_content

_log = logging.getLogger(__name__)


def utc_now() -> str:
    """Return the wall clock as ISO 8601 with milliseconds, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_BEGINNING = b'{"at":"'


class Journal:
    """An append-only file of JournalEvents."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._alone = threading.Lock()  # cells that run at once append from threads of their own

    def append(self, event: str, *, cell_id: str = "", attempt: int = 0, **details: Any) -> JournalEvent:
        """Write one event and sync it."""
        record = JournalEvent.model_validate(
            {"at": utc_now(), "event": event, "cell_id": cell_id, "attempt": attempt, "details": details}
        )
        line = record.model_dump_json(exclude_defaults=True) + "\n"
        _log.info("journal: %s", line.rstrip())
        with self._alone:
            descriptor = open_file(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            try:
                self._end_torn_line(descriptor)
                os.write(descriptor, line.encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        return record

    def events(self) -> list[JournalEvent]:
        """Return all events; a torn line (the writer was killed while writing it) is passed over.

        Raises RunUnreadable for a line that is whole but not ours.
        """
        if not self._path.exists():
            return []
        events = []
        try:
            lines = read_file(self._path).split(b"\n")
        except OSError as error:
            raise refusal_of_system(error, str(self._path)) or RunUnreadable(
                "the journal cannot be read", where=str(self._path), evidence=f"{error.strerror or error}"
            ) from error
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                events.append(JournalEvent.model_validate_json(line))
            except ValidationError as error:
                if _is_torn(line):
                    continue
                where = f"{self._path}:{number}"
                raise unknown_content(error, self._path, where=where) or RunUnreadable(
                    "the journal holds a line that volbench did not write",
                    where=where,
                    evidence=line[:200].decode(errors="replace"),
                ) from error
        return events

    def _end_torn_line(self, descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        if size == 0:
            return
        if os.pread(descriptor, 1, size - 1) != b"\n":
            os.write(descriptor, b"\n")


def _is_torn(line: bytes) -> bool:
    """Return whether it is the beginning of a line of ours, and no more."""
    if not (line.startswith(_BEGINNING) or _BEGINNING.startswith(line)):
        return False
    try:
        parse_json(line)
    except ValueError:
        return True
    return False
