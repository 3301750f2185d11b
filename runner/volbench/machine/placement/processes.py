"""Processes that survive their parent: identified by process id and start time, never by name.

An agent's descendants inherit a label in their environment, which identifies them even after the agent, or a
supervisor between them, was killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from volbench.core.base import safe_files
from volbench.core.base.parse import parse_json

LABEL_VARIABLE = "VOLBENCH_PLACED"
"""In the environment of an agent and its descendants: `RUN_ID/CELL_ID`."""
_PID_FILE_BYTES_MAX = 4096
_PID_MAX = 2**22
"""The kernel's PID_MAX_LIMIT."""
_EXEC_S_MAX, _EXEC_POLL_S = 2.0, 0.005
_KILL_ROUNDS = 100
_KILL_POLL_S = 0.05


@dataclass(frozen=True, kw_only=True)
class KnownProcess:
    """A process of volbench; `start_ticks` distinguishes it from a later one with the same id."""

    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> KnownProcess | None:
        """Return the running process with that id."""
        ticks = _start_ticks(pid)
        return None if ticks is None else cls(pid=pid, start_ticks=ticks)

    @classmethod
    def from_file(cls, path: Path) -> KnownProcess | None:
        """Return the process of a pid file; None without a complete file."""
        try:
            with safe_files.held_directory(path.parent) as descriptor:
                raw = parse_json(safe_files.read_regular(descriptor, path.name, bytes_max=_PID_FILE_BYTES_MAX))
            process = cls(pid=int(raw["pid"]), start_ticks=int(raw["start_ticks"]))
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            return None
        return process if 0 < process.pid <= _PID_MAX else None

    def write(self, path: Path) -> None:
        """Write the pid file."""
        content = json.dumps({"pid": self.pid, "start_ticks": self.start_ticks})
        with safe_files.held_directory(path.parent) as descriptor:
            safe_files.write_new(descriptor, path.name, content.encode(), sync=False)

    def running(self) -> bool:
        """Return whether this process still runs (a zombie does not)."""
        return _start_ticks(self.pid) == self.start_ticks

    def signal(self, number: signal.Signals, *, group: bool = False) -> None:
        """Send a signal to the process, or to the group that it leads; do nothing after its end."""
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(self.pid)  # opened first: the process that is checked is the one signalled
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
        """Return whether the process was started with that label: a forged pid file may name any process.

        While a process replaces its program (execve) the kernel shows no environment; it is read again then.
        """
        until = time.monotonic() + _EXEC_S_MAX
        try:
            while self.running():
                variables = _environment(self.pid)
                if variables or time.monotonic() > until:
                    return _is_labelled(variables, label)
                time.sleep(_EXEC_POLL_S)
        except OSError:  # it is gone, or another user's
            return False
        return False

    def end(self, *, grace_s: float, group: bool = False) -> bool:
        """Send SIGTERM, and SIGKILL after `grace_s`; return whether the process has ended."""
        self.signal(signal.SIGTERM, group=group)
        if self.wait(grace_s):
            return True
        self.signal(signal.SIGKILL, group=group)
        return self.wait(10.0)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the process; return whether it ended."""
        try:
            ended = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            if self.running():  # else the number is that of another process
                select.select([ended], [], [], timeout_s)
        finally:
            os.close(ended)
        return not self.running()


def _start_ticks(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rsplit(")", 1)[1].split()
    return None if fields[0] in {"Z", "X"} else int(fields[19])


def kill_labelled(label: str) -> bool:
    """Send SIGKILL to every process with that label until there is none; return False if some do not end.

    Args:
        label: `RUN_ID/CELL_ID`, or `RUN_ID/` for all of a run.
    """
    for _ in range(_KILL_ROUNDS):  # the first rounds may miss a process that is just starting
        killed = [pid for pid in _process_ids() if _kill_if_labelled(pid, label)]
        if not killed:
            return True
        time.sleep(_KILL_POLL_S)
    return False


def _process_ids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 - names are all


def _kill_if_labelled(pid: int, label: str) -> bool:
    """Send SIGKILL to the process if it has the label and still runs; return whether that is so."""
    if pid == os.getpid():
        return False
    with contextlib.suppress(OSError):  # it is gone, or another user's
        handle = os.pidfd_open(pid)  # before the check, so that the checked process is killed
        try:
            if _has_label(pid, label) and _start_ticks(pid) is not None:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return True
        finally:
            os.close(handle)
    return False


def _has_label(pid: int, label: str) -> bool:
    return _is_labelled(_environment(pid), label)


def _environment(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def _is_labelled(environment: bytes, label: str) -> bool:
    assignment = f"{LABEL_VARIABLE}={label}".encode()
    return any(
        variable.startswith(assignment) if label.endswith("/") else variable == assignment
        for variable in environment.split(b"\0")
    )
