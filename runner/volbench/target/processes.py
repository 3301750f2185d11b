"""Processes that outlive the one that started them: known by process id and start time, never by name.

What an agent starts inherits a label in its environment, so that it is found even when the agent, or the supervisor
between them, was killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from volbench.base import safe_files
from volbench.records.parse import parse_json

LABEL_VARIABLE = "VOLBENCH_PLACED"
"""In the environment of an agent and of all that it starts: `RUN_ID/CELL_ID`."""
_PID_FILE_BYTES_MAX = 4096
_PID_MAX = 2**22
"""The kernel's PID_MAX_LIMIT."""
_KILL_ROUNDS = 100
_KILL_POLL_S = 0.05


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
            with safe_files.held_directory(path.parent) as held:
                raw = parse_json(safe_files.read_regular(held, path.name, bytes_max=_PID_FILE_BYTES_MAX))
            known = cls(pid=int(raw["pid"]), start_ticks=int(raw["start_ticks"]))
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            return None
        return known if 0 < known.pid <= _PID_MAX else None

    def write(self, path: Path) -> None:
        """Write the pid file."""
        content = json.dumps({"pid": self.pid, "start_ticks": self.start_ticks})
        with safe_files.held_directory(path.parent) as held:
            safe_files.write_new(held, path.name, content.encode(), sync=False)

    def running(self) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        return _start_ticks(self.pid) == self.start_ticks

    def signal(self, number: signal.Signals, *, group: bool = False) -> None:
        """Send a signal to the process, or to the group that it leads; nothing happens when it is gone."""
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(self.pid)  # opened first: the process looked at is the one that is signalled
            try:
                if not self.running():
                    return
                if group:
                    os.killpg(self.pid, number)
                else:
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)

    def has_label(self, label: str) -> bool:
        """Whether the process was started with that label: a pid file that somebody else wrote may name any."""
        try:
            return self.running() and _has_label(self.pid, label)
        except OSError:  # it is gone, or another user's
            return False

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


def kill_labelled(label: str) -> bool:
    """SIGKILL to every process with that label, until there is none; False when some do not go.

    Args:
        label: `RUN_ID/CELL_ID`, or `RUN_ID/` for all of a run.
    """
    for _ in range(_KILL_ROUNDS):  # one that is just being started may be missed at first
        killed = [pid for pid in _process_ids() if _kill_if_labelled(pid, label)]
        if not killed:
            return True
        time.sleep(_KILL_POLL_S)
    return False


def _process_ids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 - names are all


def _kill_if_labelled(pid: int, label: str) -> bool:
    """Whether the process has the label and still runs; it was sent SIGKILL then."""
    if pid == os.getpid():
        return False
    with contextlib.suppress(OSError):  # it is gone, or another user's
        handle = os.pidfd_open(pid)  # opened first: the process looked at is the one that is killed
        try:
            if _has_label(pid, label) and _start_ticks(pid) is not None:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return True
        finally:
            os.close(handle)
    return False


def _has_label(pid: int, label: str) -> bool:
    wanted = f"{LABEL_VARIABLE}={label}".encode()
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return any(one.startswith(wanted) if label.endswith("/") else one == wanted for one in variables)
