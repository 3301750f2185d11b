"""The wait of a cell for its queue: why Kueue holds its Job, as evidence and as the cell's progress."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from volbench.machine.cluster.queues import QUEUE_NAME, why_held
from volbench.machine.placement.kubernetes.scheduling import suspension

Object = dict[str, Any]
_LOOK_EVERY_S = 10.0
"""Events are listed no more often than that."""


class QueueWait:
    """The wait of one cell.

    Args:
        events: lists the events of the cell's Job and of its Workload, the oldest first.
    """

    def __init__(self, events: Callable[[], list[Object]]) -> None:
        self._events = events
        self._looked_s = float("-inf")
        self._why = ""
        self._text = ""

    def evidence(self, job: Object) -> str:
        """Return that the job is suspended, and why if the cluster says so."""
        if time.monotonic() - self._looked_s >= _LOOK_EVERY_S:
            self._looked_s = time.monotonic()
            self._why = why_held(self._events())
        queue = job["metadata"].get("labels", {}).get(QUEUE_NAME, "")
        self._text = f"waits for queue {queue}" if queue else "waits: its job is suspended"
        self._text += f": {self._why}" if self._why else ""
        return f"{suspension(job)}: {self._why}" if self._why else suspension(job)

    def show(self, directory: Path) -> None:
        """Write why the cell waits as its progress."""
        (directory / "progress.json").write_text(json.dumps({"text": self._text}) + "\n")
