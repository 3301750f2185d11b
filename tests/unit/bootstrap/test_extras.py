"""What the demo compares with, and what a run can do without."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bootstrap import emulator, extras
from bootstrap.console import Console
from bootstrap.directories import find_directories
from volbench.errors import MissingPrerequisite
from volbench.machine.placement import capabilities


@pytest.fixture
def fuse(monkeypatch: pytest.MonkeyPatch) -> None:
    existing = capabilities.Means(name="emulator", present=True, evidence="pretended")
    monkeypatch.setattr(capabilities, "fuse_and_loop", lambda: existing)


@pytest.mark.usefixtures("fuse")
def test_the_demo_compares_with_an_emulated_volume_once_its_daemon_is_built(tmp_path: Path) -> None:
    directories = dataclasses.replace(find_directories(), cache=tmp_path)
    assert extras.second_demo_volume(directories) == "memory=path:/dev/shm/volbench-demo"
    remaining = emulator._cached_daemon(directories)
    remaining.parent.mkdir(parents=True)
    remaining.touch()
    assert extras.second_demo_volume(directories) == "gp3=emulated:ebs-gp3"


def test_a_kernel_without_fuse_compares_with_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = capabilities.Means(name="emulator", present=False, evidence="no /dev/fuse")
    monkeypatch.setattr(capabilities, "fuse_and_loop", lambda: absent)
    assert extras.second_demo_volume(find_directories()).startswith("memory=")


def test_what_packages_bring_is_installed_before_the_emulator_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without mkfs.xfs and a compiler gets both, where the kernel can carry emulated volumes."""
    requests: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        extras, "install", lambda needs, *_: requests.append(tuple(need.packages[0] for need in needs))
    )
    monkeypatch.setattr(emulator, "is_built", lambda _: False)
    monkeypatch.setattr(capabilities, "lacks_for_emulation", list)
    extras.try_compiler(find_directories(), Console(yes=True))
    (packages,) = requests
    assert {"cargo-web", "xfsprogs", "mount"} <= set(packages)


def test_where_the_kernel_cannot_emulate_nothing_is_installed_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "install", lambda *_: pytest.fail("installed"))
    monkeypatch.setattr(capabilities, "lacks_for_emulation", lambda: ["no /dev/fuse"])
    extras.try_compiler(find_directories(), Console(yes=True))


def test_a_machine_without_a_compiler_goes_on_without_the_lexer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The demo needs none."""

    def offers_none(*_: object) -> None:
        raise MissingPrerequisite(what="the distribution offers none of cargo-web, cargo")

    monkeypatch.setattr(extras, "install", offers_none)
    directories = dataclasses.replace(find_directories(), cache=tmp_path)
    extras.try_lexer(directories, Console(yes=True))
    assert "no observation, validation or replay of logs" in capsys.readouterr().out
