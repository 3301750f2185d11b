"""The source of the replica step: a second server, with a copy of the cell's data off the volume."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from volbench.core.records.base import Scalar
from volbench.core.records.facts import VolumeFacts
from volbench.errors import EnvironmentLacks, StepFailed, VolbenchError
from volbench.machine.engine.server import Server
from volbench.machine.engine.supervisor import Supervisor, launch_supervisor, supervisor_script
from volbench.machine.volume.copying import copy_tree
from volbench.machine.volume.facts.discovery import discover
from volbench.machine.volume.space import require_space
from volbench.measure.workload.interface import ServerHandle, StepContext

DIRECTORY = "source"
"""Below the control directory of the cell's server."""
SPARE_BYTES = 512 << 20
"""Redo, undo and temporary files of the second server."""
_SCRIPT = "supervisor.sh"
_LAUNCH = f'sh "$1/{_SCRIPT}" "$1" </dev/null >>"$1/mysqld.log" 2>&1 &'
_LAUNCH_TIMEOUT_S = 30.0
_OF_ONE_INSTANCE = ("auto.cnf", "binlog.*", "*-relay-bin*", "mysql-relay*", "ib_buffer_pool", "*.pem")
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
    """Return the cell's server. Raise EnvironmentLacks if volbench cannot start a second one beside it."""
    replica = server.own("this step starts a second server, the source", where=where)
    if replica.paths.supervisor == "shared":
        raise EnvironmentLacks(
            "this step starts a second server, the source, and the place of this server allows none",
            where=where,
            evidence="volbench did not start the server's container",
            next_step="run the suite with --target local, docker or kubernetes, without compose",
        )
    return replica


def require_separate_place(server: Server, volume: VolumeFacts, needed_bytes: int, *, where: str) -> None:
    """Raise EnvironmentLacks if the source's files would lie on the volume's disk, or have no space."""
    control = discover(server.control_dir)
    purpose = f"the source's data ({where})"
    next_step = (
        "set TMPDIR to a directory in memory or on another disk, such as TMPDIR=/dev/shm; in a cluster, use a"
        " volume that is not on the node's own disk"
    )
    if shares_a_disk(control, volume):
        raise EnvironmentLacks(
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

    Raises StepFailed, EnvironmentLacks.
    """
    control = replica.control_dir / DIRECTORY
    shutil.rmtree(control, ignore_errors=True)  # of an earlier step of this cell
    control.mkdir(mode=0o700)
    try:
        server_id = int(replica.query("SELECT @@GLOBAL.server_id")[0][0])
        replica.stop()
        ctx.progress("copying the data for the source", None)
        _copy_data(replica.data_dir, control / "data")
        with _second_supervisor(replica, control) as supervisor:
            replica.start(replica_options)
            source = _source(replica, control, supervisor)
            ctx.progress("starting the source", None)
            source.start({**_NEVER_SYNCED, "server_id": server_id % 1000 + 1, **options})
            yield source
    finally:
        shutil.rmtree(control, ignore_errors=True)  # what is left goes with the control directory


def _copy_data(data_dir: Path, destination: Path) -> None:
    copy_tree(data_dir, destination, reflink=False)
    destination.chmod(0o700)
    for pattern in _OF_ONE_INSTANCE:
        for path in destination.glob(pattern):
            path.unlink()


def _source(replica: Server, control: Path, supervisor: Supervisor) -> Server:
    inside = replica.paths.server_control_dir
    paths = replica.paths.model_copy(
        update={
            "data_dir": str(control / "data"),
            "control_dir": str(control),
            "server_data_dir": f"{inside}/{DIRECTORY}/data" if inside else "",
            "server_control_dir": f"{inside}/{DIRECTORY}" if inside else "",
        }
    )
    return Server(spec=replica.spec, paths=paths, supervisor=supervisor, port=_free_port())


@contextmanager
def _second_supervisor(replica: Server, control: Path) -> Iterator[Supervisor]:
    """Yield a supervisor beside the one of the cell's server, which must have no program running."""
    supervisor = _launched(replica, control)
    supervisor.wait_ready_for_commands(_LAUNCH_TIMEOUT_S)
    try:
        yield supervisor
    finally:
        with suppress(VolbenchError):  # the step's own failure matters more; the target ends what is left
            supervisor.kill()
        with suppress(VolbenchError):
            supervisor.quit()


def _launched(replica: Server, control: Path) -> Supervisor:
    if replica.paths.supervisor == "launch":
        return launch_supervisor(control)
    (control / _SCRIPT).write_bytes(supervisor_script())
    inside = f"{replica.paths.server_control_dir or replica.paths.control_dir}/{DIRECTORY}"
    ran = replica.supervisor.run(
        ["sh", "-c", _LAUNCH, "sh", inside], timeout_s=_LAUNCH_TIMEOUT_S, doing="launching the source's supervisor"
    )
    if ran.exit_code != 0:
        raise StepFailed("the source's supervisor did not start", where="source", evidence=ran.output[-500:])
    return Supervisor(control)


def _free_port() -> int:
    """Return a port of the loopback that is free here; a container of the server has a loopback of its own."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
