"""The images are built in an order that leaves no worker alone with the longest of them."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Self

import pytest

from bootstrap import images
from bootstrap.console import Console
from bootstrap.directories import find_directories
from volbench.machine.placement import capabilities
from volbench.machine.placement.docker import image_names


class InOrder:
    """A pool that does each job at once, in the order in which they are submitted."""

    def __init__(self, **options: int) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def submit(self, job: Any, *arguments: Any) -> Future[None]:
        future: Future[None] = Future()
        future.set_result(job(*arguments))
        return future


def test_the_tools_image_is_begun_before_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes longer than two of them together."""
    begun: list[str] = []
    missing = capabilities.Means(name="docker", present=False, evidence="pretended")
    monkeypatch.setattr(images, "ThreadPoolExecutor", InOrder)
    monkeypatch.setattr(images, "_is_here", lambda *_: False)
    monkeypatch.setattr(images, "_find_base", lambda *_: "base")
    monkeypatch.setattr(images, "_build_tools", lambda *_: begun.append("tools"))
    monkeypatch.setattr(images, "_ensure_server", lambda server, *_: begun.append(server.flavor))
    monkeypatch.setattr(images, "_tag", lambda *_: None)
    monkeypatch.setattr(capabilities, "docker_image", lambda _: missing)
    monkeypatch.setattr(image_names, "local_images", tuple)
    images.ensure_images(
        find_directories(), Console(yes=True), ["mysql", "mariadb"], meanwhile=lambda: begun.append("packages")
    )
    assert begun == ["tools", "mysql", "mariadb", "packages"]


def test_images_that_are_there_get_the_names_of_compose_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time: the second name of an earlier code's image would be left on that image."""
    names: dict[str, str] = {}
    present = capabilities.Means(name="docker", present=True, evidence="pretended")
    monkeypatch.setattr(images, "_is_here", lambda *_: True)
    monkeypatch.setattr(images, "_tag", lambda name, alias: names.update({alias: name}))
    monkeypatch.setattr(capabilities, "docker_image", lambda _: present)
    monkeypatch.setattr(image_names, "local_images", lambda: ("volbench/mysql:9.7", "mariadb:11.8"))
    called: list[str] = []
    images.ensure_images(
        find_directories(), Console(yes=True), ["mysql", "mariadb"], meanwhile=lambda: called.append("packages")
    )
    assert called == ["packages"]
    assert names == {
        image_names.TOOLS_ALIAS: image_names.tools_image(),
        image_names.SERVER_ALIAS: "volbench/mysql:9.7",
    }
