"""Volumes that fail in mid-run, and places that are refused: nothing of the user's is touched."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from live_run import AT_FULL_SPEED, FINISHED, Bench

from volbench.core.records.run import VolumeSpec
from volbench.errors import StepFailed
from volbench.machine.volume.interface import OpenVolume
from volbench.measure.execute.volume_watch import VolumeWatch
from volbench.measure.execute.volumes import close_volume

LONG = (AT_FULL_SPEED, "steps.0.duration=60s", "engine.config.innodb_redo_log_capacity=16M")


@contextmanager
def mounted(directory: Path, *options: str) -> Iterator[Path]:
    """A filesystem with a file of the user's. Skips where this user may not mount."""
    directory.mkdir()
    done = subprocess.run(["mount", *options, str(directory)], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"this user may not mount: {done.stderr.strip()}")
    (directory / "precious").write_text("of the user's")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=False, capture_output=True)


@pytest.fixture
def small(local: Bench) -> Iterator[Bench]:
    """The only volume is a filesystem of 400 MB in memory."""
    with mounted(local.root / "mnt", "-t", "tmpfs", "-o", "size=400m", "volbench-test") as directory:
        local.volumes = {"a": directory}
        yield local


@pytest.fixture
def on_loop(local: Bench) -> Iterator[Bench]:
    """The only volume is an ext4 filesystem on a loop device, which becomes read-only when it finds an error."""
    image = local.volumes["b"].parent / "image"
    with image.open("wb") as file:
        file.truncate(600 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-e", "remount-ro", str(image)], check=True, capture_output=True)
    with mounted(local.root / "mnt", "-o", "loop", str(image)) as directory:
        local.volumes = {"a": directory}
        yield local


@pytest.mark.mysqld
def test_a_volume_that_fills_up(small: Bench) -> None:
    """Filled by somebody else in mid-step: the cause is told, the run stops with exit code 3, and resumes."""
    volume = small.volumes["a"]
    process = small.start(*LONG, "steps.0.test=oltp_insert")
    small.until(small.in_step, process)
    fill(volume / "other")
    ended = small.end(process)
    assert ended.code == 3, ended.output
    assert list(small.failed_causes().values()) == ["volume_full"]
    assert "the volume is full" in ended.output
    assert small.leftovers() == []
    assert sorted(path.name for path in volume.iterdir()) == ["other", "precious"]


@pytest.mark.mysqld
def test_a_volume_that_becomes_read_only(on_loop: Bench) -> None:
    """What cannot be removed from it stays, marked as ours; `resume` says what is to be done first."""
    volume = on_loop.volumes["a"]
    process = on_loop.start(*LONG)
    on_loop.until(on_loop.in_step, process)
    subprocess.run(["mount", "-o", "remount,abort", str(volume)], check=True)  # as after an error of the disk
    ended = on_loop.end(process)
    assert ended.code == 3, ended.output
    assert list(on_loop.failed_causes().values()) == ["volume_read_only"]
    assert "read-only" in ended.output
    assert on_loop.processes() == {}
    (left,) = volume.glob("volbench-*")
    assert (left / ".volbench-owned.json").exists()

    again = on_loop.end(on_loop.resume())
    assert again.code in {3, 5}, again.output  # newer kernels only tell who tries to write
    assert "ead-only" in again.output.rpartition("resuming")[2]


@pytest.mark.mysqld
def test_a_volume_that_disappears(small: Bench) -> None:
    """Unmounted lazily, the server writes on: the cell is not believed, nothing goes into the bare directory."""
    volume = small.volumes["a"]
    process = small.start("steps.0.duration=4s")
    small.until(small.in_step, process)
    subprocess.run(["umount", "-l", str(volume)], check=True)
    ended = small.end(process)
    assert ended.code == 5, ended.output
    assert list(small.failed_causes().values()) == ["volume_gone"]
    assert list(volume.iterdir()) == []
    assert small.processes() == {}

    again = small.end(small.resume())
    assert again.code == 3, again.output
    assert "is not the one that the run started with" in again.output
    assert list(volume.iterdir()) == []


def test_a_volume_unmounted_after_its_last_cell_is_told(local: Bench) -> None:
    """The run's directory is still on it: that is no success, and what stays is named."""
    with mounted(local.root / "last", "-t", "tmpfs", "none") as directory:
        (directory / "volbench-1a2b3c").mkdir()
        spec = VolumeSpec(name="a", kind="path", location=str(directory), text=f"path:{directory}")
        opened = OpenVolume(name="a", spec=spec, host_path=directory)
        watch = VolumeWatch(directory)
        subprocess.run(["umount", "-l", str(directory)], check=True)
        closed: list[OpenVolume] = []
        with pytest.raises(StepFailed, match="unmounted during the run") as caught:
            close_volume(opened, [(opened, watch)], closed.append)
        assert caught.value.cause == "volume_gone"
        assert "volbench cell erase" in caught.value.next_step
        assert closed == [opened]  # what can be removed was
        assert list(directory.iterdir()) == []


def test_a_volume_that_is_missing(local: Bench) -> None:
    """Exit code 3, and how to mend it; no run is begun on the other one."""
    local.volumes["a"] = local.root / "nowhere"
    ended = local.end(local.start())
    assert ended.code == 3, ended.output
    assert "does not exist" in ended.output
    assert "mkdir -p" in ended.output
    assert local.leftovers() == []


def test_a_data_directory_of_a_server_is_refused(local: Bench) -> None:
    """Exit code 4, for the directory and for one inside it."""
    for name in ("ibdata1", "ib_logfile0", "auto.cnf"):
        (local.volumes["a"] / name).write_text("of the user's")
    ended = local.end(local.start())
    assert ended.code == 4, ended.output
    assert "MySQL data directory" in ended.output
    assert sorted(path.name for path in local.volumes["a"].iterdir()) == ["auto.cnf", "ib_logfile0", "ibdata1"]


@pytest.mark.mysqld
def test_a_foreign_directory_with_our_name_is_refused(local: Bench) -> None:
    """A directory that carries the run's name and not our marker is not touched: exit code 4."""
    process = local.start()
    local.until(lambda: bool(list(local.results.glob("*/run.json"))), process)
    process.kill()
    process.wait()
    local.until(lambda: local.processes() == {})
    paths = [path / f"volbench-{local.directory.path.name[-6:]}" for path in local.volumes.values()]
    for directory in paths:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        (directory / "precious").write_text("of the user's")
    ended = local.end(local.resume())
    assert ended.code == 4, ended.output
    assert "not one of volbench's" in ended.output
    assert [sorted(path.name for path in directory.iterdir()) for directory in paths] == [["precious"]] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "steps.0.durration=2s"), "duration"),
        (("--set", "steps.0.duration=2 parsecs"), "parsecs"),
        (("--volume", "a=path:/tmp"), "two volumes"),
        (("--volume", "c=flopy:/tmp"), "flopy"),
    ],
)
def test_what_is_mistyped_is_named(local: Bench, arguments: tuple[str, ...], message: str) -> None:
    """Exit code 2 before anything is made."""
    ended = local.end(local.start(options=arguments))
    assert ended.code == 2, ended.output
    assert message in ended.output
    assert not list(local.results.glob("*"))


@pytest.mark.mysqld
def test_damaged_and_foreign_files_below_results_are_named(local: Bench) -> None:
    """Exit code 2 with the file's name, for each command that reads it; other runs are read as before."""
    local.volumes.pop("b")
    assert local.end(local.start()).code in FINISHED
    good = local.directory.path
    (local.results / "foreign").mkdir()
    (local.results / "foreign" / "run.json").write_text("not ours")
    (local.results / "notes.txt").write_text("of the user's")
    for command in (("report", str(local.results / "foreign")), ("resume", str(local.results / "foreign"))):
        ended = local.end(local.volbench(*command))
        assert ended.code == 2, ended.output
        assert "foreign/run.json" in ended.output
    assert local.end(local.volbench("report", str(good))).code == 0

    result = next(good.glob("cells/*/result.json"))
    data = result.read_bytes()
    result.write_bytes(data[: len(data) // 2])
    ended = local.end(local.volbench("resume", str(good)))
    assert ended.code == 2, ended.output
    assert "truncated" in ended.output
    assert str(result.relative_to(good)) in ended.output.replace("\n", "")


def fill(path: Path) -> None:
    """Write until no space is left."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * (1 << 20))
    with suppress(OSError), path.open("ab", buffering=0) as file:
        while True:
            file.write(b"\0" * 512)
