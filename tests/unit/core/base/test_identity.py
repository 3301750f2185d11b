"""A marker counts in the directory that it was made for, wherever that is mounted; not in a copy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from volbench.core.base import identity, ownership, safe_files
from volbench.core.base.marker import MARKER
from volbench.errors import Refused

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")


@pytest.fixture
def own_directory(tmp_path: Path) -> Path:
    directory = tmp_path / "ours"
    ownership.claim(directory, purpose="test")
    (directory / "file").write_text("x")
    return directory


@pytest.mark.parametrize("copied", [["cp", "-a"], ["cp", "-a", "--reflink=never"], ["cp", "-al"]])
def test_a_copy_is_nobodys(own_directory: Path, tmp_path: Path, copied: list[str]) -> None:
    """Its data may be what somebody wanted to keep."""
    copy = tmp_path / "copy"
    subprocess.run([*copied, str(own_directory), str(copy)], check=True, timeout=60)
    (copy / MARKER).unlink()
    shutil.copy2(own_directory / MARKER, copy / MARKER)
    assert not ownership.is_owned(copy)
    with pytest.raises(Refused, match="this one is a copy"):
        ownership.remove(copy)
    with pytest.raises(Refused, match="this one is a copy"):
        ownership.erase_contents(copy)
    assert (copy / "file").read_text() == "x"
    ownership.remove(own_directory)
    assert not own_directory.exists()


def test_a_copy_on_another_file_system_is_nobodys(own_directory: Path) -> None:
    copy = Path("/dev/shm") / f"volbench-copy-{os.getpid()}"
    shutil.copytree(own_directory, copy)
    try:
        assert not ownership.is_owned(copy)
    finally:
        shutil.rmtree(copy)


def test_a_moved_directory_stays_ours(own_directory: Path, tmp_path: Path) -> None:
    assert ownership.is_owned(own_directory.rename(tmp_path / "moved"))


@pytest.fixture
def image(tmp_path: Path) -> Path:
    file = tmp_path / "image"
    with file.open("wb") as opened:
        opened.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(file)], check=True, timeout=60)
    return file


@AS_ROOT
def test_a_volume_that_moved_is_ours(image: Path, tmp_path: Path) -> None:
    """Unmounted, and mounted elsewhere by another device, as on another node; also by a bind mount."""
    locations = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    for location in locations:
        location.mkdir()
    mounted = ["mount", "-o", "loop", str(image)]
    if subprocess.run([*mounted, str(locations[0])], capture_output=True, check=False, timeout=60).returncode:
        pytest.skip("no loop devices here")
    ownership.claim(locations[0] / "ours", purpose="test")
    subprocess.run(["umount", str(locations[0])], check=True, timeout=60)
    subprocess.run([*mounted, str(locations[1])], check=True, timeout=60)
    try:
        assert ownership.is_owned(locations[1] / "ours")
        subprocess.run(["mount", "--bind", str(locations[1]), str(locations[2])], check=True, timeout=60)
        assert ownership.is_owned(locations[2] / "ours")
    finally:
        for location in (locations[2], locations[1]):
            subprocess.run(["umount", str(location)], check=False, timeout=60)


def test_where_directories_are_numbered_anew_the_number_decides_nothing(
    own_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FUSE and overlayfs; and a marker of an older version has no number."""
    content = json.loads((own_directory / MARKER).read_text())
    (own_directory / MARKER).write_text(json.dumps({**content, "directory": {**content["directory"], "inode": 1}}))
    assert not ownership.is_owned(own_directory)
    monkeypatch.setattr(identity, "LASTING", frozenset())
    assert ownership.is_owned(own_directory)
    monkeypatch.undo()
    del content["directory"]
    (own_directory / MARKER).write_text(json.dumps(content))
    assert ownership.is_owned(own_directory)


@AS_ROOT
def test_a_parent_that_a_group_may_write_to(tmp_path: Path) -> None:
    """Its other members could replace what is in it; a group of its owner alone has none."""
    parent = tmp_path / "parent"
    parent.mkdir()
    parent.chmod(0o775)
    assert safe_files.untrusted_parent(parent / "x") is None, "the group of root"
    os.chown(parent, 0, 1)  # daemon's
    assert "may rename what is in" in str(safe_files.untrusted_parent(parent / "x"))
    with pytest.raises(Refused, match="other users could replace"):
        ownership.claim(parent / "ours", purpose="test")
    parent.chmod(0o1775)
    assert safe_files.untrusted_parent(parent / "x") is None, "sticky"
    parent.chmod(0o775)
    os.chown(parent, 1, 1)
    assert safe_files.untrusted_parent(parent / "x") is None
    assert safe_files.untrusted_parent(parent / "x", owners=frozenset({0})) is not None
