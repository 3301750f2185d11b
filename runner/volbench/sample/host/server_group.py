"""The control groups of a server that is a process of this machine: it may be moved while it runs."""

from __future__ import annotations

from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


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
            fields = self._state_file.read_text().split()
            if len(fields) != 3 or fields[1] != "running":
                return ""
            return (self._proc / fields[2] / "cgroup").read_text()
        except OSError:
            return ""

    def own(self) -> str:
        """/proc/PID/cgroup of this process, which is in the client's groups."""
        return (self._proc / "self" / "cgroup").read_text()
