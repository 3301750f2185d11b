"""What can be said of emulated volumes without mounting one."""

from __future__ import annotations

import json
import os
import platform
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from volbench.cli.volumes.text import volume_lines
from volbench.core.base.ownership import claim, is_owned
from volbench.core.profile.resolve import resolve
from volbench.errors import MissingPrerequisite, Refused, StepFailed
from volbench.machine.volume.emulated import exclusive, teardown
from volbench.machine.volume.emulated import requirements as emulated_needs
from volbench.machine.volume.emulated import status as emulated_status
from volbench.machine.volume.emulated import volume as emulated
from volbench.machine.volume.emulated.attachments import (
    DAEMON,
    LOCK,
    Attachments,
    attachments,
    process_start_ticks,
)
from volbench.machine.volume.emulated.commands import run, wait_until
from volbench.machine.volume.emulated.control import ask
from volbench.machine.volume.emulated.discovery import find_volume, remove_volume, stop_volume
from volbench.machine.volume.emulated.status import clear_leftovers, list_volumes, volume_status
from volbench.machine.volume.emulated.teardown import is_locked, take_down, take_lock
from volbench.machine.volume.emulated.volume import EmulatedVolume

DEAD_PID = 2**22 + 1  # above the kernel's largest
WAIT_S = 60.0
EXIT_OF_A_THREAD = {"x86_64": 60, "aarch64": 93}
"""The system call's number."""


def make_directory(root: Path, name: str, *, owner: dict[str, Any] | None) -> Path:
    directory = root / name
    claim(directory, purpose="emulated volume")
    content = {"schema": 1, "profile": "ebs-gp2", "parameters": {"size": 50 << 30}, "owner": owner}
    (directory / "volume.json").write_text(json.dumps(content))
    return directory


def test_without_root_the_error_names_all_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(emulated_needs, "find_daemon", lambda: None)
    with pytest.raises(MissingPrerequisite) as caught:
        EmulatedVolume(resolve("ebs-gp3"), tmp_path, name="x").start()
    assert "missing: root" in str(caught.value)
    assert "volbench-volume" in str(caught.value)
    assert not (tmp_path / "x").exists()


def test_a_foreign_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulated, "check_environment", lambda _: Path("/bin/false"))
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "precious").write_text("data")
    with pytest.raises(Refused):
        EmulatedVolume(resolve("ebs-gp3"), tmp_path, name="x").start()
    assert (tmp_path / "x" / "precious").read_text() == "data"


def test_a_daemon_that_dies_is_reported_with_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "daemon"
    script.write_text("#!/bin/sh\necho no such luck >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr(emulated, "check_environment", lambda _: script)
    with pytest.raises(StepFailed, match="no such luck"):
        EmulatedVolume(resolve("efs-elastic"), tmp_path, name="x").start()


def test_an_image_is_never_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulated, "check_environment", lambda _: Path("/bin/false"))
    directory = tmp_path / "x"
    claim(directory, purpose="emulated volume")
    (directory / "backing").mkdir()
    with (directory / "backing" / "disk.img").open("wb") as image:
        image.truncate(4 << 30)
    with pytest.raises(Refused, match="larger than the requested size"):
        EmulatedVolume(resolve("ebs-gp3", {"size": "2GiB"}), tmp_path, name="x").start()
    assert (directory / "backing" / "disk.img").stat().st_size == 4 << 30


def test_volumes_are_listed_by_marker_and_description(tmp_path: Path) -> None:
    me = os.getpid()
    started = process_start_ticks(me)
    assert started is not None
    make_directory(tmp_path, "ours", owner={"pid": me, "started": started})
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "volume.json").write_text("{}")
    (volume,) = list_volumes(tmp_path)
    assert (volume.name, volume.profile, volume.status, volume.owner_pid) == ("ours", "ebs-gp2", "stopped", me)
    assert clear_leftovers(tmp_path) == ()
    assert is_owned(tmp_path / "ours")


def test_what_an_interrupted_start_left_is_listed_and_removed(tmp_path: Path) -> None:
    """Killed between the marker and the description: the marker's purpose tells what the directory is for."""
    claim(tmp_path / "begun", purpose="emulated volume")
    claim(tmp_path / "other", purpose="adopted")
    volume = find_volume(str(tmp_path / "begun"))
    assert [(listed.name, listed.status) for listed in list_volumes(tmp_path)] == [("begun", "stopped")]
    assert any("interrupted" in line for line in volume_lines([volume]))
    remove_volume(volume)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["other"]


def test_a_volume_of_another_container_lives_as_long_as_its_daemon(tmp_path: Path) -> None:
    """Its owner's pid counts in another namespace, where the same number is another process."""
    owner = {"pid": DEAD_PID, "started": 1, "namespace": "another boot:pid:[1]"}
    directory = make_directory(tmp_path, "x", owner=owner)
    with (directory / LOCK).open("wb") as lock:
        assert take_lock(lock)
        assert volume_status(directory) == "running"
        assert clear_leftovers(tmp_path) == ()
    assert volume_status(directory) == "stopped"


def test_one_process_at_a_time_changes_a_volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusive, "CHANGE_WAIT_S_MAX", 0.1)
    directory = make_directory(tmp_path, "x", owner=None)
    (volume,) = list_volumes(tmp_path)
    with exclusive.changing(directory):
        for change in (stop_volume, remove_volume):
            with pytest.raises(Refused, match="another process is starting, stopping or removing"):
                change(volume)
        monkeypatch.setattr(emulated, "check_environment", lambda _: Path("/bin/false"))
        with pytest.raises(Refused, match="another process is starting, stopping or removing"):
            EmulatedVolume(resolve("efs-elastic"), tmp_path, name="x").start()
    assert is_owned(directory)
    remove_volume(volume)
    assert not directory.exists()


def test_a_directory_that_was_removed_meanwhile_is_not_used(tmp_path: Path) -> None:
    """The lock is on what had this name before."""
    directory = make_directory(tmp_path, "x", owner=None)
    opened = os.open(directory, os.O_RDONLY)
    try:
        directory.rename(tmp_path / "y")
        with pytest.raises(Refused, match="has just removed"):
            exclusive._lock(opened, directory)
    finally:
        os.close(opened)


@pytest.mark.parametrize("existed", [False, True])
def test_a_start_that_fails_removes_only_what_it_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, existed: bool
) -> None:
    monkeypatch.setattr(emulated, "check_environment", lambda _: Path("/bin/false"))
    if existed:
        make_directory(tmp_path, "x", owner=None)
    with pytest.raises(StepFailed, match="did not become ready"):
        EmulatedVolume(resolve("efs-elastic"), tmp_path, name="x").start()
    assert (tmp_path / "x").exists() is existed
    assert [volume.name for volume in list_volumes(tmp_path)] == ["x"] * existed


@pytest.mark.parametrize(("looks", "is_taken_down"), [(4, True), (10**6, False)])
def test_a_loop_device_that_goes_a_moment_later_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: int, is_taken_down: bool
) -> None:
    """At a load of 54 a run with its verdict ended with `still attached: loop device`; then the device was gone."""
    left = iter([Attachments(mounts=(), loops=("loop2",), daemons=())] * looks)
    nothing = Attachments(mounts=(), loops=(), daemons=())
    monkeypatch.setattr(teardown, "attachments", lambda _directory: next(left, nothing))
    monkeypatch.setattr(teardown, "LOOP_RELEASE_S_MAX", 5.0 if is_taken_down else 0.2)
    with nullcontext() if is_taken_down else pytest.raises(StepFailed, match="could not be taken down"):
        take_down(tmp_path, force=False)


def test_nothing_attached_is_nothing_to_take_down(tmp_path: Path) -> None:
    directory = make_directory(tmp_path, "x", owner={"pid": DEAD_PID, "started": 1})
    assert not attachments(directory)
    assert volume_status(directory) == "stopped"
    take_down(directory, force=True)


def test_a_lock_is_held_by_one_and_asked_for_by_many(tmp_path: Path) -> None:
    assert not is_locked(tmp_path)
    with (tmp_path / LOCK).open("wb") as mine, (tmp_path / LOCK).open("wb") as opened:
        assert take_lock(mine)
        assert is_locked(tmp_path)
        assert not take_lock(opened)
    assert not is_locked(tmp_path)


def test_a_volume_whose_maker_died_while_its_daemon_starts_is_a_leftover(tmp_path: Path) -> None:
    directory = make_directory(tmp_path, "x", owner={"pid": DEAD_PID, "started": 1})
    with (directory / LOCK).open("wb") as lock:
        assert take_lock(lock)
        assert volume_status(directory) == "leftover"
    assert volume_status(directory) == "stopped"


@contextmanager
def ending_daemon(directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon as it is for a moment after SIGKILL: its first thread is dead, another has its files open yet.

    That one ends with the standard input.
    """
    script = (
        "import ctypes, sys, threading; libc = ctypes.CDLL(None); threading.Thread(target=sys.stdin.read).start();"
        f"libc.prctl(15, b'{DAEMON}'); libc.syscall({EXIT_OF_A_THREAD[platform.machine()]}, 0)"
    )
    with (directory / LOCK).open("ab") as lock:
        assert take_lock(lock)
        argv = [sys.executable, "-c", script]
        process = subprocess.Popen(argv, cwd=directory, stdin=subprocess.PIPE, pass_fds=[lock.fileno()])
    try:
        assert wait_until(lambda: process_start_ticks(process.pid) is None, timeout_s=WAIT_S)
        yield process
    finally:
        process.kill()
        process.wait(WAIT_S)
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.skipif(platform.machine() not in EXIT_OF_A_THREAD, reason="does not apply: another number")
def test_a_killed_daemon_that_has_its_lock_yet_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command in the moment after the kill took the volume for a running one, and left it attached."""
    directory = make_directory(tmp_path, "x", owner=None)
    cleared = list[Path]()
    with ending_daemon(directory) as daemon:
        assert is_locked(directory)
        assert attachments(directory).daemons == ()
        assert volume_status(directory) == "running"
        left = Attachments(mounts=(), loops=("loop2",), daemons=())
        monkeypatch.setattr(emulated_status, "attachments", lambda _: left)
        monkeypatch.setattr(emulated_status, "take_down", lambda volume, **_: cleared.append(volume))
        monkeypatch.setattr(teardown, "STARTING_S_MAX", WAIT_S)

        def daemons_that_end_when_asked_for(_: Path) -> list[int]:
            assert daemon.stdin is not None
            daemon.stdin.close()
            return []

        monkeypatch.setattr(teardown, "daemons_of", daemons_that_end_when_asked_for)
        assert clear_leftovers(tmp_path) == (directory,)
    assert cleared == [directory]


def test_a_pid_that_was_reused_is_another_process() -> None:
    assert process_start_ticks(DEAD_PID) is None
    started = process_start_ticks(os.getpid())
    assert started is not None
    assert started != process_start_ticks(1)


def test_a_command_that_takes_too_long_is_left_behind() -> None:
    assert run(["sleep", "60"], timeout_s=0.1).code is None
    done = run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.code, done.output) == (3, "out\nerr")


def test_waiting_ends_with_the_condition_or_the_time() -> None:
    answers = iter([False, False, True])
    assert wait_until(lambda: next(answers), timeout_s=60)
    assert not wait_until(lambda: False, timeout_s=0.05)


@pytest.fixture
def deep_directory(tmp_path: Path) -> Path:
    """A directory whose path is longer than a socket's may be."""
    directory = tmp_path / ("d" * 100) / ("e" * 100)
    directory.mkdir(parents=True)
    return directory


def answer_once(directory: Path, answer: bytes) -> threading.Thread:
    opened = os.open(directory, os.O_PATH)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"/proc/self/fd/{opened}/control.sock")
    listener.listen(1)
    os.close(opened)

    def serve() -> None:
        with listener, listener.accept()[0] as stream:
            stream.recv(4096)
            stream.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_answers_come_through_however_deep_the_directory(deep_directory: Path) -> None:
    thread = answer_once(deep_directory, b'{"ok": true, "state": {"phase": "ready"}}\n')
    assert ask(deep_directory, {"do": "state"})["state"] == {"phase": "ready"}
    thread.join(60)


def test_a_refusal_and_a_silence_are_failures(deep_directory: Path) -> None:
    thread = answer_once(deep_directory, b'{"ok": false, "error": "fault out of range"}\n')
    with pytest.raises(StepFailed, match="fault out of range"):
        ask(deep_directory, {"do": "fault"})
    thread.join(60)
    with pytest.raises(StepFailed, match="does not answer"):
        ask(deep_directory, {"do": "state"})


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with 16 MiB."""
    directory = tmp_path / "small"
    directory.mkdir()
    done = run(["mount", "-t", "tmpfs", "-o", "size=16m", "volbench-test", str(directory)])
    if done.code != 0:
        pytest.skip(f"cannot mount a tmpfs: {done.output}")
    yield directory
    run(["umount", str(directory)])


def test_a_disk_without_room_for_the_image_is_refused(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The image is sparse, so only its maker can tell: later it would look like a broken volume."""
    monkeypatch.setattr(emulated, "check_environment", lambda _: Path("/bin/false"))
    with pytest.raises(MissingPrerequisite, match="too little free space") as caught:
        EmulatedVolume(resolve("ebs-gp3", {"size": "50GiB"}), small_disk, name="x").start()
    assert caught.value.cause == "volume_full"
    assert "16 MiB free, 2048 MiB needed" in str(caught.value)
    assert list(small_disk.iterdir()) == []
