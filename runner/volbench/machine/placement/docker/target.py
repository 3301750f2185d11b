"""The docker target: a server container under the supervisor and an agent container, for each cell.

Both share the data, control and template directories and nothing else: no network, no capabilities, no Docker
socket. They run as one unprivileged user.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import docker

from volbench.core.base import ownership, safe_files
from volbench.core.profile.layout import component_word
from volbench.core.records.cell import CellPlaces, CellSpec
from volbench.core.records.run import PlannedCell
from volbench.errors import StepFailed
from volbench.machine.host.task_account import CLIENT, EMULATOR, SERVER, keep_task_file, socket_peer
from volbench.machine.placement.docker.containers import (
    LABEL_CELL,
    LABEL_RUN,
    DockerPlacement,
    container_name,
    engine_client,
    engine_errors,
    remove_container,
    start_container,
    user_namespace,
)
from volbench.machine.placement.docker.images import server_image, tools_image
from volbench.machine.placement.docker.own_files import containers_uid, in_containers, own_mounts
from volbench.machine.placement.interface import Job, Placement, TemplateScope
from volbench.machine.placement.layout import component_places, run_directories
from volbench.machine.placement.workspace import Workspace
from volbench.machine.volume.deleted_inodes import concerns, forget_deleted_inodes
from volbench.machine.volume.facts.discovery import discover
from volbench.machine.volume.interface import OpenVolume

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
INSIDE_COMPONENTS = "/volbench/components"
INSIDE_CGROUP = "/volbench/cgroup"
INSIDE_EMULATOR = "/volbench/emulator.sock"


class DockerTarget:
    """Containers of one Docker engine on this machine."""

    name = "docker"
    templates: TemplateScope = "machine"
    parallel = 1

    def __init__(self, workspace: Workspace, *, tools: str = "") -> None:
        """`tools` names the tools image; empty: the newest image of this version of volbench."""
        self._workspace = workspace
        self._tools = tools
        self._uid = containers_uid()
        self._client = engine_client()
        self._task_files: dict[str, tuple[threading.Event, threading.Thread]] = {}

    def check(self) -> None:
        """Check that the engine answers, can give files to its containers, and has the tools image."""
        with engine_errors("connecting to the Docker engine"):
            self._client.ping()
        self._namespace = user_namespace(self._client)
        tools_image(self._client, self._tools)

    @cached_property
    def _namespace(self) -> str:
        """User namespace of the containers."""
        return user_namespace(self._client)

    def lane_of(self, cell: PlannedCell) -> str:  # noqa: ARG002
        """Return nothing: this machine runs one cell at a time."""
        return ""

    def with_server(self, cell: CellSpec, volume: OpenVolume | None) -> CellSpec:
        """Return the cell with paths inside the containers, the same for every cell."""
        return in_containers(cell.model_copy(update={"places": self._cell_places(volume)}))

    def _cell_places(self, volume: OpenVolume | None) -> CellPlaces:
        if volume is None or volume.host_path is not None:
            emulator = INSIDE_EMULATOR if volume is not None and volume.emulator_socket else ""
            components = component_places(
                volume,
                directory=lambda _, role: f"{INSIDE_COMPONENTS}/{role}",
                socket=lambda _, role: f"{INSIDE_EMULATOR}.{role}",
            )
            return INSIDE.model_copy(update={"emulator_socket": emulator, "layout": components})
        directory = f"{INSIDE_NAMED_VOLUME}/{self._workspace.volume_folder}"
        return INSIDE.model_copy(update={"volume_dir": directory, "data_dir": f"{directory}/data"})

    def launch(self, job: Job) -> Placement:
        """Start the server's container under the supervisor, then the agent's."""
        image = server_image(self._client, job.cell.server)
        tools = tools_image(self._client, self._tools)
        control = self._make_directories(job)
        _forget_deleted_inodes(job)
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
            for directory in run_directories(volume, self._workspace.volume_folder):
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
            remove_container(container)
        for directory in self._workspace.leftovers():
            ownership.remove(directory)

    def _make_directories(self, job: Job) -> Path:
        workspace = self._workspace
        control = workspace.claim(workspace.control_dir(job.cell.cell_id))
        scratch = workspace.claim(workspace.scratch_dir(job.cell.cell_id))
        workspace.templates.mkdir(parents=True, exist_ok=True)
        directories = [control, scratch, job.out, workspace.templates]
        if job.volume is not None and job.volume.host_path is not None:
            directories += map(workspace.claim, run_directories(job.volume, workspace.volume_folder))
        elif job.volume is not None:
            inside = f"{INSIDE_NAMED_VOLUME}/{workspace.volume_folder}"
            make = ["install", "-d", "-m", "0700", "-o", str(self._uid), "-g", str(self._uid), inside]
            self._run_once(make, self._named_mount(job.volume))
        for directory in directories:
            self._hand_over(directory)
        for _, socket in _emulator_sockets(job):
            if os.getuid() == 0:
                os.chown(socket, self._uid, self._uid, follow_symlinks=False)
        return control

    def _hand_over(self, directory: Path) -> None:
        """Let the containers' user work in a marked directory, which stays volbench's."""
        if os.getuid() == 0:
            ownership.hand_over(directory, group=self._uid)

    def _mounts(self, job: Job) -> tuple[list[docker.types.Mount], list[docker.types.Mount]]:
        workspace, cell_id = self._workspace, job.cell.cell_id
        shared = [_bind(workspace.control_dir(cell_id), INSIDE.control_dir)]
        if job.volume is not None and job.volume.host_path is not None:
            inside = [
                INSIDE.volume_dir,
                *(f"{INSIDE_COMPONENTS}/{component_word(component.spec)}" for component in job.volume.components),
            ]
            directories = run_directories(job.volume, workspace.volume_folder)
            shared += [_bind(source, target) for source, target in zip(directories, inside, strict=True)]
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
            *self._own_mounts(job),
        ]
        agent += [_bind(socket, inside) for inside, socket in _emulator_sockets(job)]
        return ([*shared, templates] if preparing else shared), agent

    def _own_mounts(self, job: Job) -> list[docker.types.Mount]:
        """Return the user's own files for the agent; their copies are removed with the cell."""

        def copies() -> Path:
            directory = self._workspace.claim(self._workspace.own_dir(job.cell.cell_id))
            ownership.erase_contents(directory)
            return directory

        mounts = own_mounts(job.cell, job.kind, self._uid, copies)
        return [_bind(mount.source, mount.target, read_only=True) for mount in mounts]

    def _named_mount(self, volume: OpenVolume) -> docker.types.Mount:
        return docker.types.Mount(INSIDE_NAMED_VOLUME, volume.docker_volume, type="volume")

    def _start(self, job: Job, role: str, image: str, command: list[str], mounts: list[docker.types.Mount]) -> Any:
        with engine_errors(f"starting the {role} container of cell {job.cell.cell_id} from image {image}"):
            return start_container(
                self._client,
                image,
                command,
                name=container_name(self._workspace.short_id, job.cell.cell_id, role),
                labels={LABEL_RUN: self._workspace.run_id, LABEL_CELL: job.cell.cell_id},
                mounts=mounts,
                user=f"{self._uid}:{self._uid}",
                namespace=self._namespace,
                network_mode="none",
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                read_only=True,
                tmpfs={"/tmp": "rw,mode=1777"},
                environment={"HOME": "/tmp", "PYTHONUNBUFFERED": "1"},
            )

    def _run_once(self, command: list[str], mount: docker.types.Mount) -> None:
        """Run a command as root on a named volume, only with the capabilities for owners and modes."""
        with engine_errors(f"running {command[0]} on a named volume"):
            container = start_container(
                self._client,
                tools_image(self._client, self._tools),
                command,
                mounts=[mount],
                user="0:0",
                namespace=self._namespace,
                network_mode="none",
                cap_drop=["ALL"],
                cap_add=["CHOWN", "DAC_OVERRIDE", "FOWNER"],
                labels={LABEL_RUN: self._workspace.run_id},
            )
            try:
                code, log = container.wait()["StatusCode"], container.logs(tail=12)
            finally:
                remove_container(container)
        if code != 0:
            raise StepFailed(
                f"{command[0]} failed on a named volume",
                where=" ".join(command),
                evidence=f"exit code {code}: {log.decode(errors='replace').strip()}",
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
        roots = {SERVER: [server.attrs["State"]["Pid"]], CLIENT: [agent.attrs["State"]["Pid"]]}
        daemons = [peer for _, socket in _emulator_sockets(job) if (peer := socket_peer(socket)) is not None]
        if daemons:
            roots[EMULATOR] = daemons
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
        for directory in run_directories(job.volume, workspace.volume_folder):
            if ownership.is_owned(directory):
                ownership.erase_contents(directory)
        cell_id = job.cell.cell_id
        for directory in (
            workspace.control_dir(cell_id),
            workspace.scratch_dir(cell_id),
            workspace.own_dir(cell_id),
        ):
            if directory.exists():
                ownership.remove(directory)


def _emulator_sockets(job: Job) -> list[tuple[str, Path]]:
    """Return the control socket of each emulated volume of a job, each with its path in the agent's container."""
    if job.volume is None:
        return []
    inside = [
        INSIDE_EMULATOR,
        *(f"{INSIDE_EMULATOR}.{component_word(component.spec)}" for component in job.volume.components),
    ]
    sockets = zip(inside, (volume.emulator_socket for volume in job.volume.all), strict=True)
    return [(path, socket) for path, socket in sockets if socket is not None]


def _forget_deleted_inodes(job: Job) -> None:
    """Before a cell of small files: its container may not drop the machine's caches, which root may."""
    if job.volume is None or job.volume.host_path is None:
        return
    emulated = job.volume.emulator_socket is not None
    if any(step.kind == "small_files" for step in job.cell.steps) and concerns(
        discover(job.volume.host_path).filesystem, emulated=emulated
    ):
        with suppress(OSError):  # a volume that does not work is the cell's to report
            forget_deleted_inodes(job.volume.host_path)


def _write_into(directory: Path, name: str, content: bytes) -> None:
    """Write a file for the containers; a link of that name is replaced, not followed."""
    with ownership.open_owned(directory) as descriptor:
        safe_files.write_new(descriptor, name, content, mode=0o644, sync=False)


def _bind(source: Path, target: str, *, read_only: bool = False) -> docker.types.Mount:
    return docker.types.Mount(target, str(source), type="bind", read_only=read_only)
