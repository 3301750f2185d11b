"""The local target: agent and server are child processes on this machine.

If the volume's option `control` names the control directory of another supervised server (a container of
docker/compose.yaml), cells use that server.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from volbench.core.base import ownership, programs, safe_files
from volbench.core.base.python import python_command
from volbench.core.records.cell import CellPlaces, CellSpec
from volbench.core.records.own_files import dump_directories
from volbench.core.records.run import PlannedCell
from volbench.errors import MissingPrerequisite, StepFailed, VolbenchError
from volbench.machine.placement.interface import Job, Placement, TemplateScope
from volbench.machine.placement.layout import component_places
from volbench.machine.placement.processes import LABEL_VARIABLE, KnownProcess, kill_labelled
from volbench.machine.placement.workspace import Workspace
from volbench.machine.volume.interface import OpenVolume

AGENT_PID_FILE = "agent.pid"
AGENT_LOG = "agent.log"
_GATE = 'read -r _ && exec "$@" </dev/null'
"""The agent starts after its pid file is written; if the orchestrator dies before that, the agent never starts."""


@dataclass(frozen=True, kw_only=True)
class CellDirectories:
    """Where a cell's agent and server work, but for the cell's results.

    Args:
        own: of this cell, on this machine; they are removed with it.
        on_volumes: of the run, on each volume; they are emptied with the cell.
        dumps: of this cell, where it dumps to other volumes.
        cached: of all runs on this machine; they stay.
        shared_control: of a supervisor that other cells use, too.
    """

    own: tuple[Path, ...]
    on_volumes: tuple[Path, ...] = ()
    dumps: tuple[Path, ...] = ()
    cached: tuple[Path, ...] = ()
    shared_control: Path | None = None


@dataclass(frozen=True, kw_only=True)
class LocalPlacement:
    """An agent process in a session of its own, so that it survives the orchestrator."""

    out: Path
    label: str
    directories: CellDirectories

    def running(self) -> bool:
        """Return whether the agent process runs."""
        return self._agent() is not None

    def wait_for_end(self, seconds: float) -> None:
        """Wait until the agent process ends, at most so long."""
        agent = self._agent()
        if agent is not None:
            agent.wait(seconds)

    def interrupt(self) -> None:
        """SIGTERM to the agent."""
        agent = self._agent()
        if agent is not None:
            agent.signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the agent and all its descendants; a shared supervisor only kills its server."""
        if self.directories.shared_control is not None:
            _send_to_supervisor(self.directories.shared_control, "kill")
        agent = self._agent()
        if agent is not None:
            agent.signal(signal.SIGKILL)
        if not kill_labelled(self.label):
            raise StepFailed(
                "processes of the cell do not end after SIGKILL",
                where=f"cell {self.label}",
                evidence="a process that waits for a hanging volume cannot be killed",
                next_step="look for state D in `ps -eo pid,stat,args`, then repair or unmount (-f) the volume",
            )

    def _agent(self) -> KnownProcess | None:
        """Return the process of the pid file while it runs, if it is of this cell.

        The run may come from somebody else.
        """
        agent = KnownProcess.from_file(self.out / AGENT_PID_FILE)
        return agent if agent is not None and agent.has_label(self.label) else None

    def evidence(self) -> str:
        """Return the agent's last log lines."""
        return log_tail(self.out / AGENT_LOG)

    def termination_cause(self) -> VolbenchError | None:
        """Return None: unknown; the evidence has the states."""
        return None

    def remove(self) -> None:
        """End running processes, then remove the cell's directories on the volume and on this machine."""
        self.kill()
        for volume_dir in self.directories.on_volumes:
            if ownership.is_owned(volume_dir):
                ownership.erase_contents(volume_dir)
        for directory in (*self.directories.own, *self.directories.dumps):
            if directory.exists():
                ownership.remove(directory)


class LocalTarget:
    """Child processes; the server is the mysqld or mariadbd of this machine."""

    name = "local"
    templates: TemplateScope = "machine"
    parallel = 1

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._agents: list[subprocess.Popen[bytes]] = []
        self._next: tuple[str, subprocess.Popen[bytes]] | None = None

    def check(self) -> None:
        """Do nothing: the agent checks the server and the steps itself."""

    def lane_of(self, cell: PlannedCell) -> str:  # noqa: ARG002
        """Return nothing: this machine runs one cell at a time."""
        return ""

    def with_server(self, cell: CellSpec, volume: OpenVolume | None) -> CellSpec:
        """Return the cell with host paths, since the agent runs on the host."""
        workspace, cell_id = self._workspace, cell.cell_id
        volume_dir = (
            workspace.scratch_dir(cell_id) if volume is None else host_directory(volume) / workspace.volume_folder
        )
        shared = volume.spec.options.get("control") if volume else None
        paths = CellPlaces(
            volume_dir=str(volume_dir),
            data_dir=str(volume_dir / "data"),
            control_dir=shared or str(workspace.control_dir(cell_id)),
            supervisor="shared" if shared else "launch",
            emulator_socket=str(volume.emulator_socket or "") if volume else "",
            template_dir=str(workspace.templates),
            scratch_dir=str(workspace.scratch_dir(cell_id)),
            layout=component_places(
                volume,
                directory=lambda component, _: str(host_directory(component) / workspace.volume_folder),
                socket=lambda component, _: str(component.emulator_socket or ""),
            ),
        )
        return cell.model_copy(update={"places": paths})

    def launch(self, job: Job) -> Placement:
        """Start the agent as a child process in its own session."""
        directories = self.directories(job)
        for directory in (*directories.own, *directories.on_volumes):
            self._workspace.claim(directory)
        for directory in directories.dumps:
            ownership.claim(directory, purpose="dump", run_id=job.cell.run_id)
        for directory in directories.cached:
            directory.mkdir(parents=True, exist_ok=True)
        self._agents = [agent for agent in self._agents if agent.poll() is None]
        self._agents.append(
            self._waiting_agent(job) or start_agent(job, {LABEL_VARIABLE: _label(job), **self.variables(job)})
        )
        return self.find(job)

    def stand_by(self, cell_id: str) -> None:
        """Start the agent of the next cell, which imports its modules and waits; one at a time."""
        label = f"{self._workspace.run_id}/{cell_id}"
        if self._next is not None and self._next[0] == label and self._next[1].poll() is None:
            return
        self._dismiss()
        self._next = (
            label,
            programs.Popen(
                python_command("-m", "volbench", "cell", "stand-by"),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=programs.python_environment({"PYTHONUNBUFFERED": "1", LABEL_VARIABLE: label}),
            ),
        )

    def _dismiss(self) -> None:
        """Let the agent that stands by end: its turn does not come."""
        if self._next is not None:
            agent, self._next = self._next[1], None
            _close(agent)
            self._agents.append(agent)

    def _waiting_agent(self, job: Job) -> subprocess.Popen[bytes] | None:
        """Return the agent that stands by for this job, told to begin; None if there is none."""
        if job.kind != "run" or self._next is None or self._next[0] != _label(job):
            return None
        agent, self._next = self._next[1], None
        process = KnownProcess.of(agent.pid)
        if process is None:  # it has ended, and an agent with a log says why
            _close(agent)
            return None
        process.write(job.out / AGENT_PID_FILE)
        assert agent.stdin is not None
        with suppress(BrokenPipeError), agent.stdin as gate:
            gate.write(f"{json.dumps(str(job.out))}\n".encode())
        return agent

    def directories(self, job: Job) -> CellDirectories:
        """Return where the job's agent and server work."""
        paths = job.cell.own_places
        shared = paths.supervisor == "shared"
        names = [paths.scratch_dir] if shared else [paths.control_dir, paths.scratch_dir]
        return CellDirectories(
            own=tuple(map(Path, names)),
            on_volumes=(Path(paths.volume_dir), *(Path(component.volume_dir) for component in paths.layout)),
            dumps=tuple(dump_directories(job.cell)),
            cached=(Path(paths.template_dir),),
            shared_control=Path(paths.control_dir) if shared else None,
        )

    def variables(self, job: Job) -> dict[str, str]:  # noqa: ARG002
        """Return variables of the agent's environment."""
        return {}

    def find(self, job: Job) -> Placement:
        """Return the placement of the pid files in the cell's directories."""
        return LocalPlacement(out=job.out, label=_label(job), directories=self.directories(job))

    def close_volume(self, volume: OpenVolume) -> None:
        """Remove the run's directory from a volume. Its shared supervisor goes on: who started it ends it.

        Ended here, it would be the first container of a compose project to exit, and `up --exit-code-from runner`
        would stop the runner before its verdict.
        """
        for component in volume.all:
            directory = host_directory(component) / self._workspace.volume_folder
            if directory.exists():
                ownership.remove(directory)

    def clean_up(self) -> None:
        """End running processes of the run; remove control and scratch directories."""
        self._dismiss()
        kill_labelled(f"{self._workspace.run_id}/")
        self._agents = [agent for agent in self._agents if agent.poll() is None]
        for directory in self._workspace.leftovers():
            ownership.remove(directory)


def _close(agent: subprocess.Popen[bytes]) -> None:
    assert agent.stdin is not None
    with suppress(BrokenPipeError):
        agent.stdin.close()


def _label(job: Job) -> str:
    return f"{job.cell.run_id}/{job.cell.cell_id}"


def _send_to_supervisor(control: Path, command: str) -> None:
    """Write a command to a supervisor's FIFO, if a supervisor reads it."""
    try:
        descriptor = safe_files.open_pipe(control / "command")
    except OSError:
        return  # no supervisor
    try:
        os.write(descriptor, f"{command}\n".encode())
    finally:
        os.close(descriptor)


def host_directory(volume: OpenVolume) -> Path:
    """Return the volume's directory on this machine. Raise MissingPrerequisite if it has none."""
    if volume.host_path is None:
        raise MissingPrerequisite(
            f"volume {volume.name} has no directory on this machine",
            where=f"volume {volume.spec.text}",
            next_step="use --target docker for docker-volume volumes, or give a path: volume",
        )
    return volume.host_path


def start_agent(job: Job, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start `volbench cell run|prepare` for the job, detached; pid file and log are in its directory."""
    cell_file = str(job.out / "cell.json")
    command = python_command("-m", "volbench", "cell", job.kind, cell_file, "--out", str(job.out))
    with (job.out / AGENT_LOG).open("ab") as log:
        process = programs.Popen(
            ["sh", "-c", _GATE, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env=programs.python_environment({"PYTHONUNBUFFERED": "1", **variables}),
        )
    agent = KnownProcess.of(process.pid)
    if agent is not None:
        agent.write(job.out / AGENT_PID_FILE)
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as gate:  # the agent may have been killed already
        gate.write(b"go\n")
    return process


_LOG_END_BYTES = 16384


def log_tail(path: Path, *, lines: int = 12) -> str:
    """Return the last lines of a log file; empty without one."""
    try:
        text = safe_files.read_end(path, bytes_max=_LOG_END_BYTES).decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
