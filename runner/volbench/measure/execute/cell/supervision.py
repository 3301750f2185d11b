"""The supervisor of a cell's server: launched by the agent, or waiting in the server's container."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from volbench.core.records.cell import CellPlaces
from volbench.errors import VolbenchError
from volbench.machine.engine.supervisor import Supervisor, launch_supervisor

SUPERVISOR_READY_S = 30.0


@contextmanager
def running_supervisor(paths: CellPlaces) -> Iterator[Supervisor]:
    """Yield the supervisor of the cell's control directory; launch it if `places` says so.

    Its server is killed when the block ends.
    """
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
