"""What can be seen of a server that volbench started: its processes, and the kernel's accounts of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from volbench.core.base import safe_files
from volbench.core.records.cell import CellPlaces
from volbench.machine.engine.supervisor import STATE_FILE, SUPERVISOR_PID_FILE
from volbench.machine.placement.processes import KnownProcess
from volbench.measure.sample.cgroup.cgroup_cpu import find_cpu_files
from volbench.measure.sample.cgroup.cgroup_io import find_directory
from volbench.measure.sample.cgroup.cgroup_pod import CGROUPS, cgroup_root_of, own_cpu_files, own_io_directory

SERVER_CGROUP_FILE = "cgroup"
CONTROL_BYTES_MAX = 1 << 16
"""In the control directory: /proc/PID/cgroup of a server in a container, written by the target."""
SERVER_PID_FILE = "container.pid"
"""In the control directory: first process of the server's container, where the agent shares its process ids."""
TASK_FILE = "tasks.json"
"""In the control directory: the target's figures of the cell's processes, which the agent cannot see."""
OWN_GROUP_FILE = Path("/proc/self/cgroup")
CGROUP_ROOTS = (Path("/volbench/cgroup"), Path("/sys/fs/cgroup"))


@dataclass(frozen=True, kw_only=True)
class ServerAccounts:
    """The kernel's accounts of what server and client use; empty if not visible."""

    server_io: str = ""
    server_cpu: tuple[str, ...] = ()
    client_cpu: tuple[str, ...] = ()


def accounts_of(paths: CellPlaces) -> ServerAccounts:
    """Return the accounts of a cell's server and of this process."""
    try:
        server = cgroup_root_of(int(_control_file(paths, SERVER_PID_FILE)))
    except (OSError, ValueError):
        pass  # not in a pod
    else:
        return ServerAccounts(
            server_io=str(own_io_directory(server) or ""),
            server_cpu=own_cpu_files(server),
            client_cpu=own_cpu_files(CGROUPS),
        )
    group = _server_group(paths)
    return ServerAccounts(
        server_io=_cgroup_dir(group),
        server_cpu=_cpu_files(group),
        client_cpu=_client_cpu_files() if group else (),
    )


def server_pids(paths: CellPlaces) -> tuple[int, ...]:
    """Return the pid of the server's starter; empty if the server is not visible.

    Without it, the server's use of the machine cannot be separated from that of other processes.
    """
    if paths.supervisor == "launch":
        supervisor = KnownProcess.from_file(Path(paths.control_dir) / SUPERVISOR_PID_FILE)
        return (supervisor.pid,) if supervisor else ()
    try:
        return (int(_control_file(paths, SERVER_PID_FILE)),)
    except (OSError, ValueError):
        return ()


def state_file(paths: CellPlaces) -> str:
    """Return where the supervisor says which process its server is.

    Empty when that is no process of this machine.
    """
    return str(Path(paths.control_dir) / STATE_FILE) if paths.supervisor == "launch" else ""


def _server_group(paths: CellPlaces) -> str:
    """Return what the target wrote of the server's control group; empty if the server has none of its own.

    A server that is started here is followed by its process, see `state_file`.
    """
    try:
        return _control_file(paths, SERVER_CGROUP_FILE)
    except (OSError, ValueError):
        return ""


def _control_file(paths: CellPlaces, name: str) -> str:
    """Return what a target wrote into the control directory, where the server's container may write too.

    Raises OSError, ValueError.
    """
    return safe_files.read_beside(Path(paths.control_dir) / name, bytes_max=CONTROL_BYTES_MAX).decode()


def _cpu_files(group: str) -> tuple[str, ...]:
    """Return the files of a group's CPU time; none if not visible."""
    candidates = (find_cpu_files(group, root) for root in CGROUP_ROOTS) if group else iter(())
    return next((files for files in candidates if files), ())


def _client_cpu_files() -> tuple[str, ...]:
    """Return the files of this container's CPU time.

    In version 2 an engine gives a container a namespace in which its own group is the root of the hierarchy.
    """
    return _cpu_files(OWN_GROUP_FILE.read_text()) or own_cpu_files(CGROUPS)


def _cgroup_dir(group: str) -> str:
    """Return the directory of a group's I/O account; empty if not visible."""
    candidates = (find_directory(group, root) for root in CGROUP_ROOTS) if group else iter(())
    return str(next((directory for directory in candidates if directory is not None), ""))
