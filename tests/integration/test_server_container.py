"""The tests' own containers: what waits for them is a query, and a session that is left removes its own only."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.models.containers import Container
from server_container import local_server_image, throwaway_container
from testcontainers.core.labels import LABEL_SESSION_ID

from volbench.machine.engine.connection import Account
from volbench.testing.containers import QueryWaitStrategy

pytestmark = pytest.mark.docker
SUPPORT = Path(__file__).parents[1] / "support"
LEAVES_ONE = """
from server_container import local_server_image, remove_containers_of_session, throwaway_container
container = throwaway_container(local_server_image(), ["sleep", "infinity"], network="none").start()
name = container.get_wrapped_container().name
print(name, remove_containers_of_session() == [name])
"""
FORK_ENDS_FIRST = """
import os
from server_container import local_server_image, remove_containers_of_session, throwaway_container
container = throwaway_container(local_server_image(), ["sleep", "infinity"], network="none").start()
fork = os.fork()
if not fork:
    os._exit(len(remove_containers_of_session()))
_, status = os.waitpid(fork, 0)
print(os.waitstatus_to_exitcode(status), remove_containers_of_session() == [container.get_wrapped_container().name])
"""


@pytest.fixture
def engine() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture
def of_another_session(engine: docker.DockerClient) -> Iterator[Container]:
    """A container of a session that goes on elsewhere."""
    labels = {LABEL_SESSION_ID: "another"}
    container = engine.containers.create(local_server_image(), ["sleep", "60"], labels=labels, network_mode="none")
    yield container
    container.remove(force=True)


def test_a_session_removes_its_own_containers_only(
    engine: docker.DockerClient, of_another_session: Container
) -> None:
    """One is started and left by another process, which removes it at its end; that of a third one stays."""
    name, removed = printed_by(LEAVES_ONE)
    assert removed == "True"
    names = {container.name for container in engine.containers.list(all=True, ignore_removed=True)}
    assert name not in names
    assert of_another_session.name in names


def test_a_fork_that_ends_leaves_the_containers_of_others_of_its_session() -> None:
    """It removed one that another fork used: that one's end failed, and the tests that were left did not run."""
    assert printed_by(FORK_ENDS_FIRST) == ["0", "True"]


def printed_by(script: str) -> list[str]:
    """The words that a process of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": f"{SUPPORT.parents[1] / 'runner'}:{SUPPORT}", "TESTCONTAINERS_RYUK_DISABLED": "true"},
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout.split()


def test_a_server_that_ends_is_not_waited_for(tmp_path: Path) -> None:
    """Its own words are in the error; so is what its container is now."""
    account = Account(user="root", socket=str(tmp_path / "s"))
    container = throwaway_container(local_server_image(), ["-c", "echo out of luck; exit 1"], entrypoint="sh")
    with (
        pytest.raises(TimeoutError, match="the container is exited") as caught,
        container.waiting_for(QueryWaitStrategy(lambda _: account)),
    ):
        pytest.fail("the container has ended")
    assert "out of luck" in "\n".join(caught.value.__notes__)
