"""What the set-up does, and what of it while images are built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bootstrap import __main__ as set_up
from bootstrap import emulator, engine, environment, extras, images, lexer, local, posix_suites
from bootstrap.console import Console
from bootstrap.directories import find_directories
from volbench.errors import MissingPrerequisite
from volbench.machine.placement import capabilities

PRESENT = capabilities.Means(name="docker", present=True, evidence="pretended")


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the steps in the order of their ends; none does anything."""
    ended: list[str] = []

    def step(name: str, result: Any = None) -> Callable[..., Any]:
        def end(*_: Any, **__: Any) -> Any:
            ended.append(name)
            return result

        return end

    monkeypatch.setattr(set_up, "install", step("programs of Python"))
    monkeypatch.setattr(extras, "install", lambda *_: None)
    monkeypatch.setattr(extras, "try_test_tools", step("programs of tests"))
    monkeypatch.setattr(lexer, "ensure_lexer", step("lexer"))
    monkeypatch.setattr(environment, "ensure_environment", step("environment"))
    monkeypatch.setattr(emulator, "ensure_emulator", step("emulator"))
    monkeypatch.setattr(posix_suites, "ensure_posix_suites", step("suites"))
    monkeypatch.setattr(capabilities, "lacks_for_emulation", list)
    monkeypatch.setattr(engine, "ensure_engine", step("engine", PRESENT))
    monkeypatch.setattr(local, "ensure_local", step("local", PRESENT))

    def ensure_images(*_: Any, meanwhile: Callable[[], None], **__: Any) -> tuple[str, ...]:
        meanwhile()
        ended.append("images")
        return ("tools",)

    monkeypatch.setattr(images, "ensure_images", ensure_images)
    return ended


def run(command: str) -> None:
    set_up._do(command, find_directories(), Console(yes=True))


def test_programs_of_tests_are_installed_while_images_are_built(done: list[str]) -> None:
    run("test")
    assert done.index("lexer") < done.index("engine") < done.index("programs of tests") < done.index("images")
    assert done.index("emulator") < done.index("suites")
    assert sorted(done) == sorted(set(done))


def test_the_demo_has_nothing_that_only_tests_need(done: list[str]) -> None:
    run("demo")
    assert {"programs of tests", "suites"}.isdisjoint(done)
    assert {"environment", "emulator", "images"} <= set(done)


@pytest.mark.parametrize("lacking", ["engine", "images"])
def test_without_containers_programs_of_tests_are_installed_once(
    done: list[str], lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks(*_: Any, meanwhile: Callable[[], None] = lambda: None, **__: Any) -> None:
        meanwhile()
        raise MissingPrerequisite(what="no engine answers", where="here")

    module, name = (engine, "ensure_engine") if lacking == "engine" else (images, "ensure_images")
    monkeypatch.setattr(module, name, lacks)
    run("test")
    assert done.count("programs of tests") == 1
    assert done.count("local") == 1
    assert done.index("programs of tests") < done.index("local")
