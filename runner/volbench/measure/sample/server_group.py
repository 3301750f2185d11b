"""The control groups of a server that is a process of this machine: it may be moved while it runs."""

from __future__ import annotations

from pathlib import Path

from volbench.core.base import safe_files

CGROUPS = Path("/sys/fs/cgroup")
_STATE_BYTES_MAX = 4096


class ServerGroup:
    """Asks the supervisor's state file for the server's process, and the kernel for its groups.

    Args:
        state_file: one line, `SEQ running PID` while the server runs.
        proc: procfs.
    """

    def __init__(self, state_file: Path, proc: Path = Path("/proc")) -> None:
        self._state_file = state_file
        self._proc = proc

    def text(self) -> str:
        """/proc/PID/cgroup of the server now; empty while it does not run."""
        try:
            state = safe_files.read_beside(self._state_file, bytes_max=_STATE_BYTES_MAX)
            fields = state.decode("ascii", "replace").split()
            if len(fields) != 3 or fields[1] != "running" or not fields[2].isdecimal():
                return ""
            return (self._proc / fields[2] / "cgroup").read_text()
        except OSError:
            return ""

    def own(self) -> str:
        """/proc/PID/cgroup of this process, which is in the client's groups."""
        return (self._proc / "self" / "cgroup").read_text()
