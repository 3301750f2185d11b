"""What the demo compares with, and what a run can do without."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bootstrap import emulator, extras
from bootstrap.places import find_places
from volbench.target import means


@pytest.fixture
def fuse(monkeypatch: pytest.MonkeyPatch) -> None:
    there = means.Means(name="emulator", present=True, evidence="pretended")
    monkeypatch.setattr(means, "fuse_and_loop", lambda: there)


@pytest.mark.usefixtures("fuse")
def test_the_demo_compares_with_an_emulated_volume_once_its_daemon_is_built(tmp_path: Path) -> None:
    places = dataclasses.replace(find_places(), cache=tmp_path)
    assert extras.second_demo_volume(places) == "memory=path:/dev/shm/volbench-demo"
    kept = emulator._kept(places)
    kept.parent.mkdir(parents=True)
    kept.touch()
    assert extras.second_demo_volume(places) == "gp3=emulated:ebs-gp3"


def test_a_kernel_without_fuse_compares_with_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = means.Means(name="emulator", present=False, evidence="no /dev/fuse")
    monkeypatch.setattr(means, "fuse_and_loop", lambda: absent)
    assert extras.second_demo_volume(find_places()).startswith("memory=")
