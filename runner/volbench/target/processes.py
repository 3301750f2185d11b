"""Processes that outlive the one that started them: known by process id and start time, never by name."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class KnownProcess:
    """A process that we started; `start_ticks` tells it from a later one with the same id."""

    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> KnownProcess | None:
        """The running process with that id."""
        ticks = _start_ticks(pid)
        return None if ticks is None else cls(pid=pid, start_ticks=ticks)

    @classmethod
    def from_file(cls, path: Path) -> KnownProcess | None:
        """The process that a pid file names; None when there is no such file or it is torn."""
        try:
            raw = json.loads(path.read_bytes())
            return cls(pid=int(raw["pid"]), start_ticks=int(raw["start_ticks"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, path: Path) -> None:
        """Write the pid file."""
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(json.dumps({"pid": self.pid, "start_ticks": self.start_ticks}))
        partial.replace(path)

    def running(self) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        return _start_ticks(self.pid) == self.start_ticks

    def signal(self, number: signal.Signals, *, group: bool = False) -> None:
        """Send a signal to the process, or to the group that it leads; nothing happens when it is gone."""
        if not self.running():
            return
        try:
            if group:
                os.killpg(self.pid, number)
            else:
                os.kill(self.pid, number)
        except ProcessLookupError:
            return

    def end(self, *, grace_s: float, group: bool = False) -> bool:
        """SIGTERM, and SIGKILL after `grace_s`; True when it is gone."""
        self.signal(signal.SIGTERM, group=group)
        if self.wait(grace_s):
            return True
        self.signal(signal.SIGKILL, group=group)
        return self.wait(10.0)

    def wait(self, timeout_s: float) -> bool:
        """Wait until the process is gone; False at the time-out."""
        until = time.monotonic() + timeout_s
        while self.running():
            if time.monotonic() >= until:
                return False
            time.sleep(0.02)
        return True


def _start_ticks(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rsplit(")", 1)[1].split()
    return None if fields[0] in {"Z", "X"} else int(fields[19])
