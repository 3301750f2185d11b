"""Database servers in containers for tests, by testcontainers: started, asked until they answer, removed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
from docker.errors import NotFound
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import WaitStrategy
from testcontainers.core.waiting_utils import WaitStrategyTarget

from volbench.core.records.cell import ServerSpec
from volbench.machine.engine.supervisor import Supervisor, launch_supervisor, supervisor_script
from volbench.machine.placement.docker.image_names import tools_image
from volbench.machine.placement.docker.images import server_image
from volbench.testing.containers import container_options
from volbench.testing.leftovers import LABEL_OWNER, owner_label

START_BOUND_S = 180


class SupervisorWaitStrategy(WaitStrategy):
    """Ready when the supervisor in the container takes commands; the server itself is started by a test."""

    def __init__(self, supervisor: Supervisor) -> None:
        super().__init__()
        self._supervisor = supervisor

    def wait_until_ready(self, container: WaitStrategyTarget) -> None:  # noqa: ARG002 - its supervisor is asked
        """Wait as the product waits. Raises StepFailed."""
        self._supervisor.wait_ready_for_commands(START_BOUND_S)


def throwaway_container(image: str, command: list[str], **options: Any) -> DockerContainer:
    """A container that is removed at the end of its block, or at the end of the test session.

    Args:
        options: of docker-py's `containers.create`.
    """
    return DockerContainer(image).with_command(command).with_kwargs(**container_options(**options))


def local_server_image(flavor: str = "mysql") -> str:
    """The server image that the docker target would take. Raises MissingPrerequisite where none is here."""
    client = docker.from_env()
    try:
        return server_image(client, ServerSpec.model_validate({"flavor": flavor}), pull=False)
    finally:
        client.close()


@contextlib.contextmanager
def supervised(control: Path, base: Path, image_of: str | None, **options: str) -> Iterator[tuple[Supervisor, str]]:
    """A supervisor that takes commands, and its container's id; killed and removed at the end of the block.

    Args:
        control: its directory, below `base`.
        base: what the container sees, with all that is mounted below it, under the same name.
        image_of: the flavor whose image the container has; None for a process of this machine, whose id is "".
        options: of docker-py's `containers.create`, such as mem_limit.
    """
    if image_of is None:
        supervisor = launch_supervisor(control)
        supervisor.wait_ready_for_commands(START_BOUND_S)
        with _ended(supervisor):
            yield supervisor, ""
        return
    script = control / "supervisor.sh"
    script.write_bytes(supervisor_script())
    supervisor = Supervisor(control)
    container = throwaway_container(
        local_server_image(image_of),
        ["sh", str(script), str(control)],
        network="none",
        cap_drop=["ALL"],
        read_only=True,
        user=f"{os.geteuid()}:{os.getegid()}",
        **options,
    )
    container.with_tmpfs_mount("/tmp").with_volume_mapping(base, str(base), "rw")
    container.waiting_for(SupervisorWaitStrategy(supervisor))
    with container, _ended(supervisor):
        yield supervisor, container.get_container_id()


@contextlib.contextmanager
def _ended(supervisor: Supervisor) -> Iterator[None]:
    try:
        yield
    finally:
        supervisor.kill()
        supervisor.quit(10.0)


_SYSBENCH = """#!/bin/sh
# A file in this machine's memory is out of the container's sight: a copy of it goes along.
copy=
for argument; do
  shift
  case $argument in
  --config-file=/proc/*)
    umask 077
    copy=$(mktemp "{directory}/option-XXXXXX")
    cat "${{argument#*=}}" > "$copy"
    argument=--config-file=$copy ;;
  esac
  set -- "$@" "$argument"
done
docker exec {container} sysbench "$@"
code=$?
[ -z "$copy" ] || rm -f "$copy"
exit $code
"""


@contextlib.contextmanager
def sysbench_of_tools_image(base: Path) -> Iterator[Path]:
    """A directory for PATH with a `sysbench`: the tools image's, in a container that sees `base`."""
    user = f"{os.geteuid()}:{os.getegid()}"
    container = throwaway_container(tools_image(), ["sleep", "infinity"], network="none", user=user)
    with container.with_volume_mapping(base, str(base), "rw"):
        program = base / "bin" / "sysbench"
        program.parent.mkdir()
        program.write_text(_SYSBENCH.format(directory=base, container=container.get_container_id()))
        program.chmod(0o755)
        yield program.parent


def remove_containers_of_session() -> list[str]:
    """Remove what this process's tests have left, found by its owner's label; the names.

    The library's id of a session is that of all forks of one: others of them still use theirs.
    """
    client = docker.from_env()
    try:
        filters: dict[str, Any] = {"label": f"{LABEL_OWNER}={owner_label()}"}
        left = client.containers.list(all=True, filters=filters, ignore_removed=True)
        for container in left:
            try:
                container.remove(force=True, v=True)
            except NotFound:
                continue
        return [str(container.name) for container in left]
    finally:
        client.close()
