"""Faults of emulated volumes on the real kernel: power cuts, stalls, errors, and taking them back."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from emulated_volumes import FAST_FSX, read_at_random, volume, write_durably

from volbench.errors import StepFailed
from volbench.machine.volume.emulated.control import CONTROL_SOCKET
from volbench.machine.volume.emulated.power import Power

pytestmark = pytest.mark.emulator


@pytest.mark.usefixtures("transport")
def test_a_power_cut_loses_nothing_acknowledged_where_the_volume_is_synchronous(root: Path) -> None:
    for profile, options in (("ebs-gp3", {}), ("local-nvme", {}), ("fsx-openzfs", FAST_FSX)):
        subject = volume(root, profile, **options)
        subject.start()
        for number in range(20):
            write_durably(subject.data / f"commit{number}", f"commit {number}".encode() * 1000)
        directory = os.open(subject.data, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
        (subject.data / "not-synced").write_bytes(b"y" * 10_000)
        subject.fault("power_cut")
        with pytest.raises(OSError, match=r"Input/output error|No such file"):
            write_durably(subject.data / "later", b"z")
        subject.stop()
        subject.start()
        for number in range(20):
            assert (subject.data / f"commit{number}").read_bytes() == f"commit {number}".encode() * 1000
        assert not (subject.data / "later").exists()
        subject.remove()


def test_a_power_cut_loses_commits_where_the_export_is_asynchronous(root: Path) -> None:
    subject = volume(root, "fsx-openzfs", mode="async", **FAST_FSX)
    subject.start()
    write_durably(subject.data / "log", b"a" * 4096)
    time.sleep(6)  # the transaction group's own time, 5 s, is what is tested
    with (subject.data / "log").open("r+b") as log:
        for number in range(20):
            log.write(f"{number:08}".encode() * 512)
            log.flush()
            os.fsync(log.fileno())
    lost = subject.fault("power_cut")
    assert lost["writes"] >= 20
    subject.stop()
    subject.start()
    assert (subject.data / "log").read_bytes() == b"a" * 4096
    subject.remove()


def test_what_is_settled_survives_a_power_cut_without_waiting(root: Path) -> None:
    subject = volume(root, "fsx-openzfs", mode="async", **FAST_FSX)
    subject.start()
    write_durably(subject.data / "settled", b"a" * 4096)
    power = Power(subject.directory / CONTROL_SOCKET)
    power.settle()
    write_durably(subject.data / "later", b"b" * 4096)
    assert power.cut()["writes"] >= 1
    subject.stop()
    subject.start()
    assert (subject.data / "settled").read_bytes() == b"a" * 4096
    assert not (subject.data / "later").exists()
    subject.remove()


def test_a_power_cut_of_an_asynchronous_export_takes_names_back_too(root: Path) -> None:
    """Made, removed, replaced and moved since: after a restart of the volume, and when power is on again."""
    subject = volume(root, "fsx-openzfs", mode="async", **FAST_FSX)
    subject.start()
    power = Power(subject.directory / CONTROL_SOCKET)
    for restart in (True, False):
        for name in ("removed", "replaced", "moved"):
            write_durably(subject.data / name, name.encode())
        (subject.data / "empty").mkdir()
        power.settle()
        (subject.data / "removed").unlink()
        (subject.data / "moved").rename(subject.data / "replaced")
        (subject.data / "empty").rmdir()
        (subject.data / "made").mkdir()
        write_durably(subject.data / "made" / "file", b"new")
        power.cut()
        if restart:
            subject.stop()
            subject.start()
        else:
            power.restore()
        assert sorted(path.name for path in subject.data.iterdir()) == ["empty", "moved", "removed", "replaced"]
        assert all(path.is_dir() or path.read_text() == path.name for path in subject.data.iterdir())
        (subject.data / "empty").rmdir()
    subject.remove()


@pytest.mark.usefixtures("transport")
def test_a_stall_stops_everything_and_ends(root: Path) -> None:
    with volume(root, "ebs-gp3") as subject:
        write_durably(subject.data / "file", b"x" * (1 << 20))
        before_s = time.monotonic()
        subject.fault("stall", seconds=1.0)
        assert subject.state()["faults"] == ["stall"]
        waited_s = time.monotonic() - before_s  # a busy machine may need much of the second for this
        took_s = max(read_at_random(subject.data / "file", seconds=1.2, extent=1 << 20))
        assert waited_s + took_s > 0.95


def test_injected_errors_and_a_detached_volume_are_seen_and_taken_back(root: Path) -> None:
    with volume(root, "efs-elastic") as subject:
        write_durably(subject.data / "file", b"x" * 4096)
        subject.fault("error", every=1, ops=["open"])
        with pytest.raises(OSError, match="Input/output error"):
            (subject.data / "file").read_bytes()
        subject.fault("clear")
        assert (subject.data / "file").read_bytes() == b"x" * 4096
        subject.fault("detach")
        with pytest.raises(OSError, match="Input/output error"):
            (subject.data / "other").write_bytes(b"y")
        subject.fault("attach")
        assert (subject.data / "file").read_bytes() == b"x" * 4096


def test_a_fault_out_of_range_is_refused_with_the_daemon_s_words(root: Path) -> None:
    with volume(root, "efs-elastic") as subject:
        with pytest.raises(StepFailed, match="out of range"):
            subject.fault("stall", seconds=-1)
        with pytest.raises(StepFailed, match="unknown variant"):
            subject.fault("flood")
