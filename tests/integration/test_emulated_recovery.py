"""Emulated volumes whose processes are killed, hang or lack memory: nothing waits for ever, nothing is left."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from emulated_volumes import volume, write_durably

from volbench.core.profile.resolve import resolve
from volbench.machine.volume.emulated.attachments import LOOP, attachments, forget_loop, remember_loop
from volbench.machine.volume.emulated.commands import wait_until
from volbench.machine.volume.emulated.status import clear_leftovers, list_volumes
from volbench.machine.volume.emulated.teardown import take_down
from volbench.machine.volume.emulated.volume import EmulatedVolume

pytestmark = pytest.mark.emulator
KILL_S_MAX = 60
STALL_S = 3600
RUNNER = """
import sys
from pathlib import Path
from volbench.machine.volume.emulated.volume import EmulatedVolume
from volbench.core.profile.resolve import resolve
options = {"size": "1GiB"} if "ebs" in sys.argv[2] else {}
subject = EmulatedVolume(resolve(sys.argv[2], options), Path(sys.argv[1]), name="v")
subject.start()
print("started", flush=True)
written = 0
while True:
    (subject.data / f"file{written % 50}").write_bytes(b"x" * 20000)
    written += 1
"""


def start_runner(root: Path, profile: str) -> subprocess.Popen[bytes]:
    """Another process that starts a volume and writes to it."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "runner")}
    argv = [sys.executable, "-c", RUNNER, str(root), profile]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)


def no_daemon(directory: Path) -> bool:
    return not attachments(directory).daemons


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(KILL_S_MAX)
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.parametrize(
    "kills", [pytest.param(4), pytest.param(20, marks=pytest.mark.slow)], ids=["few", "twenty"]
)
@pytest.mark.usefixtures("transport")
def test_kills_at_random_moments_leave_nothing_after_the_next_start(root: Path, kills: int) -> None:
    source = random.Random(kills)
    for number in range(kills):
        profile = source.choice(["ebs-gp3", "efs-elastic"])
        runner = start_runner(root, profile)
        directory = root / "v"
        time.sleep(source.uniform(0.1, 1.5))  # the random moment
        daemons = attachments(directory).daemons
        victims = source.choice([[runner.pid], [*daemons], [runner.pid, *daemons]])
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        if runner.pid not in victims and daemons:
            wait_until(partial(no_daemon, directory), timeout_s=KILL_S_MAX)
        end(runner)
        clear_leftovers(root)
        assert not attachments(directory), f"kill {number} of {victims}"
        subject = EmulatedVolume(resolve("efs-elastic"), root, name="next")
        with subject:
            write_durably(subject.data / "file", b"x")
        assert not attachments(subject.directory)
        if directory.exists():
            shutil.rmtree(directory)


def write_many(directory: Path) -> None:
    for number in range(100):
        write_durably(directory / f"lost{number}", b"l" * 50_000)


@pytest.mark.usefixtures("transport")
def test_a_killed_daemon_fails_its_users_at_once_and_the_next_start_recovers(root: Path) -> None:
    subject = volume(root, "ebs-gp3")
    subject.start()
    write_durably(subject.data / "kept", b"k" * 50_000)
    (daemon,) = attachments(subject.directory).daemons
    os.kill(daemon, signal.SIGKILL)
    before = time.monotonic()
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the error's number is looked at below
        write_many(subject.data)
    assert caught.value.errno in (errno.EIO, errno.ENOTCONN, errno.EROFS)
    assert time.monotonic() - before < KILL_S_MAX
    assert list_volumes(root)[0].status == "leftover"
    subject.start()
    assert (subject.data / "kept").read_bytes() == b"k" * 50_000
    subject.remove()


@pytest.mark.usefixtures("transport")
def test_a_volume_that_hangs_is_taken_down_in_bounded_time(root: Path) -> None:
    subject = volume(root, "ebs-gp3")
    subject.start()
    subject.fault("stall", seconds=STALL_S)
    argv = ["dd", "if=/dev/zero", f"of={subject.data}/file", "bs=1M", "count=64", "oflag=direct"]
    writer = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    before = time.monotonic()
    take_down(subject.directory, force=True)
    assert time.monotonic() - before < STALL_S / 10
    writer.wait(KILL_S_MAX)
    assert writer.returncode != 0
    subject.stop()
    assert not attachments(subject.directory)


PRESSED = """
import os, sys
from pathlib import Path
from volbench.machine.volume.emulated.volume import EmulatedVolume
from volbench.core.profile.resolve import resolve
Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
options = {"size": "1GiB"} if "ebs" in sys.argv[3] else {}
subject = EmulatedVolume(resolve(sys.argv[3], options), Path(sys.argv[2]), name="v")
with subject:
    assert subject.state()["daemon"]["own_memory_cgroup"]
    with (subject.data / "file").open("wb") as file:
        for _ in range(400):
            file.write(b"x" * (1 << 20))
        os.fsync(file.fileno())
    with (subject.data / "file").open("rb") as file:
        while file.read(1 << 20):
            pass
print("done")
"""


@pytest.fixture
def tight_cgroup() -> Iterator[Path]:
    """A memory cgroup of 96 MiB, of version 1 or 2."""
    first = Path("/sys/fs/cgroup/memory")
    cgroup = (first if first.is_dir() else Path("/sys/fs/cgroup")) / f"volbench-test-{os.getpid()}"
    try:
        cgroup.mkdir()
        limit = "memory.limit_in_bytes" if first.is_dir() else "memory.max"
        (cgroup / limit).write_text(str(96 << 20))
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made: {error}")
    yield cgroup
    cgroup.rmdir()


@pytest.mark.parametrize("profile", ["ebs-gp3", "efs-elastic"])
@pytest.mark.usefixtures("transport")
def test_a_writer_short_of_memory_does_not_hang(root: Path, tight_cgroup: Path, profile: str) -> None:
    """A daemon in the writer's cgroup would wait for memory that only its own progress frees."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "runner")}
    argv = [sys.executable, "-c", PRESSED, str(tight_cgroup), str(root), profile]
    done = subprocess.run(argv, env=environment, timeout=100, capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stderr
    assert list_volumes(root)[0].status == "stopped"


def test_a_volume_that_outlives_its_maker_is_no_leftover(root: Path) -> None:
    argv = [
        sys.executable,
        "-c",
        "import sys; from pathlib import Path; from volbench.machine.volume.emulated.volume import EmulatedVolume; "
        "from volbench.core.profile.resolve import resolve; "
        "EmulatedVolume(resolve('efs-elastic'), Path(sys.argv[1]), name='v', outlives_us=True).start()",
        str(root),
    ]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "runner")}
    subprocess.run(argv, check=True, env=environment, timeout=60)
    (listed,) = list_volumes(root)
    assert (listed.status, listed.owner_pid) == ("running", None)
    assert clear_leftovers(root) == ()
    volume(root, "efs-elastic").stop()
    assert list_volumes(root)[0].status == "stopped"


def test_a_loop_device_whose_file_is_out_of_sight_is_found_and_detached(root: Path) -> None:
    """As a container leaves it that was killed with a copy of our mounts: its path is no more the volume's."""
    subject = volume(root, "ebs-gp3")
    subject.start()
    (loop,) = attachments(subject.directory).loops
    backing_file = Path(f"/sys/block/{loop}/loop/backing_file")
    subprocess.run(["umount", subject.data], check=True)
    subprocess.run(["umount", "-l", subject.directory / "image"], check=True)
    assert not backing_file.read_text().startswith(str(subject.directory))
    assert attachments(subject.directory).loops == (loop,)
    take_down(subject.directory, force=True)
    assert not backing_file.exists()
    subject.stop()


def test_a_loop_device_of_the_same_path_elsewhere_is_left_alone(root: Path) -> None:
    """A container may have the volume's path; nothing was written down, as when volbench was killed meanwhile."""
    subject = volume(root, "ebs-gp3")
    subject.start()
    (own,) = attachments(subject.directory).loops
    image = subject.directory / "image"
    script = (
        f"umount -l '{subject.data}' && umount -l '{image}' && mount -t tmpfs none '{image}' && "
        f"truncate -s 1M '{image}/disk.img' && losetup -f --show '{image}/disk.img' && read -r _"
    )
    container = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert container.stdout is not None
    foreign = Path(container.stdout.readline().strip())
    backing_file = Path(f"/sys/block/{foreign.name}/loop/backing_file")
    try:
        assert backing_file.read_text().strip() == f"{image}/disk.img"
        assert attachments(subject.directory).loops == (own,)
        forget_loop(subject.directory)
        assert attachments(subject.directory).loops == (own,)
        take_down(subject.directory, force=True)
        assert not attachments(subject.directory)
        assert backing_file.exists()
    finally:
        subprocess.run(["losetup", "-d", foreign], check=False, timeout=120)
        container.communicate("\n", timeout=120)
        subject.stop()


def test_another_attachment_of_the_same_device_is_not_ours(root: Path, tmp_path: Path) -> None:
    """Device names are given again; the number of an attachment is not."""
    second = tmp_path / "other.img"
    second.write_bytes(b"\0" * (1 << 20))
    device = Path(subprocess.check_output(["losetup", "--show", "--find", second], text=True).strip())
    directory = root / "v"
    directory.mkdir()
    try:
        (directory / LOOP).write_text(f"{device.name} 1")
        assert attachments(directory).loops == ()
        remember_loop(directory, device)
        assert attachments(directory).loops == (device.name,)
    finally:
        subprocess.run(["losetup", "-d", device], check=True)
    assert attachments(directory).loops == ()
