"""Emulated block volumes whose requests come over io_uring: who gets them so, contents under load, memory.

What a volume does is tested for both ways in the other files, by the fixture `transport`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from emulated_volumes import volume, without_delay, write_durably
from waiting import wait_for

from volbench.machine.volume.emulated.attachments import attachments
from volbench.machine.volume.emulated.volume import EmulatedVolume

pytestmark = pytest.mark.emulator
RESIDENT_BYTES_MAX = 64 << 20
VERIFY = [
    "--rw=randwrite",
    "--bsrange=4k-1m",
    "--iodepth=64",
    "--size=256m",
    "--verify=crc32c",
    "--verify_fatal=1",
    "--verify_state_save=0",
]


def fio(subject: EmulatedVolume, *options: str) -> None:
    """Run fio on a file of a volume. Raises AssertionError with its output."""
    file = f"--filename={subject.data}/file"
    argv = ["fio", "--name=contents", file, "--direct=1", "--ioengine=libaio", *options]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def resident_bytes(pid: int) -> int:
    """Return the most memory that a process has had at a time."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize("transport", ["io_uring"], indirect=True)
def test_block_volumes_that_write_through_are_served_over_io_uring_and_others_as_before(
    root: Path, transport: str
) -> None:
    """A write that a power cut would take back is waited for, and files mode is the FUSE library's."""
    for profile, served in (("ebs-gp3", transport), ("local-nvme", "dev_fuse"), ("efs-elastic", "dev_fuse")):
        subject = volume(root, profile)
        with subject:
            assert subject.state()["transport"] == served
        subject.remove()


@pytest.mark.usefixtures("transport")
@pytest.mark.parametrize("delayed", [False, True], ids=["at once", "delayed"])
def test_what_many_writes_at_a_time_leave_is_what_fio_reads(root: Path, delayed: bool) -> None:
    """Checked by fio: its headers and checksums tell a block that is old, torn or elsewhere."""
    subject = volume(root, "ebs-gp3")
    subject.resolved = subject.resolved if delayed else without_delay(subject.resolved)
    with subject:
        fio(subject, *VERIFY)


@pytest.mark.usefixtures("transport")
def test_large_requests_leave_little_memory_in_use(root: Path) -> None:
    """Requests of 1 MiB, one after the other and some at a time: what is not under way is given back."""
    subject = volume(root, "ebs-gp3")
    subject.resolved = without_delay(subject.resolved)
    with subject:
        (pid,) = attachments(subject.directory).daemons
        for depth, direction in ((1, "write"), (8, "write"), (8, "read")):
            fio(subject, f"--rw={direction}", "--bs=1m", f"--iodepth={depth}", "--size=512m")
        assert resident_bytes(pid) < RESIDENT_BYTES_MAX


@contextmanager
def reading(subject: EmulatedVolume) -> Iterator[subprocess.Popen[bytes]]:
    """A program that reads the volume's file, which waits for the volume already."""
    reads = subject.counters()["queue_length"]
    argv = ["dd", f"if={subject.data}/file", "of=/dev/null", "iflag=direct", "bs=4096"]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as reader:
        wait_for(lambda: subject.counters()["queue_length"] > reads, "the read has arrived")
        yield reader


@pytest.mark.usefixtures("transport")
@pytest.mark.parametrize(("fault", "succeeds"), [("clear", True), ("detach", False)])
def test_who_waits_for_a_stalled_volume_is_answered_at_once(root: Path, fault: str, succeeds: bool) -> None:
    """When the stall is taken back, and when the volume goes away: not at the end of the stall."""
    with volume(root, "ebs-gp3") as subject:
        write_durably(subject.data / "file", b"x" * 4096)
        subject.fault("stall", seconds=3600.0)
        with reading(subject) as reader:
            subject.fault(fault)
            assert (reader.wait(60) == 0) is succeeds
        subject.fault("clear")
        assert (subject.data / "file").read_bytes() == b"x" * 4096


@pytest.mark.usefixtures("transport")
def test_who_waits_fails_also_when_the_volume_is_back_at_once(root: Path) -> None:
    with volume(root, "ebs-gp3") as subject:
        write_durably(subject.data / "file", b"x" * 4096)
        subject.fault("stall", seconds=3600.0)
        with reading(subject) as reader:
            subject.fault("detach")
            subject.fault("clear")
            assert reader.wait(60) != 0
