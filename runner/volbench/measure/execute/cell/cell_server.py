"""The cell's server: one that volbench starts under a supervisor, or one that runs already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from volbench.core.records.cell import CellPlaces, CellSpec
from volbench.errors import EnvironmentLacks, VolbenchError
from volbench.machine.engine.server import AttachedServer, Server
from volbench.machine.engine.supervisor import Supervisor, launch_supervisor

SUPERVISOR_READY_S = 30.0
CellServer = Server | AttachedServer


@contextmanager
def server_of(cell: CellSpec) -> Iterator[CellServer]:
    """Yield a cell's server, not yet started; the server is stopped when the block ends.

    An attached server is left alone. Raises EnvironmentLacks.
    """
    if cell.attach is not None:
        with AttachedServer(cell.attach) as attached:
            yield attached
        return
    if cell.places is None:
        raise EnvironmentLacks(
            "the cell has neither places nor a server to attach to", where=f"cell {cell.cell_id}"
        )
    with running_supervisor(cell.places) as supervisor:
        yield Server(spec=cell.server, paths=cell.places, supervisor=supervisor)


@contextmanager
def running_supervisor(paths: CellPlaces) -> Iterator[Supervisor]:
    """Yield the supervisor of the cell's control directory; launch it if `places` says so."""
    control = Path(paths.control_dir)
    supervisor = launch_supervisor(control) if paths.supervisor == "launch" else Supervisor(control)
    supervisor.wait_ready_for_commands(SUPERVISOR_READY_S)
    try:
        yield supervisor
    finally:
        with suppress(VolbenchError):  # the cell's own failure matters more than a failure of the cleanup
            supervisor.kill()  # on a volume that is full, a server may wait for ever when asked to shut down
        if paths.supervisor != "shared":
            with suppress(VolbenchError):
                supervisor.quit()
