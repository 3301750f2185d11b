"""An emulated volume is named by its name, or by its directory where names repeat."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.errors import UsageError
from volbench.machine.volume.emulated import discovery
from volbench.machine.volume.emulated.status import VolumeStatus


def volume(directory: Path) -> VolumeStatus:
    """Return a stopped volume of a directory."""
    return VolumeStatus(
        name=directory.name,
        directory=directory,
        data=directory / "data",
        profile="ebs-gp3",
        parameters={},
        status="stopped",
        owner_pid=None,
    )


@pytest.fixture
def two_of_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two volumes called v: one of another program on the machine, one below a directory that the user names."""
    elsewhere, own = tmp_path / "elsewhere", tmp_path / "own"
    by_root = {root: (volume(root / "v"),) for root in (elsewhere, own)}
    monkeypatch.setattr(discovery, "_roots", lambda: {elsewhere, own})
    monkeypatch.setattr(discovery, "list_volumes", lambda root: by_root.get(root, ()))
    return elsewhere, own


def test_a_directory_decides_between_volumes_of_a_name(two_of_a_name: tuple[Path, Path]) -> None:
    elsewhere, own = two_of_a_name
    assert discovery.find_volume("v", [own]).directory == own / "v"
    assert discovery.find_volume("v", [elsewhere]).directory == elsewhere / "v"
    assert discovery.find_volume(str(own / "v")).directory == own / "v"


def test_a_name_alone_that_two_volumes_have_is_refused(two_of_a_name: tuple[Path, Path]) -> None:
    with pytest.raises(UsageError, match="several emulated volumes are called 'v'"):
        discovery.find_volume("v")


def test_a_name_that_only_another_directory_has_is_still_a_volume(
    two_of_a_name: tuple[Path, Path], tmp_path: Path
) -> None:
    elsewhere, _ = two_of_a_name
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=str(elsewhere / "v")):
        discovery.find_volume("v", [tmp_path / "empty"])
