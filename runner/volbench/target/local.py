"""The local target: the agent is a child process on this machine, and so is the server.

A server that somebody else keeps under a supervisor (a container of docker/compose.yaml) is used instead where the
volume's option `control` names its control directory.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from volbench.base import programs
from volbench.errors import EnvironmentLacks, StepFailed, VolbenchError
from volbench.records.cell import CellPlaces
from volbench.target.interface import Job, Placement
from volbench.target.processes import LABEL_VARIABLE, KnownProcess, kill_labelled
from volbench.target.workspace import Workspace
from volbench.volume import ownership
from volbench.volume.interface import OpenVolume

AGENT_PID_FILE = "agent.pid"
AGENT_LOG = "agent.log"
_GATE = 'read -r _ && exec "$@" </dev/null'
"""The agent begins when its pid file is there; when the orchestrator dies before that, it never does."""


@dataclass(frozen=True, kw_only=True)
class LocalPlacement:
    """An agent process in a session of its own, so that it goes on when the orchestrator ends."""

    out: Path
    places: CellPlaces | None
    label: str
    control_dir: Path

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
        """SIGKILL to the agent and all that it started; a shared supervisor only kills its server."""
        if self.places is not None and self.places.supervisor == "shared":
            _tell_supervisor(Path(self.places.control_dir), "kill")
        agent = KnownProcess.from_file(self.out / AGENT_PID_FILE)
        if agent is not None:
            agent.signal(signal.SIGKILL)
        if not kill_labelled(self.label):
            raise StepFailed(
                "processes of the cell do not end although they were killed",
                where=f"cell {self.label}",
                evidence="a process that waits for a volume that does not answer cannot be killed",
                next_step="see `ps -eo pid,stat,args` for state D, and mend or unmount (-f) the volume",
            )

    def evidence(self) -> str:
        """The agent's last log lines."""
        return log_tail(self.out / AGENT_LOG)

    def why_ended(self) -> VolbenchError | None:
        """Not known; the evidence has the states."""
        return None

    def remove(self) -> None:
        """End what still runs, then remove the cell's directories on the volume and on this machine."""
        self.kill()
        if self.places is not None and ownership.is_owned(Path(self.places.volume_dir)):
            ownership.erase_contents(Path(self.places.volume_dir))
        for directory in _own_directories(self.places, self.control_dir):
            if directory.exists():
                ownership.remove(directory)


class LocalTarget:
    """Child processes; the server is the mysqld or mariadbd of this machine."""

    name = "local"
    template_on_volume = False
    parallel = 1

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._agents: list[subprocess.Popen[bytes]] = []

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
        control_dir = self._workspace.control_dir(job.cell.cell_id)
        for directory in _own_directories(places, control_dir):
            self._workspace.claim(directory)
        if places is not None:
            self._workspace.claim(Path(places.volume_dir))
            Path(places.template_dir).mkdir(parents=True, exist_ok=True)
        private = {} if places is not None else {"TMPDIR": str(control_dir)}  # for option files
        self._agents = [one for one in self._agents if one.poll() is None]
        self._agents.append(start_agent(job, {LABEL_VARIABLE: _label(job), **private}))
        return self.find(job)

    def find(self, job: Job) -> Placement:
        """The placement that the pid files in the cell's directories name."""
        control_dir = self._workspace.control_dir(job.cell.cell_id)
        return LocalPlacement(out=job.out, places=job.places, label=_label(job), control_dir=control_dir)

    def close_volume(self, volume: OpenVolume) -> None:
        """Remove the run's directory from a volume; a shared supervisor has done its work."""
        if "control" in volume.spec.options:
            _tell_supervisor(Path(volume.spec.options["control"]), "quit")
        directory = host_directory(volume) / self._workspace.volume_folder
        if directory.exists():
            ownership.remove(directory)

    def clean_up(self) -> None:
        """End what still runs of the run, remove control and scratch directories."""
        kill_labelled(f"{self._workspace.run_id}/")
        self._agents = [one for one in self._agents if one.poll() is None]
        for directory in self._workspace.leftovers():
            ownership.remove(directory)


def _label(job: Job) -> str:
    return f"{job.cell.run_id}/{job.cell.cell_id}"


def _own_directories(places: CellPlaces | None, control_dir: Path) -> list[Path]:
    """Control and scratch directory, save a control directory that others keep."""
    if places is None:
        return [control_dir]
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


def start_agent(job: Job, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start `volbench cell run|prepare` for the job, detached; pid file and log are in its directory."""
    cell_file = str(job.out / "cell.json")
    command = [sys.executable, "-m", "volbench", "cell", job.kind, cell_file, "--out", str(job.out)]
    with (job.out / AGENT_LOG).open("ab") as log:
        process = programs.Popen(
            ["sh", "-c", _GATE, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env={**os.environ, "PYTHONUNBUFFERED": "1", **variables},
        )
    known = KnownProcess.of(process.pid)
    if known is not None:
        known.write(job.out / AGENT_PID_FILE)
    assert process.stdin is not None  # noqa: S101 - a pipe was asked for
    with suppress(BrokenPipeError), process.stdin as gate:  # it was killed already: `running` will tell
        gate.write(b"go\n")
    return process


def log_tail(path: Path, *, lines: int = 12) -> str:
    """The last lines of a log file; empty when there is none."""
    try:
        text = path.read_bytes()[-16384:].decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
