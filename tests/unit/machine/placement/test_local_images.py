"""Images that only the set-up makes are never pulled: on a public registry anybody may own their names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import docker
import pytest
from docker.errors import ImageNotFound

from volbench.core.records.cell import ServerSpec
from volbench.errors import MissingPrerequisite
from volbench.machine.placement.docker.image_names import SERVER_ALIAS, TOOLS_ALIAS, is_local
from volbench.machine.placement.docker.images import server_image

ROOT = Path(__file__).parents[4]
PULLS = re.compile(
    r"docker (?:run|create|pull)\b|--image[= ]|\bimage:|newName:|\bFROM\b|^ARG |_IMAGE:-|--build-arg"
)
"""What makes a program ask a registry for an image that is missing."""
NAME = re.compile(r"(?<![\w./-])volbench/[a-z]+[:@]")
SHIPPED = ("README.md", "Makefile", ".github", "docs", "docker", "k8s")
SUFFIXES = {".md", ".yaml", ".yml", ".sh", ".tpl", ""}


class Engine:
    """An engine without an image, whose registry has them all."""

    def __init__(self) -> None:
        self.pulled: list[str] = []

    @property
    def images(self) -> Engine:
        return self

    def get(self, name: str) -> Any:
        raise ImageNotFound(f"No such image: {name}")

    def pull(self, name: str) -> None:
        self.pulled.append(name)

    @property
    def client(self) -> docker.DockerClient:
        return cast("docker.DockerClient", self)


@pytest.mark.parametrize("image", ["volbench/mysql:9.7", SERVER_ALIAS])
def test_an_image_of_the_set_up_is_not_pulled(image: str) -> None:
    engine = Engine()
    with pytest.raises(MissingPrerequisite) as lacking:
        server_image(engine.client, ServerSpec(image=image))
    assert engine.pulled == []
    assert image in lacking.value.what
    assert "make images" in lacking.value.next_step


def test_any_other_image_is_pulled() -> None:
    engine = Engine()
    for image in ("mysql:8.4", "reg.example/volbench/mysql:9.7"):
        assert server_image(engine.client, ServerSpec(image=image)) == image
    assert engine.pulled == ["mysql:8.4", "reg.example/volbench/mysql:9.7"]


@pytest.mark.parametrize(
    ("image", "local"),
    [
        ("volbench/tools:0a1b2c", True),
        (TOOLS_ALIAS, True),
        ("localhost/volbench/mysql:9.7", True),
        ("reg.example/volbench/tools:1", False),
        ("volbench-tools:1", False),
        ("mysql:8.4", False),
    ],
)
def test_a_name_of_the_set_up_has_no_host_or_one_that_cannot_exist(image: str, local: bool) -> None:
    assert is_local(image) is local


def test_nothing_that_a_user_copies_asks_a_public_registry_for_such_a_name() -> None:
    faults = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for name in SHIPPED
        for file in ([ROOT / name] if (ROOT / name).is_file() else sorted((ROOT / name).rglob("*")))
        if file.is_file() and file.suffix in SUFFIXES
        for line in file.read_text().splitlines()
        if PULLS.search(line) and NAME.search(line)
    ]
    assert faults == []


def test_the_search_finds_such_a_line() -> None:
    for line in ("docker run --rm volbench/tools:1 x", "    image: volbench/server:1", "FROM volbench/base:sid"):
        assert PULLS.search(line)
        assert NAME.search(line)
    assert not NAME.search("docker run volbench.invalid/tools:1 reg.example/volbench/tools:1")
