"""A cell's two containers: their names and labels, how they end and are removed, and the Docker engine's errors."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound, NotFound

from volbench.core.base import docker_engine
from volbench.errors import MissingPrerequisite, StepFailed, VolbenchError

ROLES = ("agent", "server")
LABEL_RUN = "org.volbench.run"
LABEL_CELL = "org.volbench.cell"
ENGINE_RETRY_S = 1.0


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
            remove_container(container)

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


def engine_client() -> docker.DockerClient:
    """Return a client of the engine of DOCKER_HOST or the default socket. Raise MissingPrerequisite."""
    with engine_errors("connecting to the Docker engine"):
        return docker_engine.connect()


def user_namespace(client: docker.DockerClient) -> str:
    """Return the user namespace of a cell's containers: `keep-id` for Podman without root, else the engine's own.

    Without root, user 1000 of a container is some user of the machine that owns nothing, so that a cell could not
    write its results. Podman can keep the number of the user who runs it.

    Raises MissingPrerequisite for Docker without root, which cannot, and for root who asks another user's engine.
    """
    with engine_errors("connecting to the Docker engine"):
        rootless = "name=rootless" in (client.info().get("SecurityOptions") or ())
        components = client.version().get("Components") or () if rootless else ()
    if not rootless:
        return ""
    podman = any(component.get("Name") == "Podman Engine" for component in components)
    if podman and os.getuid() != 0:
        return "keep-id"
    raise MissingPrerequisite(
        "the engine runs without root, and its containers cannot write what this user owns",
        where="docker target",
        evidence="its SecurityOptions have name=rootless"
        + (", and this process is root's" if podman else ", and only Podman keeps a user's number in containers"),
        next_step="run volbench as the user of the engine"
        if podman
        else "use the machine's own Docker, or Podman's socket: systemctl --user start podman.socket; export"
        " DOCKER_HOST=unix://$XDG_RUNTIME_DIR/podman/podman.sock; or --target local",
    )


def start_container(
    client: docker.DockerClient,
    image: str,
    command: Sequence[str],
    *,
    user: str,
    namespace: str,
    labels: Mapping[str, str],
    name: str | None = None,
    environment: Mapping[str, str] | None = None,
    **host: Any,
) -> Any:
    """Start a container without the image's entry point and return it.

    Args:
        client, image, command, user, labels, name, environment: as `containers.run` of the SDK takes them.
        namespace: of `user_namespace`, which the SDK refuses to pass on.
        host: of the SDK's HostConfig.

    Raises DockerException.
    """
    host_config = client.api.create_host_config(**host)
    if namespace:
        host_config["UsernsMode"] = namespace
    created = client.api.create_container(
        image,
        list(command),
        entrypoint=[],
        name=name,
        labels=dict(labels),
        user=user,
        environment=dict(environment or {}),
        working_dir="/",
        host_config=host_config,
        detach=True,
    )
    container = client.containers.get(created["Id"])
    container.start()
    return container


def _wait_for_container(container_id: str) -> None:
    """Wait until a container has ended; a second where the engine does not answer."""
    try:
        with closing(engine_client()) as client:
            client.api.wait(container_id, timeout=None)
    except (VolbenchError, DockerException, OSError):
        time.sleep(ENGINE_RETRY_S)


def container_name(short_run_id: str, cell_id: str, role: str) -> str:
    """Return `volbench-<run>-<cell>-<role>`."""
    return f"volbench-{short_run_id}-{cell_id}-{role}"


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Convert the Docker SDK's errors.

    Raises MissingPrerequisite if the engine does not answer or has no such image, StepFailed if it refuses.
    """
    try:
        yield
    except ImageNotFound as error:
        raise MissingPrerequisite(
            "the image does not exist", where=doing, evidence=str(error.explanation), next_step="run `make images`"
        ) from error
    except APIError as error:
        raise StepFailed(
            "the Docker engine refused the request", where=doing, evidence=str(error.explanation)
        ) from error
    except (DockerException, OSError) as error:
        raise MissingPrerequisite(
            "the Docker engine does not answer",
            where=doing,
            evidence=str(error)[:300],
            next_step="start it with `make setup`, then continue with `volbench resume RUN`; or use --target local",
        ) from error


def remove_container(container: Any) -> None:
    """Kill and remove a container with its anonymous volumes; one that is gone already is ignored."""
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
