"""Emulated volumes on the real kernel: their life cycle, limits, latencies and counters."""

from __future__ import annotations

import json
import math
import os
import statistics
import time
from pathlib import Path

import pytest
from emulated_volumes import assert_held_to, read_at_random, volume, write_durably
from waiting import wait_for

from volbench.core.profile.resolve import resolve
from volbench.errors import Refused, StepFailed
from volbench.machine.volume.emulated.attachments import attachments
from volbench.machine.volume.emulated.control import CONTROL_SOCKET, ask, reset, without_delays
from volbench.machine.volume.emulated.status import list_volumes
from volbench.machine.volume.emulated.volume import EmulatedVolume

pytestmark = pytest.mark.emulator
PAGES = 4000
WRITTEN_BACK_S = PAGES / 100


@pytest.mark.parametrize(
    ("profile", "options"),
    [
        ("ebs-gp3", {"filesystem": "xfs"}),
        ("ebs-gp2", {"filesystem": "ext4"}),
        ("local-nvme", {}),
        ("efs-elastic", {}),
        ("fsx-openzfs", {"mode": "async"}),
    ],
)
def test_a_volume_starts_holds_data_and_leaves_nothing(root: Path, profile: str, options: dict[str, str]) -> None:
    subject = volume(root, profile, **options)
    with subject:
        write_durably(subject.data / "file", b"x" * 100_000)
        (listed,) = list_volumes(root)
        assert (listed.status, listed.profile, listed.owner_pid) == ("running", profile, os.getpid())
        assert subject.state()["emulated"] is True
        counters = subject.counters()
        assert counters["operations"]["write"]["bytes"] >= 100_000
    assert not attachments(subject.directory)
    with subject:
        assert (subject.data / "file").read_bytes() == b"x" * 100_000
    subject.remove()
    assert list(root.iterdir()) == []


def queue_of(data: Path) -> Path:
    """Settings of the loop device below a volume's directory."""
    device = data.stat().st_dev
    return Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/queue").resolve()


def test_a_loop_device_does_not_keep_what_its_last_user_set(root: Path) -> None:
    """Requests of 4 KiB at most make four of each page, and each counts against the volume's operations."""
    subject = volume(root, "local-nvme")
    with subject:
        before = queue_of(subject.data)
        usual = {name: (before / name).read_text() for name in ("max_sectors_kb", "nomerges")}
        (before / "max_sectors_kb").write_text("4")
        (before / "nomerges").write_text("2")
    try:
        with subject:
            after = queue_of(subject.data)
            assert {name: (after / name).read_text() for name in usual} == usual
    finally:
        for name, value in usual.items():
            (before / name).write_text(value)


def test_a_running_volume_is_not_started_again(root: Path) -> None:
    with volume(root, "efs-elastic"), pytest.raises(Refused, match="running already"):
        volume(root, "efs-elastic").start()


@pytest.mark.usefixtures("transport")
def test_a_volume_in_use_is_not_torn_away(root: Path) -> None:
    subject = volume(root, "ebs-gp3")
    subject.start()
    with (subject.data / "open").open("wb") as file:
        with pytest.raises(StepFailed, match="in use"):
            subject.stop()
        file.write(b"goes on")
        file.flush()
        os.fsync(file.fileno())
    subject.stop()


@pytest.mark.usefixtures("transport")
def test_a_slow_volume_is_stopped_soon_and_loses_nothing(root: Path) -> None:
    """Scattered pages at 100 I/Os a second: to stop it takes less than to write them back takes at best."""
    subject = volume(root, "ebs-gp2", credits="0")
    subject.start()
    write_durably(subject.data / "file", b"x" * (64 << 20))
    with (subject.data / "file").open("r+b") as file:
        for number in range(PAGES):
            os.pwrite(file.fileno(), f"{number:08}".encode(), number * 16_384)
    before = time.monotonic()
    subject.stop()
    assert time.monotonic() - before < WRITTEN_BACK_S
    subject.start()
    with (subject.data / "file").open("rb") as file:
        assert os.pread(file.fileno(), 8, (PAGES - 1) * 16_384) == f"{PAGES - 1:08}".encode()
    subject.remove()


def test_a_volume_that_could_not_be_stopped_is_as_slow_as_before(root: Path) -> None:
    with volume(root, "ebs-gp2", credits="0") as subject:
        write_durably(subject.data / "file", b"x" * (16 << 20))
        with (subject.data / "file").open("rb"), pytest.raises(StepFailed, match="in use"):
            subject.stop()
        subject.fault("credits", fill=0.0)  # those that the idle volume has earned until now
        took = read_at_random(subject.data / "file", seconds=2, extent=16 << 20)
        assert_held_to(took, 100, seconds=2)


@pytest.mark.usefixtures("transport")
def test_latency_is_the_profile_s_and_fidelity_is_reported(root: Path) -> None:
    """The daemon's own times are judged: what a busy machine adds to the reader's is not the volume's."""
    with volume(root, "ebs-gp2") as subject:
        write_durably(subject.data / "file", b"x" * (64 << 20))
        before = subject.counters()
        took = read_at_random(subject.data / "file", seconds=2)
        counters = subject.counters()
        earlier, later = (result["operations"]["read"] for result in (before, counters))
        mean_us = (later["time_us"] - earlier["time_us"]) / (later["count"] - earlier["count"])
        piece = subject.resolved.model["latency"]["read"]["parts"][0]
        model_us = piece["median_us"] * math.exp(piece["sigma"] ** 2 / 2) - subject.resolved.model["overhead_us"]
        lateness_us = lateness_between(before["fidelity"], counters["fidelity"])  # a busy machine's, of the reads
        assert mean_us - lateness_us == pytest.approx(model_us, rel=0.05, abs=60)
        assert statistics.median(took) * 1e6 > 740
        assert counters["fidelity"]["operations"] >= len(took)
        assert sum(each["count"] for each in later["lateness"]) == later["count"]
        assert sum(each["count"] for each in counters["fidelity"]["lateness"]) == counters["fidelity"]["operations"]
        assert 0 <= counters["fidelity"]["late_share"] < 0.5


def lateness_between(before: dict[str, float], after: dict[str, float]) -> float:
    """Mean microseconds that the operations between two readings of the daemon's counters were late."""
    sums = [result["lateness_us_mean"] * result["operations"] for result in (before, after)]
    return (sums[1] - sums[0]) / (after["operations"] - before["operations"])


@pytest.mark.usefixtures("transport")
def test_a_gp2_without_credits_falls_to_its_baseline(root: Path) -> None:
    with volume(root, "ebs-gp2") as subject:
        write_durably(subject.data / "file", b"x" * (64 << 20))
        subject.fault("credits", fill=0.0)
        assert subject.counters()["cloudwatch"]["BurstBalance"] < 0.1
        before = subject.counters()["nvme"]["ebs_volume_performance_exceeded_iops"]
        took = read_at_random(subject.data / "file", seconds=4)
        assert_held_to(took, 100, seconds=4)
        assert subject.counters()["nvme"]["ebs_volume_performance_exceeded_iops"] - before > 1_000_000


@pytest.mark.usefixtures("transport")
def test_limits_change_while_the_volume_is_in_use(root: Path) -> None:
    with volume(root, "ebs-gp3") as subject:
        write_durably(subject.data / "file", b"x" * (16 << 20))
        slow = resolve("ebs-gp2", {"size": "1GiB", "credits": "0"})
        ask(subject.directory, {"do": "modify", "parameters": dict(slow.model)})
        took = read_at_random(subject.data / "file", seconds=2, extent=16 << 20)
        assert_held_to(took, 100, seconds=2)


@pytest.mark.usefixtures("transport")
def test_the_loop_device_and_the_daemon_count_the_same_bytes(root: Path) -> None:
    with volume(root, "ebs-gp3") as subject:
        (loop,) = attachments(subject.directory).loops
        stat = Path(f"/sys/block/{loop}/stat")

        def device_bytes() -> tuple[int, int]:
            fields = stat.read_text().split()
            return int(fields[2]) * 512, int(fields[6]) * 512

        def daemon_bytes() -> tuple[int, int]:
            operations = subject.counters()["operations"]
            return operations["read"]["bytes"], operations["write"]["bytes"]

        device, daemon = device_bytes(), daemon_bytes()
        write_durably(subject.data / "file", os.urandom(32 << 20))
        read_at_random(subject.data / "file", seconds=1, size=16384, extent=32 << 20)
        for direction in (0, 1):
            by_device = device_bytes()[direction] - device[direction]
            by_daemon = daemon_bytes()[direction] - daemon[direction]
            assert by_daemon == pytest.approx(by_device, rel=0.01)


def test_config_and_description_name_no_secret_and_say_emulated(root: Path) -> None:
    with volume(root, "ebs-gp2", time_scale="100") as subject:
        described = json.loads((subject.directory / "volume.json").read_text())
        assert described["parameters"]["time_scale"] == 100
        assert "read_median" in described["assumed"]
        assert subject.counters()["time_scale"] == 100


def created_s(path: Path) -> float:
    before = time.perf_counter()
    path.touch()
    return time.perf_counter() - before


def error_within_clean_up(subject: EmulatedVolume) -> None:
    """Raises ZeroDivisionError, in a block without delays that makes and removes 100 files."""
    with without_delays(subject.directory / CONTROL_SOCKET):
        for number in range(100):
            (subject.data / f"f{number}").touch()
            (subject.data / f"f{number}").unlink()
        raise ZeroDivisionError


def test_clean_up_without_delays_ends_with_the_model_in_force(root: Path) -> None:
    """After it, also after an error, a name takes its time again."""
    with volume(root, "fsx-openzfs", round_trip_us="30000") as subject:
        assert created_s(subject.data / "slow") > 0.03
        with pytest.raises(ZeroDivisionError):
            error_within_clean_up(subject)
        assert created_s(subject.data / "slow again") > 0.03


def test_a_cell_begins_with_the_model_in_force(root: Path) -> None:
    """Whatever an agent that was killed has left."""
    with volume(root, "fsx-openzfs", round_trip_us="30000") as subject:
        ask(subject.directory, {"do": "hurry", "on": True})
        reset(subject.directory / CONTROL_SOCKET, credits_share=None)
        assert created_s(subject.data / "slow") > 0.03


def test_a_cell_begins_with_the_credits_of_its_volume(root: Path) -> None:
    with volume(root, "ebs-gp2", credits="0.5") as subject:
        (before,) = subject.counters()["balances"]
        reset(subject.directory / CONTROL_SOCKET, credits_share=0.1)
        (after,) = subject.counters()["balances"]
        assert (round(before["percent"]), round(after["percent"])) == (50, 10)


@pytest.mark.usefixtures("transport")
def test_a_trimmed_volume_gives_the_space_of_removed_files_back(root: Path) -> None:
    """Its image has grown by them, and would grow with each cell of a run."""
    with volume(root, "ebs-gp3") as subject:
        (image,) = (path for path in (subject.directory / "backing").rglob("*") if path.stat().st_size >= 1 << 30)
        write_durably(subject.data / "large", os.urandom(64 << 20))
        grown = image.stat().st_blocks * 512
        (subject.data / "large").unlink()

        def freed_bytes() -> int:
            subject.trim()
            return grown - image.stat().st_blocks * 512

        wait_for(lambda: freed_bytes() > 60 << 20, "the image gives the removed file's blocks back")
        write_durably(subject.data / "after", b"x" * 4096)
        assert (subject.data / "after").read_bytes() == b"x" * 4096
