"""The docker target: a server container under the supervisor and an agent container, for each cell.

Both share the data, control and template directories and nothing else: no network, no capabilities, no Docker
socket. They run as one unprivileged user.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound, NotFound

from volbench.base import docker_engine, safe_files
from volbench.errors import EnvironmentLacks, StepFailed, VolbenchError
from volbench.placement.docker.images import server_image, tools_image
from volbench.placement.interface import Job, Placement
from volbench.placement.workspace import Workspace
from volbench.records.cell import CellPlaces
from volbench.records.own_files import own_directories
from volbench.volume import ownership
from volbench.volume.interface import OpenVolume
from volbench.volume.task_account import keep_task_file, socket_peer

ROLES = ("agent", "server")
LABEL_RUN = "org.volbench.run"
LABEL_CELL = "org.volbench.cell"
SERVER_UID = 999
"""The mysql user of the official image; used when the orchestrator is root."""
ENGINE_RETRY_S = 1.0
SUPERVISOR_SCRIPT = "supervisor.sh"
SERVER_CGROUP_FILE = "cgroup"
"""In the control directory: /proc/PID/cgroup of the server container, for the agent's samplers."""
TASK_FILE = "tasks.json"
"""In the control directory: CPU times of the containers' processes, for the agent's samplers."""

INSIDE = CellPlaces(
    volume_dir="/volbench/volume",
    data_dir="/volbench/volume/data",
    control_dir="/volbench/control",
    template_dir="/volbench/templates",
    scratch_dir="/volbench/scratch",
    supervisor="waiting",
)
"""Paths in both containers."""
INSIDE_OUT = "/volbench/out"
INSIDE_NAMED_VOLUME = "/volbench/named"
INSIDE_CGROUP = "/volbench/cgroup"
INSIDE_EMULATOR = "/volbench/emulator.sock"


@dataclass(frozen=True, kw_only=True)
class DockerPlacement:
    """Two containers with the cell's labels."""

    client: docker.DockerClient
    run_id: str
    cell_id: str
    remove_files: Callable[[], None]
    _waits: list[threading.Thread] = field(default_factory=list)
    """The thread that waits for the agent's end: asking the engine again and again would load the machine."""

    def running(self) -> bool:
        """Return whether the agent's container runs; a created but never started one does not."""
        if self._waits and self._waits[-1].is_alive():
            return True
        agent = self._container("agent")
        if agent is None or agent.status not in {"running", "restarting", "paused"}:
            return False
        self._waits.append(threading.Thread(target=_wait_for_container, args=(agent.id,), daemon=True))
        self._waits[-1].start()
        return True

    def wait_for_end(self, seconds: float) -> None:
        """Wait until the agent's container may have ended, at most so long."""
        if self._waits:
            self._waits[-1].join(seconds)

    def interrupt(self) -> None:
        """SIGTERM to the agent."""
        self._signal("agent", "SIGTERM")

    def kill(self) -> None:
        """SIGKILL to both."""
        for role in ROLES:
            self._signal(role, "SIGKILL")

    def evidence(self) -> str:
        """Return the containers' states and the agent's last log lines."""
        try:
            return "\n".join(line for role in ROLES for line in self._state_lines(role) if line)
        except VolbenchError as error:
            return f"{error.what} ({error.evidence})"

    def termination_cause(self) -> VolbenchError | None:
        """Return None: unknown; the evidence has the states."""
        return None

    def remove(self) -> None:
        """Remove both containers at once, then the cell's files."""
        with ThreadPoolExecutor(max_workers=len(ROLES)) as pool:
            list(pool.map(self._remove_container, ROLES))  # an exception is raised when both have ended
        self.remove_files()

    def _remove_container(self, role: str) -> None:
        container = self._container(role)
        if container is not None:
            _remove_container(container)

    def _state_lines(self, role: str) -> Iterator[str]:
        container = self._container(role)
        if container is None:
            yield f"{role} container: gone"
            return
        state = container.attrs["State"]
        oom = ", killed for lack of memory" if state.get("OOMKilled") else ""
        yield f"{role} container: {state['Status']}, exit code {state.get('ExitCode')}{oom}"
        if role == "agent":
            with engine_errors("reading the agent's log"):
                yield container.logs(tail=12).decode(errors="replace").strip()

    def _container(self, role: str) -> Any | None:
        with engine_errors(f"looking for the {role} container of cell {self.cell_id}"):
            try:
                return self.client.containers.get(container_name(self.run_id, self.cell_id, role))
            except NotFound:
                return None

    def _signal(self, role: str, signal: str) -> None:
        container = self._container(role)
        if container is not None and container.status == "running":
            with _ignoring_done():
                container.kill(signal=signal)


class DockerTarget:
    """Containers of one Docker engine on this machine."""

    name = "docker"
    template_on_volume = False
    parallel = 1

    def __init__(self, workspace: Workspace, *, tools: str = "") -> None:
        """`tools` names the tools image; empty: the newest image of this version of volbench."""
        self._workspace = workspace
        self._tools = tools
        self._uid = os.getuid() or SERVER_UID
        self._client = engine_client()
        self._task_files: dict[str, tuple[threading.Event, threading.Thread]] = {}

    def check(self) -> None:
        """Check that the engine answers and has the tools image."""
        with engine_errors("connecting to the Docker engine"):
            self._client.ping()
        tools_image(self._client, self._tools)

    def cell_paths(self, cell_id: str, volume: OpenVolume | None) -> CellPlaces | None:  # noqa: ARG002
        """Return paths inside the containers, the same for every cell."""
        if volume is None or volume.host_path is not None:
            emulator = INSIDE_EMULATOR if volume is not None and volume.emulator_socket else ""
            return INSIDE.model_copy(update={"emulator_socket": emulator})
        directory = f"{INSIDE_NAMED_VOLUME}/{self._workspace.volume_folder}"
        return INSIDE.model_copy(update={"volume_dir": directory, "data_dir": f"{directory}/data"})

    def launch(self, job: Job) -> Placement:
        """Start the server's container under the supervisor, then the agent's."""
        image = server_image(self._client, job.cell.server)
        tools = tools_image(self._client, self._tools)
        control = self._make_directories(job)
        _write_into(control, SUPERVISOR_SCRIPT, job.supervisor_script)
        server_mounts, agent_mounts = self._mounts(job)
        inside = f"{INSIDE.control_dir}/{SUPERVISOR_SCRIPT}"
        server = self._start(job, "server", image, ["sh", inside, INSIDE.control_dir], server_mounts)
        self._write_cgroup(server, control)
        command = ["volbench", "cell", job.kind, f"{INSIDE_OUT}/cell.json", "--out", INSIDE_OUT]
        agent = self._start(job, "agent", tools, command, agent_mounts)
        self._write_task_file(job, control, server, agent)
        return self.find(job)

    def find(self, job: Job) -> Placement:
        """Return the containers with the job's names."""
        return DockerPlacement(
            client=self._client,
            run_id=self._workspace.short_id,
            cell_id=job.cell.cell_id,
            remove_files=lambda: self._remove_files(job),
        )

    def close_volume(self, volume: OpenVolume) -> None:
        """Remove the run's directory from a volume; not while an unreachable engine may still run the server."""
        if volume.host_path is not None:
            with engine_errors("connecting to the Docker engine"):
                self._client.ping()
            directory = volume.host_path / self._workspace.volume_folder
            if directory.exists():
                ownership.remove(directory)
            return
        inside = f"{INSIDE_NAMED_VOLUME}/{self._workspace.volume_folder}"
        erase = ["volbench", "cell", "erase", inside, "--owner", str(self._uid)]
        self._run_once(erase, self._named_mount(volume))

    def clean_up(self) -> None:
        """Remove containers with the run's label, and control and scratch directories."""
        with engine_errors("removing the run's containers"):
            containers = self._client.containers.list(
                all=True, filters={"label": f"{LABEL_RUN}={self._workspace.run_id}"}, ignore_removed=True
            )
        for container in containers:
            _remove_container(container)
        for directory in self._workspace.leftovers():
            ownership.remove(directory)

    def _make_directories(self, job: Job) -> Path:
        workspace = self._workspace
        control = workspace.claim(workspace.control_dir(job.cell.cell_id))
        scratch = workspace.claim(workspace.scratch_dir(job.cell.cell_id))
        workspace.templates.mkdir(parents=True, exist_ok=True)
        directories = [control, scratch, job.out, workspace.templates]
        if job.volume is not None and job.volume.host_path is not None:
            directories.append(workspace.claim(job.volume.host_path / workspace.volume_folder))
        elif job.volume is not None:
            inside = f"{INSIDE_NAMED_VOLUME}/{workspace.volume_folder}"
            make = ["install", "-d", "-m", "0700", "-o", str(self._uid), "-g", str(self._uid), inside]
            self._run_once(make, self._named_mount(job.volume))
        for directory in directories:
            self._hand_over(directory)
        if job.volume is not None and job.volume.emulator_socket is not None and os.getuid() == 0:
            os.chown(job.volume.emulator_socket, self._uid, self._uid, follow_symlinks=False)
        return control

    def _hand_over(self, directory: Path) -> None:
        """Let the containers' user work in a marked directory, which stays volbench's."""
        if os.getuid() == 0:
            ownership.hand_over(directory, group=self._uid)

    def _mounts(self, job: Job) -> tuple[list[docker.types.Mount], list[docker.types.Mount]]:
        workspace, cell_id = self._workspace, job.cell.cell_id
        shared = [_bind(workspace.control_dir(cell_id), INSIDE.control_dir)]
        if job.volume is not None and job.volume.host_path is not None:
            shared.append(_bind(job.volume.host_path / workspace.volume_folder, INSIDE.volume_dir))
        elif job.volume is not None:
            shared.append(self._named_mount(job.volume))
        preparing = job.kind == "prepare"
        templates = _bind(workspace.templates, INSIDE.template_dir, read_only=not preparing)
        agent = [
            *shared,
            templates,
            _bind(workspace.scratch_dir(cell_id), INSIDE.scratch_dir),
            _bind(job.out, INSIDE_OUT),
            _bind(Path("/sys/fs/cgroup"), INSIDE_CGROUP, read_only=True),
            *(_bind(path, str(path), read_only=True) for path in own_directories(job.cell)),
        ]
        if job.volume is not None and job.volume.emulator_socket is not None:
            agent.append(_bind(job.volume.emulator_socket, INSIDE_EMULATOR))
        return ([*shared, templates] if preparing else shared), agent

    def _named_mount(self, volume: OpenVolume) -> docker.types.Mount:
        return docker.types.Mount(INSIDE_NAMED_VOLUME, volume.docker_volume, type="volume")

    def _start(self, job: Job, role: str, image: str, command: list[str], mounts: list[docker.types.Mount]) -> Any:
        with engine_errors(f"starting the {role} container of cell {job.cell.cell_id} from image {image}"):
            return self._client.containers.run(
                image,
                command,
                entrypoint=[],
                name=container_name(self._workspace.short_id, job.cell.cell_id, role),
                labels={LABEL_RUN: self._workspace.run_id, LABEL_CELL: job.cell.cell_id},
                mounts=mounts,
                user=f"{self._uid}:{self._uid}",
                network_mode="none",
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                read_only=True,
                tmpfs={"/tmp": "rw,mode=1777"},  # noqa: S108 - inside the container
                environment={"HOME": "/tmp", "PYTHONUNBUFFERED": "1"},  # noqa: S108
                working_dir="/",
                detach=True,
            )

    def _run_once(self, command: list[str], mount: docker.types.Mount) -> None:
        """Run a command as root on a named volume, only with the capabilities for owners and modes."""
        with engine_errors(f"running {command[0]} on a named volume"):
            self._client.containers.run(
                tools_image(self._client, self._tools),
                command,
                entrypoint=[],
                mounts=[mount],
                user="0:0",
                network_mode="none",
                cap_drop=["ALL"],
                cap_add=["CHOWN", "DAC_OVERRIDE", "FOWNER"],
                labels={LABEL_RUN: self._workspace.run_id},
                remove=True,
            )

    def _write_cgroup(self, server: Any, control: Path) -> None:
        server.reload()
        pid = server.attrs["State"]["Pid"]
        try:
            text = Path(f"/proc/{pid}/cgroup").read_text()
        except OSError:
            return  # an engine on another machine or in another PID namespace: the sampler reports that
        _write_into(control, SERVER_CGROUP_FILE, text.encode())

    def _write_task_file(self, job: Job, control: Path, server: Any, agent: Any) -> None:
        """Update a file in the control directory with the CPU times of the containers' processes.

        The processes of an engine on another machine, or in another PID namespace, are not visible here.
        """
        if not (control / SERVER_CGROUP_FILE).exists():
            return
        with engine_errors("reading the agent's state"):
            agent.reload()
        roots = {"cell": [server.attrs["State"]["Pid"], agent.attrs["State"]["Pid"]]}
        daemon = socket_peer(job.volume.emulator_socket) if job.volume and job.volume.emulator_socket else None
        if daemon is not None:
            roots["emulator"] = [daemon]
        stop = threading.Event()
        arguments = (control / TASK_FILE, roots, stop)
        thread = threading.Thread(target=keep_task_file, args=arguments, daemon=True)
        thread.start()
        self._task_files[job.cell.cell_id] = (stop, thread)

    def _remove_files(self, job: Job) -> None:
        workspace = self._workspace
        stop, thread = self._task_files.pop(job.cell.cell_id, (None, None))
        if stop is not None and thread is not None:
            stop.set()
            thread.join()  # the thread must not write to a directory during its removal
        if job.volume is not None and job.volume.host_path is not None:
            directory = job.volume.host_path / workspace.volume_folder
            if ownership.is_owned(directory):
                ownership.erase_contents(directory)
        for directory in (workspace.control_dir(job.cell.cell_id), workspace.scratch_dir(job.cell.cell_id)):
            if directory.exists():
                ownership.remove(directory)


def engine_client() -> docker.DockerClient:
    """Return a client of the engine of DOCKER_HOST or the default socket. Raise EnvironmentLacks."""
    with engine_errors("connecting to the Docker engine"):
        return docker_engine.connect()


def _wait_for_container(container_id: str) -> None:
    """Wait until a container has ended; a second where the engine does not answer."""
    try:
        with closing(engine_client()) as client:
            client.api.wait(container_id, timeout=None)
    except (VolbenchError, DockerException, OSError):
        time.sleep(ENGINE_RETRY_S)


def container_name(short_run_id: str, cell_id: str, role: str) -> str:
    """`volbench-<run>-<cell>-<role>`."""
    return f"volbench-{short_run_id}-{cell_id}-{role}"


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Convert the Docker SDK's errors.

    Raises EnvironmentLacks if the engine does not answer or has no such image, StepFailed if it refuses.
    """
    try:
        yield
    except ImageNotFound as error:
        raise EnvironmentLacks(
            "the image does not exist", where=doing, evidence=str(error.explanation), next_step="run `make images`"
        ) from error
    except APIError as error:
        raise StepFailed(
            "the Docker engine refused the request", where=doing, evidence=str(error.explanation)
        ) from error
    except (DockerException, OSError) as error:
        raise EnvironmentLacks(
            "the Docker engine does not answer",
            where=doing,
            evidence=str(error)[:300],
            next_step="start it with `make setup`, then continue with `volbench resume`; or use --target local",
        ) from error


def _write_into(directory: Path, name: str, content: bytes) -> None:
    """Write a file for the containers; a link of that name is replaced, not followed."""
    with ownership.open_owned(directory) as descriptor:
        safe_files.write_new(descriptor, name, content, mode=0o644, sync=False)


def _bind(source: Path, target: str, *, read_only: bool = False) -> docker.types.Mount:
    return docker.types.Mount(target, str(source), type="bind", read_only=read_only)


def _remove_container(container: Any) -> None:
    with _ignoring_done():
        container.remove(force=True, v=True)


@contextmanager
def _ignoring_done() -> Iterator[None]:
    """Ignore that a container is gone already, or is just being removed."""
    with engine_errors("cleaning up containers"):
        try:
            yield
        except NotFound:
            return
        except APIError as error:
            if error.status_code != HTTPStatus.CONFLICT:
                raise
