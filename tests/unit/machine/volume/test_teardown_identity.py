"""Only what is proven to be a volume's own is signalled, detached or unmounted: names and paths prove nothing.

Real processes, loop devices and mounts; those of others are made in a mount namespace of their own, as containers
have one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from volbench.core.base.ownership import claim
from volbench.errors import StepFailed
from volbench.machine.volume.emulated.attachments import DAEMON, LOCK, LOOP, attachments, forget_loop, remember_loop
from volbench.machine.volume.emulated.teardown import take_down, take_lock

WAIT_S = 60.0
AS_ROOT = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/loop-control").exists() or shutil.which("losetup") is None,
    reason="needs root, loop devices and losetup",
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "v"
    claim(directory, purpose="emulated volume")
    for name in ("image", "data"):
        (directory / name).mkdir()
    return directory


@contextmanager
def process_named_as_the_daemon(directory: Path, *, lock: bool) -> Iterator[subprocess.Popen[bytes]]:
    """A program of the daemon's name in the volume's directory; with the volume's lock only if it is the daemon."""
    program = directory.parent / DAEMON
    shutil.copy("/bin/sleep", program)
    with (directory / LOCK).open("ab") as file:
        if lock:
            assert take_lock(file)
        process = subprocess.Popen(
            [program, "60"], cwd=directory, pass_fds=[file.fileno()] if lock else [], stdin=subprocess.DEVNULL
        )
    try:
        until = time.monotonic() + WAIT_S
        while Path(f"/proc/{process.pid}/comm").read_text().strip() != DAEMON and time.monotonic() < until:
            time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.wait(WAIT_S)


def test_a_process_of_the_daemons_name_and_directory_is_not_signalled(directory: Path) -> None:
    """Of the same user even: without the volume's lock it is no daemon of it."""
    with process_named_as_the_daemon(directory, lock=False) as process:
        assert attachments(directory).daemons == ()
        take_down(directory, force=True)
        assert process.poll() is None


def test_the_process_that_has_the_volumes_lock_is_ended(directory: Path) -> None:
    """Also one that does not end by itself: its mount is gone, so it is told to."""
    with process_named_as_the_daemon(directory, lock=True) as process:
        assert attachments(directory).daemons == (process.pid,)
        take_down(directory, force=True)
        assert process.wait(WAIT_S) < 0
    assert attachments(directory).daemons == ()


def test_a_lock_of_another_volume_proves_nothing(directory: Path, tmp_path: Path) -> None:
    """A daemon of another volume that stands in this directory."""
    second = tmp_path / "other"
    claim(second, purpose="emulated volume")
    (directory / LOCK).touch()
    with process_named_as_the_daemon(second, lock=True) as process:
        os.kill(process.pid, 0)
        assert attachments(directory).daemons == ()


@contextmanager
def foreign_loop(directory: Path) -> Iterator[str]:
    """A loop device of a container: its file has the path of the volume's image there, and another place here."""
    script = (
        f"mount -t tmpfs none '{directory}/image' && truncate -s 1M '{directory}/image/disk.img' && "
        f"losetup -f --show '{directory}/image/disk.img' && read -r _"
    )
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    device = Path(process.stdout.readline().strip())
    try:
        backing_file = Path(f"/sys/block/{device.name}/loop/backing_file")
        assert backing_file.read_text().strip() == f"{directory}/image/disk.img"
        yield device.name
    finally:
        subprocess.run(["losetup", "-d", device], check=False, timeout=120, capture_output=True)
        process.communicate("\n", timeout=120)


@AS_ROOT
def test_a_loop_device_of_a_file_of_the_same_path_elsewhere_is_not_detached(directory: Path) -> None:
    """Where nothing was written down, as when volbench was killed while it attached one."""
    with foreign_loop(directory) as loop:
        assert attachments(directory).loops == ()
        take_down(directory, force=True)
        assert Path(f"/sys/block/{loop}/loop/backing_file").exists()


@AS_ROOT
def test_beside_the_attachment_that_was_written_down_no_other_is_the_volumes(directory: Path) -> None:
    image = directory / "own.img"
    image.write_bytes(b"\0" * (1 << 20))
    own = Path(subprocess.check_output(["losetup", "--show", "--find", image], text=True).strip())
    try:
        remember_loop(directory, own)
        with foreign_loop(directory):
            assert attachments(directory).loops == (own.name,)
        forget_loop(directory)
        assert not (directory / LOOP).exists()
    finally:
        subprocess.run(["losetup", "-d", own], check=True)


@AS_ROOT
@pytest.mark.parametrize("result", ["data", "image", "data/inside"])
def test_a_mount_that_somebody_else_made_is_not_unmounted(directory: Path, result: str) -> None:
    """It is named, and nothing is taken down below it."""
    (directory / result).mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", directory / result], check=True)
    try:
        (directory / result / "precious").write_text("data")
        with pytest.raises(StepFailed, match="mounted inside") as caught:
            take_down(directory, force=True)
        assert str(directory / result) in str(caught.value)
        assert (directory / result / "precious").read_text() == "data"
        assert attachments(directory).mounts == ()
    finally:
        subprocess.run(["umount", directory / result], check=True)


def test_a_directory_that_is_not_there_has_nothing_attached(tmp_path: Path) -> None:
    assert not attachments(tmp_path / "absent")
