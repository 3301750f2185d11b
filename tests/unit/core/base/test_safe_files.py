"""Files below a directory, with openat2 and without it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from volbench.core.base import safe_files


@pytest.fixture(params=["openat2", "by steps"])
def root_descriptor(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[int]:
    """A directory, opened; kernels before 5.6 and some sandboxes have no openat2."""
    if request.param == "by steps":
        monkeypatch.setattr(safe_files, "has_openat2", lambda: False)
    elif not safe_files.has_openat2():
        pytest.skip("no openat2 here")
    with safe_files.held_directory(tmp_path) as descriptor:
        yield descriptor


def test_a_file_below_is_read(root_descriptor: int, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"x")
    assert safe_files.read_regular(root_descriptor, "a/b/file") == b"x"


@pytest.mark.parametrize("link_at", ["a", "a/b", "a/b/file"])
def test_no_part_of_a_path_may_be_a_link(root_descriptor: int, tmp_path: Path, link_at: str) -> None:
    (tmp_path / "real" / "b").mkdir(parents=True)
    (tmp_path / "real" / "b" / "file").write_bytes(b"x")
    (tmp_path / "real" / "file").write_bytes(b"x")
    directory = tmp_path / link_at
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.symlink_to(
        tmp_path / "real" / ("file" if link_at.endswith("file") else "b" if "/" in link_at else "")
    )
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the number is what counts
        safe_files.read_regular(root_descriptor, "a/b/file")
    assert caught.value.errno in (errno.ELOOP, errno.ENOTDIR)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x"])
def test_a_path_never_leads_out(root_descriptor: int, name: str) -> None:
    with pytest.raises(OSError) as caught:  # noqa: PT011
        safe_files.open_regular(root_descriptor, name)
    assert caught.value.errno == errno.EXDEV


def test_a_file_that_is_too_large_is_refused(root_descriptor: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 11)
    with pytest.raises(OSError, match="larger than 10 bytes"):
        safe_files.read_regular(root_descriptor, "file", bytes_max=10)


def test_a_new_file_replaces_a_link_and_leaves_its_target(root_descriptor: int, tmp_path: Path) -> None:
    """Also where the partial file's name is taken by one."""
    victim = tmp_path / "victim"
    victim.write_text("treasure")
    for name in ("file", ".file.partial"):
        (tmp_path / name).symlink_to(victim)
    safe_files.write_new(root_descriptor, "file", b"ours", mode=0o640)
    assert victim.read_text() == "treasure"
    assert (tmp_path / "file").read_bytes() == b"ours"
    assert (tmp_path / "file").lstat().st_mode & 0o777 == 0o640
    assert not os.path.lexists(tmp_path / ".file.partial")


def test_a_very_deep_tree_is_erased(root_descriptor: int, tmp_path: Path) -> None:
    """Deeper than a path may be long, and than descriptors and recursion go."""
    below = os.dup(root_descriptor)
    for _ in range(1500):
        os.mkdir("d", dir_fd=below)
        deeper = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=below)
        os.close(below)
        below = deeper
    os.close(below)
    safe_files.erase_below(root_descriptor)
    assert list(tmp_path.iterdir()) == []
