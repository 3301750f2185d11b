"""A cell's containers: the engine is asked for their end once, and both are removed at once."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import docker
import pytest
from docker.errors import APIError, NotFound

from volbench.errors import MissingPrerequisite, StepFailed
from volbench.machine.placement.docker import containers, target
from volbench.machine.placement.docker.containers import DockerPlacement

BOUND_S = 60.0


@dataclass
class Engine:
    """Containers by name; `removing` is passed by two removals at once only."""

    status: str = "running"
    asked: int = 0
    removed: list[str] = field(default_factory=list)
    removing: threading.Barrier = field(default_factory=lambda: threading.Barrier(2, timeout=BOUND_S))
    refused: str = ""

    @property
    def containers(self) -> Engine:
        return self

    def get(self, name: str) -> Any:
        self.asked += 1
        if name in self.removed:
            raise NotFound("gone")
        return Container(self, name)


@dataclass
class Container:
    """One of them."""

    engine: Engine
    id: str

    @property
    def status(self) -> str:
        return self.engine.status

    def remove(self, *, force: bool, v: bool) -> None:
        assert force
        assert v
        self.engine.removing.wait()
        if self.engine.refused and self.id.endswith(self.engine.refused):
            raise APIError("refused")
        self.engine.removed.append(self.id)


def placement(engine: Engine, removed_files: list[str]) -> DockerPlacement:
    return DockerPlacement(
        client=engine,  # type: ignore[arg-type]
        run_id="r",
        cell_id="01-a",
        remove_files=lambda: removed_files.append("files"),
    )


def test_both_containers_are_removed_at_once_and_then_the_files() -> None:
    engine, files = Engine(), list[str]()
    placement(engine, files).remove()
    assert sorted(engine.removed) == ["volbench-r-01-a-agent", "volbench-r-01-a-server"]
    assert files == ["files"]


def test_where_one_container_cannot_be_removed_the_files_stay() -> None:
    engine, files = Engine(refused="agent"), list[str]()
    with pytest.raises(StepFailed, match="refused"):
        placement(engine, files).remove()
    assert engine.removed == ["volbench-r-01-a-server"]
    assert files == []


def test_the_engine_is_asked_once_until_the_container_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(containers, "_wait_for_container", lambda _: ended.wait(BOUND_S))
    engine = Engine()
    agent = placement(engine, [])
    assert all(agent.running() for _ in range(20))
    assert engine.asked == 1
    engine.status = "exited"
    ended.set()
    agent.wait_for_end(BOUND_S)
    assert not agent.running()
    assert engine.asked == 2


def test_a_container_that_does_not_run_is_not_waited_for() -> None:
    agent = placement(Engine(status="created"), [])
    assert not agent.running()
    agent.wait_for_end(BOUND_S)


@pytest.mark.parametrize(
    ("kind", "filesystem", "emulated", "expected"),
    [
        ("small_files", "ext4", False, True),
        ("small_files", "fuse.volbench", True, True),  # its files lie on a file system of this machine
        ("small_files", "xfs", False, False),
        ("oltp", "ext4", False, False),
    ],
)
def test_deleted_inodes_are_forgotten_before_a_cell_of_small_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, kind: str, filesystem: str, emulated: bool, expected: bool
) -> None:
    forget = Mock(return_value=True)
    monkeypatch.setattr(target, "forget_deleted_inodes", forget)
    monkeypatch.setattr(target, "discover", lambda _: SimpleNamespace(filesystem=filesystem))
    volume = SimpleNamespace(host_path=tmp_path, emulator_socket=tmp_path if emulated else None)
    target._forget_deleted_inodes(
        SimpleNamespace(volume=volume, cell=SimpleNamespace(steps=[SimpleNamespace(kind=kind)]))  # type: ignore[arg-type]
    )
    assert forget.called is expected


class RootlessEngine:
    """What an engine says of itself, and the containers that were asked of it."""

    def __init__(self, *, rootless: bool, podman: bool) -> None:
        self.api, self.containers = self, self
        self._rootless, self._podman = rootless, podman
        self.created: dict[str, Any] = {}

    def info(self) -> dict[str, Any]:
        return {"SecurityOptions": ["name=seccomp,profile=default", *(["name=rootless"] if self._rootless else [])]}

    def version(self) -> dict[str, Any]:
        return {"Components": [{"Name": "Podman Engine" if self._podman else "Engine"}]}

    def create_host_config(self, **host: Any) -> dict[str, Any]:
        return host

    def create_container(self, image: str, command: list[str], **options: Any) -> dict[str, str]:
        self.created = {"image": image, "command": command, **options}
        return {"Id": "1"}

    def get(self, _: str) -> Mock:
        return Mock()


@pytest.mark.parametrize(
    ("rootless", "podman", "namespace"), [(False, False, ""), (False, True, ""), (True, True, "keep-id")]
)
def test_podman_without_root_keeps_the_users_number(
    monkeypatch: pytest.MonkeyPatch, *, rootless: bool, podman: bool, namespace: str
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    engine: Any = RootlessEngine(rootless=rootless, podman=podman)
    assert containers.user_namespace(engine) == namespace
    containers.start_container(
        engine, "i", ["a"], user="1000:1000", namespace=namespace, labels={}, network_mode="none"
    )
    assert engine.created["host_config"].get("UsernsMode", "") == namespace
    assert engine.created["entrypoint"] == []


@pytest.mark.parametrize(
    ("podman", "uid", "next_step"), [(False, 1000, "podman.socket"), (True, 0, "as the user of the engine")]
)
def test_an_engine_without_root_that_cannot_give_files_to_containers_is_refused(
    monkeypatch: pytest.MonkeyPatch, *, podman: bool, uid: int, next_step: str
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: uid)
    with pytest.raises(MissingPrerequisite, match="without root") as refused:
        containers.user_namespace(cast("docker.DockerClient", RootlessEngine(rootless=True, podman=podman)))
    assert next_step in refused.value.next_step
