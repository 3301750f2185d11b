"""Where a server's user may enter, and who becomes the owner of its files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from volbench.core.base import ownership
from volbench.core.base.confinement import USERS
from volbench.errors import MissingPrerequisite, Refused
from volbench.machine.engine.enclosure import closed_parent
from volbench.machine.engine.server_user import hand_to_user, open_parents, server_user

USER = USERS[7]


def test_the_uppermost_closed_directory_is_found(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b" / "data"
    directory.mkdir(parents=True)
    for parent in directory.parents:
        if parent == tmp_path.parents[-2]:
            break
        parent.chmod(0o711)
    assert closed_parent(str(directory), USER) is None
    directory.parent.chmod(0o700)
    assert closed_parent(str(directory), USER) == str(directory.parent)
    directory.parents[1].chmod(0o750)
    assert closed_parent(str(directory), USER) == str(directory.parents[1])
    directory.chmod(0o700)
    assert closed_parent(str(directory), os.geteuid()) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
class TestOfRoot:
    def test_a_data_directory_keeps_its_user(self, tmp_path: Path) -> None:
        assert server_user(tmp_path) in USERS
        os.chown(tmp_path, USER, USER)
        assert server_user(tmp_path) == USER

    def test_links_are_not_followed_and_files_with_other_names_not_given_away(self, tmp_path: Path) -> None:
        """A server that somebody took over could name files of root in its own directory."""
        secret = tmp_path / "secret"
        secret.touch()
        data = tmp_path / "data"
        (data / "shop").mkdir(parents=True)
        (data / "shop" / "link").symlink_to(secret)
        (data / "elsewhere").symlink_to(tmp_path)
        assert hand_to_user(data, USER) == USER
        assert (data / "shop" / "link").lstat().st_uid == USER
        assert secret.stat().st_uid == tmp_path.stat().st_uid == 0
        (data / "shop" / "t.ibd").hardlink_to(secret)
        with pytest.raises(Refused, match="another name"):
            hand_to_user(data, USER)
        assert secret.stat().st_uid == 0

    def test_without_a_mount_namespace_only_directories_of_volbench_are_opened(self, tmp_path: Path) -> None:
        for parent in tmp_path.parents[:-2]:
            parent.chmod(parent.stat().st_mode | 0o111)
        tmp_path.chmod(0o711)
        own = tmp_path / "ours"
        ownership.claim(own, purpose="test")
        (own / "data").mkdir()
        open_parents([own / "data"], USER)
        assert closed_parent(str(own / "data"), USER) is None
        own.chmod(0o700)
        tmp_path.chmod(0o700)
        with pytest.raises(MissingPrerequisite, match=f"may not enter {tmp_path}") as refused:
            open_parents([own / "data"], USER)
        assert "VOLBENCH_CACHE" in refused.value.next_step
        assert tmp_path.stat().st_mode & 0o777 == 0o700

    def test_a_file_system_that_keeps_no_owners(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """NFS with root_squash: the server runs as whom the file server makes of root."""

        def refused(*_: object, **__: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "chown", refused)
        with pytest.raises(MissingPrerequisite, match="no server runs as root"):
            hand_to_user(tmp_path, USER)
        monkeypatch.undo()
        os.chown(tmp_path, 65534, 65534)
        monkeypatch.setattr(os, "chown", refused)
        assert hand_to_user(tmp_path, USER) == 65534
