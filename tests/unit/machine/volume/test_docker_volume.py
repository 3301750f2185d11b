"""docker-volume: an existing volume is used and left; one that we made is removed; others' are never touched."""

from __future__ import annotations

import gc
import secrets
from collections.abc import Iterator
from typing import Any

import docker
import pytest

from volbench.core.profile.spec import parse_volume
from volbench.errors import MissingPrerequisite
from volbench.machine.volume.kinds.docker_volume import LABEL_OWNED, DockerNfsVolume, DockerVolume


@pytest.fixture
def client() -> Iterator[Any]:
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture
def name(client: Any) -> Iterator[str]:
    name = f"volbench-test-{secrets.token_hex(4)}"
    yield name
    for volume in client.volumes.list(filters={"name": name}):
        volume.remove()


def names(client: Any) -> set[str]:
    return {volume.name for volume in client.volumes.list()}


@pytest.mark.docker
def test_existing_volume_is_left(client: Any, name: str) -> None:
    """A user's volume, even with create=yes, is still there afterwards."""
    client.volumes.create(name=name, labels={"mine": "1"})
    for text in (f"a=docker-volume:{name}", f"a=docker-volume:{name}?create=yes"):
        with DockerVolume(parse_volume(text)) as opened:
            assert opened.docker_volume == name
            assert opened.docker_driver == "local"
            assert opened.host_path is None
        assert name in names(client)


@pytest.mark.docker
def test_created_volume_is_removed(client: Any, name: str) -> None:
    """A volume made by us carries our label and goes with us; one left by a killed run is taken up."""
    volume = DockerVolume(parse_volume(f"a=docker-volume:{name}?create=yes"), run_id="r1")
    volume.open()  # and then the process is killed
    assert LABEL_OWNED in client.volumes.get(name).attrs["Labels"]
    with DockerVolume(parse_volume(f"a=docker-volume:{name}?create=yes"), run_id="r1") as opened:
        assert opened.docker_volume == name
    assert name not in names(client)
    volume.close()


@pytest.mark.docker
def test_missing_volume(client: Any, name: str) -> None:
    """Docker would make a mistyped volume silently, on the system disk; we say what there is."""
    client.volumes.create(name=name)
    with pytest.raises(MissingPrerequisite, match="has no volume") as caught:
        DockerVolume(parse_volume(f"a=docker-volume:{name}x")).open()
    assert name in caught.value.evidence
    assert f"{name}x" not in names(client)


@pytest.mark.docker
def test_nfs_by_the_local_driver(client: Any) -> None:
    """The named volume has the mount's options, says what was asked for, and is removed."""
    spec = parse_volume("a=nfs:127.0.0.1:/x?vers=4.1,async")
    with DockerNfsVolume(spec, run_id="test") as opened:
        assert opened.docker_volume in names(client)
        assert opened.docker_driver_options == {
            "type": "nfs",
            "o": "addr=127.0.0.1,vers=4.1,async",
            "device": ":/x",
        }
        assert opened.facts is not None
        assert (opened.facts.nfs_server, opened.facts.nfs_export) == ("127.0.0.1", "/x")
    assert opened.docker_volume not in names(client)


# The SDK forgets to close a socket that could not be connected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that does not answer is an environment that lacks something."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    with pytest.raises(MissingPrerequisite, match="does not answer"):
        DockerVolume(parse_volume("a=docker-volume:x")).open()
    gc.collect()
