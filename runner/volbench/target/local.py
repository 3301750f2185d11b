"""The local target: the agent is a child process on this machine, and so is the server.

A server that somebody else keeps under a supervisor (a container of docker/compose.yaml) is used instead where the
volume's option `control` names its control directory.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from volbench.errors import EnvironmentLacks
from volbench.records.cell import CellPlaces
from volbench.target.interface import Job, Placement
from volbench.target.processes import KnownProcess
from volbench.target.workspace import Workspace
from volbench.volume import ownership
from volbench.volume.interface import OpenVolume

AGENT_PID_FILE = "agent.pid"
AGENT_LOG = "agent.log"
SUPERVISOR_PID_FILE = "supervisor.pid"


@dataclass(frozen=True, kw_only=True)
class LocalPlacement:
    """An agent process in a session of its own, so that it goes on when the orchestrator ends."""

    out: Path
    places: CellPlaces | None

    def running(self) -> bool:
        """Whether the agent process is there."""
        agent = KnownProcess.from_file(self.out / AGENT_PID_FILE)
        return agent is not None and agent.running()

    def interrupt(self) -> None:
        """SIGTERM to the agent."""
        agent = KnownProcess.from_file(self.out / AGENT_PID_FILE)
        if agent is not None:
            agent.signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to agent, supervisor and what they started; a shared supervisor only kills its server."""
        pid_files = [self.out / AGENT_PID_FILE]
        if self.places is not None and self.places.supervisor == "shared":
            _tell_supervisor(Path(self.places.control_dir), "kill")
        elif self.places is not None:
            pid_files.append(Path(self.places.control_dir) / SUPERVISOR_PID_FILE)
        for path in pid_files:
            process = KnownProcess.from_file(path)
            if process is not None:
                process.signal(signal.SIGKILL, group=True)
                process.wait(10.0)

    def evidence(self) -> str:
        """The agent's last log lines."""
        return log_tail(self.out / AGENT_LOG)

    def remove(self) -> None:
        """End what still runs, then remove the cell's directories on the volume and on this machine."""
        self.kill()
        if self.places is None:
            return
        if ownership.is_ours(Path(self.places.volume_dir)):
            ownership.erase_contents(Path(self.places.volume_dir))
        for directory in _own_directories(self.places):
            if directory.exists():
                ownership.remove(directory)


class LocalTarget:
    """Child processes; the server is the mysqld or mariadbd of this machine."""

    name = "local"

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def check(self) -> None:
        """Nothing to ask here: the agent's own checks name what the server or a step lacks."""

    def places(self, cell_id: str, volume: OpenVolume | None) -> CellPlaces | None:
        """Host paths, since the agent runs on the host."""
        workspace = self._workspace
        volume_dir = (
            workspace.scratch_dir(cell_id) if volume is None else host_directory(volume) / workspace.volume_folder
        )
        shared = volume.spec.options.get("control") if volume else None
        return CellPlaces(
            volume_dir=str(volume_dir),
            data_dir=str(volume_dir / "data"),
            control_dir=shared or str(workspace.control_dir(cell_id)),
            supervisor="shared" if shared else "launch",
            emulator_socket=str(volume.emulator_socket or "") if volume else "",
            template_dir=str(workspace.templates),
            scratch_dir=str(workspace.scratch_dir(cell_id)),
        )

    def place(self, job: Job) -> Placement:
        """Start the agent as a child process in its own session."""
        places = job.places
        if places is not None:
            for directory in (Path(places.volume_dir), *_own_directories(places)):
                self._workspace.claim(directory)
            Path(places.template_dir).mkdir(parents=True, exist_ok=True)
        start_agent(job)
        return self.find(job)

    def find(self, job: Job) -> Placement:
        """The placement that the pid files in the cell's directories name."""
        return LocalPlacement(out=job.out, places=job.places)

    def close_volume(self, volume: OpenVolume) -> None:
        """Remove the run's directory from a volume; a shared supervisor has done its work."""
        if "control" in volume.spec.options:
            _tell_supervisor(Path(volume.spec.options["control"]), "quit")
        directory = host_directory(volume) / self._workspace.volume_folder
        if directory.exists():
            ownership.remove(directory)

    def clean_up(self) -> None:
        """Remove control and scratch directories."""
        for directory in self._workspace.leftovers():
            ownership.remove(directory)


def _own_directories(places: CellPlaces) -> list[Path]:
    """Control and scratch directory, save a control directory that others keep."""
    names = [places.scratch_dir] if places.supervisor == "shared" else [places.control_dir, places.scratch_dir]
    return [Path(name) for name in names]


def _tell_supervisor(control: Path, word: str) -> None:
    """Write a command to a supervisor's FIFO, if anybody reads it."""
    try:
        descriptor = os.open(control / "command", os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return  # nobody is there
    try:
        os.write(descriptor, f"{word}\n".encode())
    finally:
        os.close(descriptor)


def host_directory(volume: OpenVolume) -> Path:
    """The volume's directory on this machine. Raises EnvironmentLacks when it has none."""
    if volume.host_path is None:
        raise EnvironmentLacks(
            f"volume {volume.name} has no directory on this machine",
            where=f"volume {volume.spec.text}",
            next_step="use --target docker for docker-volume volumes, or give a path: volume",
        )
    return volume.host_path


def start_agent(job: Job) -> None:
    """Start `volbench cell run|prepare` for the job, detached; pid file and log are in its directory."""
    command = [
        sys.executable,
        "-m",
        "volbench",
        "cell",
        job.kind,
        str(job.out / "cell.json"),
        "--out",
        str(job.out),
    ]
    with (job.out / AGENT_LOG).open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    known = KnownProcess.of(process.pid)
    if known is not None:
        known.write(job.out / AGENT_PID_FILE)


def log_tail(path: Path, *, lines: int = 12) -> str:
    """The last lines of a log file; empty when there is none."""
    try:
        text = path.read_bytes()[-16384:].decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
