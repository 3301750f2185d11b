"""path volumes: checked and looked at, nothing written."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from volbench.core.base.ownership import claim
from volbench.core.profile.spec import parse_volume
from volbench.core.records.facts import VolumeFacts
from volbench.errors import MissingPrerequisite, Refused, StepFailed, UsageError
from volbench.machine.volume.factory import make_volume
from volbench.machine.volume.kinds import path


def open_path(path: Path) -> Path | None:
    with make_volume(parse_volume(f"a=path:{path}")) as opened:
        return opened.host_path


def test_place_is_left_as_it_is(tmp_path: Path) -> None:
    """A volume may hold the user's files and lost+found: opening and closing change nothing."""
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "mine.txt").write_text("x")
    before = tmp_path.stat().st_mtime_ns
    with make_volume(parse_volume(f"a={tmp_path}")) as opened:
        assert opened.host_path == tmp_path
        assert opened.name == "a"
        assert opened.facts is not None
        assert opened.facts.path == str(tmp_path)
        assert opened.docker_volume is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lost+found", "mine.txt"]
    assert tmp_path.stat().st_mtime_ns == before


def test_a_path_on_an_emulated_volume_is_labelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that `volume emulate` made, or a container: results on it are never taken for a real volume's."""
    claim(tmp_path / "v", purpose="emulated volume")
    (tmp_path / "v" / "volume.json").write_text('{"profile": "ebs-gp2", "parameters": {"time_scale": 20.0}}')
    (tmp_path / "v" / "data").mkdir()
    directory = str(tmp_path / "v" / "data")
    monkeypatch.setattr(path, "discover", lambda _: VolumeFacts(path=directory, mount_point=directory))
    with make_volume(parse_volume(f"a=path:{directory}")) as opened:
        assert opened.facts is not None
        assert opened.facts.emulated_profile == "ebs-gp2"
        assert opened.facts.emulated_parameters == {"time_scale": 20.0}
        assert opened.emulator_socket == tmp_path / "v" / "control.sock"


def test_missing(tmp_path: Path) -> None:
    """A missing place is not made: a forgotten mount would otherwise measure the system disk."""
    with pytest.raises(MissingPrerequisite, match="does not exist") as caught:
        open_path(tmp_path / "no")
    assert "mkdir -p" in caught.value.next_step
    assert "mount" in caught.value.next_step
    assert caught.value.cause == "volume_gone"


def test_file_and_dangling_link(tmp_path: Path) -> None:
    """What is no directory is told as such."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "device").symlink_to(os.devnull)
    for name, noun in (("file", "a file"), ("link", "a dangling link"), ("device", "a special file")):
        with pytest.raises(MissingPrerequisite, match="is not a directory") as caught:
            open_path(tmp_path / name)
        assert caught.value.evidence == f"it is {noun}"


def test_a_device_is_refused_with_what_to_do_and_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its own name it is refused with the SPEC, by a link to it when the volume is opened."""
    with pytest.raises(UsageError, match="volbench touches no device"):
        parse_volume("a=path:/dev/nvme1n1")
    (tmp_path / "disk").write_text("of the user's")
    status = os.stat_result((stat.S_IFBLK | 0o600, *(tmp_path / "disk").stat()[1:]))
    monkeypatch.setattr(path, "in_time", lambda _call, **_limit: status)
    with pytest.raises(MissingPrerequisite, match="is not a directory") as caught:
        open_path(tmp_path / "disk")
    assert caught.value.evidence == "it is a block device"
    assert "mount its file system" in caught.value.next_step


@pytest.mark.parametrize("inside", ["", "sub"])
def test_data_directory_is_refused(tmp_path: Path, inside: str) -> None:
    """A server's data directory, or a place in one, is refused with exit 4."""
    (tmp_path / "ibdata1").touch()
    (tmp_path / "mysql.ibd").touch()
    (tmp_path / "sub").mkdir()
    with pytest.raises(Refused, match="MySQL data directory") as caught:
        open_path(tmp_path / inside)
    assert caught.value.exit_code == 4


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_not_writable(tmp_path: Path) -> None:
    """A place without the right to write is told with mode and owner."""
    tmp_path.chmod(0o500)
    with pytest.raises(MissingPrerequisite, match="may not write to"):
        open_path(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
def test_read_only_mount(tmp_path: Path) -> None:
    """A read-only mount is told before anything runs."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "ro", "x", str(tmp_path)], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"cannot mount: {done.stderr.decode().strip()}")
    try:
        with pytest.raises(MissingPrerequisite, match="read-only") as caught:
            open_path(tmp_path)
        assert caught.value.cause == "volume_read_only"
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.parametrize("text", ["a=pvc:x", "a=storage-class:x?size=1Gi"])
def test_kubernetes_kinds_need_their_target(text: str) -> None:
    """A claim means nothing to this machine."""
    with pytest.raises(UsageError, match="kubernetes"):
        make_volume(parse_volume(text))


def test_a_stale_mount_is_no_missing_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`mkdir -p` would be the wrong advice: the export is gone, and the mount is there."""

    def refuse(self: Path) -> os.stat_result:
        raise OSError(errno.ESTALE, "Stale file handle", str(self))

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(StepFailed, match="the volume is gone, or fails") as caught:
        path.check_directory(tmp_path, where="volume a")
    assert (caught.value.exit_code, caught.value.cause) == (5, "volume_gone")
    assert "ESTALE" in caught.value.evidence


def test_a_mount_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()
    monkeypatch.setattr(path, "OPEN_S_MAX", 0.1)
    monkeypatch.setattr(Path, "stat", lambda _: answers.wait(60))
    with pytest.raises(StepFailed, match="the volume does not answer") as caught:
        path.check_directory(tmp_path, where="volume a")
    answers.set()
    assert (caught.value.exit_code, caught.value.cause) == (5, "volume_hangs")
