"""A further server of a cell: its supervisor next to the one of the cell's server, and a copy of the data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from volbench.core.records.steps.kind import no_further_server
from volbench.errors import StepFailed, VolbenchError
from volbench.machine.engine.server import Server
from volbench.machine.engine.supervisor import Supervisor, launch_supervisor, supervisor_script
from volbench.machine.volume.copying import copy_tree
from volbench.measure.workload.interface import ServerHandle

_SCRIPT = "supervisor.sh"
_LAUNCH = f'sh "$1/{_SCRIPT}" "$1" </dev/null >>"$1/mysqld.log" 2>&1 &'
_LAUNCH_TIMEOUT_S = 30.0
_OF_ONE_INSTANCE = ("auto.cnf", "binlog.*", "*-relay-bin*", "mysql-relay*", "ib_buffer_pool", "*.pem")


def own_server(server: ServerHandle, *, purpose: str, where: str) -> Server:
    """Return the cell's server. Raise MissingPrerequisite if volbench cannot start a further one next to it.

    Args:
        purpose: what the step starts, such as "this step starts a second server, the source".
    """
    first = server.own(purpose, where=where)
    if first.paths.supervisor == "shared":
        raise no_further_server(purpose, where=where, evidence="volbench did not start the server's container")
    return first


def copy_data(data_dir: Path, destination: Path) -> None:
    """Copy a stopped server's data, in full, without what belongs to that server alone."""
    copy_tree(data_dir, destination, reflink=False)
    destination.chmod(0o700)
    for pattern in _OF_ONE_INSTANCE:
        for path in destination.glob(pattern):
            path.unlink()


def control_inside(first: Server, control: Path) -> str:
    """Return a directory below the first server's control directory as the server sees it; empty: by its path."""
    inside = first.paths.server_control_dir
    return f"{inside}/{control.relative_to(first.control_dir)}" if inside else ""


@contextmanager
def further_supervisor(first: Server, control: Path) -> Iterator[Supervisor]:
    """Yield a supervisor next to the one of the cell's server, which must have no program running.

    Args:
        control: its control directory, below that of the first server.
    """
    supervisor = _launched(first, control)
    supervisor.wait_ready_for_commands(_LAUNCH_TIMEOUT_S)
    try:
        yield supervisor
    finally:
        with suppress(VolbenchError):  # the step's own failure matters more; the target ends what is left
            supervisor.kill()
        with suppress(VolbenchError):
            supervisor.quit()


def _launched(first: Server, control: Path) -> Supervisor:
    if first.paths.supervisor == "launch":
        return launch_supervisor(control)
    (control / _SCRIPT).write_bytes(supervisor_script())
    inside = control_inside(first, control) or str(control)
    ran = first.supervisor.run(
        ["sh", "-c", _LAUNCH, "sh", inside], timeout_s=_LAUNCH_TIMEOUT_S, doing="launching a further supervisor"
    )
    if ran.exit_code != 0:
        raise StepFailed(
            "the supervisor of a further server did not start", where="server", evidence=ran.output[-500:]
        )
    return Supervisor(control)
