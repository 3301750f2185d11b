"""The source of the replica step: a second server, with a copy of the cell's data off the volume."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from volbench.core.records.base import Scalar
from volbench.core.records.facts import VolumeFacts
from volbench.core.records.steps.replica import KIND
from volbench.errors import MissingPrerequisite
from volbench.machine.engine.server import Server
from volbench.machine.engine.supervisor import Supervisor
from volbench.machine.volume.facts.discovery import discover
from volbench.machine.volume.space import require_space
from volbench.measure.workload.further_server import control_inside, copy_data, further_supervisor, own_server
from volbench.measure.workload.interface import ServerHandle, StepContext

DIRECTORY = "source"
"""Below the control directory of the cell's server."""
SPARE_BYTES = 512 << 20
"""Redo, undo and temporary files of the second server."""
_NEVER_SYNCED: dict[str, Scalar] = {
    # The source must not be the limit, and its writes must wait for nothing: it is lost with the cell.
    "innodb_flush_log_at_trx_commit": 0,
    "sync_binlog": 0,
    "innodb_doublewrite": False,
    "innodb_flush_method": "fsync",
    "performance_schema": False,
    "log_bin": True,
}


def replica_of(server: ServerHandle, *, where: str) -> Server:
    """Return the cell's server. Raise MissingPrerequisite if volbench cannot start a second one beside it."""
    return own_server(server, purpose=KIND.own_server, where=where)


def require_separate_place(server: Server, volume: VolumeFacts, needed_bytes: int, *, where: str) -> None:
    """Raise MissingPrerequisite if the source's files would lie on the volume's disk, or have no space."""
    control = discover(server.control_dir)
    purpose = f"the source's data ({where})"
    next_step = (
        "set TMPDIR to a directory in memory or on another disk, such as TMPDIR=/dev/shm; in a cluster, use a"
        " volume that is not on the node's own disk"
    )
    if shares_a_disk(control, volume):
        raise MissingPrerequisite(
            "the source's files would be on the disk of the measured volume",
            where=where,
            evidence=f"{server.control_dir} and {volume.path} are both on {volume.disk or volume.device_number}",
            next_step=next_step,
        )
    require_space(server.control_dir, needed_bytes + SPARE_BYTES, purpose=purpose, next_step=next_step)


def shares_a_disk(first: VolumeFacts, second: VolumeFacts) -> bool:
    """Return whether writes to one directory load the other one's disk, as far as that is visible."""
    if first.memory_backed or second.memory_backed:
        return False
    same_disk = first.disk is not None and first.disk == second.disk
    return same_disk or (first.device_number is not None and first.device_number == second.device_number)


@contextmanager
def running_source(
    replica: Server, ctx: StepContext, *, options: Mapping[str, Scalar], replica_options: Mapping[str, Scalar]
) -> Iterator[Server]:
    """Yield a running source with a copy of the cell's data; both servers have been (re)started.

    The source and all its files are gone after the block; the cell's server runs on.

    Args:
        options, replica_options: my.cnf options of the source and of the cell's server.

    Raises StepFailed, MissingPrerequisite.
    """
    control = replica.control_dir / DIRECTORY
    shutil.rmtree(control, ignore_errors=True)  # of an earlier step of this cell
    control.mkdir(mode=0o700)
    try:
        server_id = int(replica.query("SELECT @@GLOBAL.server_id")[0][0])
        replica.stop()
        ctx.progress("copying the data for the source", None)
        copy_data(replica.data_dir, control / "data")
        with further_supervisor(replica, control) as supervisor:
            replica.start(replica_options)
            source = _source(replica, control, supervisor)
            ctx.progress("starting the source", None)
            source.start({**_NEVER_SYNCED, "server_id": server_id % 1000 + 1, **options})
            yield source
    finally:
        shutil.rmtree(control, ignore_errors=True)  # what is left goes with the control directory


def _source(replica: Server, control: Path, supervisor: Supervisor) -> Server:
    inside = control_inside(replica, control)
    paths = replica.paths.model_copy(
        update={
            "data_dir": str(control / "data"),
            "control_dir": str(control),
            "server_data_dir": f"{inside}/data" if inside else "",
            "server_control_dir": inside,
        }
    )
    return Server(spec=replica.spec, paths=paths, supervisor=supervisor, port=_free_port())


def _free_port() -> int:
    """Return a port of the loopback that is free here; a container of the server has a loopback of its own."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
