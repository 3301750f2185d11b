"""A pid file left behind is told from a dockerd that runs; its socket is one user's."""

import os
import subprocess
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from bootstrap import engine
from bootstrap.console import Console
from bootstrap.directories import Directories
from bootstrap.engine import running_engine_pid, telling_lines
from volbench.errors import MissingPrerequisite
from volbench.machine.placement.capabilities import Means


def process(directory: Path, pid: int, name: str, state: str = "S") -> Path:
    (directory / str(pid)).mkdir(parents=True)
    (directory / str(pid) / "stat").write_text(f"{pid} ({name}) {state} 1 {pid} {pid} 0 -1 4194560\n")
    return directory


def test_dockerd_named_by_its_pid_file_runs(tmp_path: Path) -> None:
    (tmp_path / "docker.pid").write_text("42")
    assert running_engine_pid(tmp_path / "docker.pid", process(tmp_path / "proc", 42, "dockerd")) == 42


def test_killed_dockerd_that_nobody_waited_for_is_stale(tmp_path: Path) -> None:
    (tmp_path / "docker.pid").write_text("42")
    assert running_engine_pid(tmp_path / "docker.pid", process(tmp_path / "proc", 42, "dockerd", "Z")) is None


def test_pid_taken_over_by_another_program_is_stale(tmp_path: Path) -> None:
    (tmp_path / "docker.pid").write_text("42")
    assert running_engine_pid(tmp_path / "docker.pid", process(tmp_path / "proc", 42, "a (strange) name")) is None


def test_dead_pid_empty_and_absent_files_are_stale(tmp_path: Path) -> None:
    (tmp_path / "docker.pid").write_text("42")
    assert running_engine_pid(tmp_path / "docker.pid", tmp_path) is None
    (tmp_path / "docker.pid").write_text("")
    assert running_engine_pid(tmp_path / "docker.pid", tmp_path) is None
    assert running_engine_pid(tmp_path / "none", tmp_path) is None


def test_reason_is_found_above_a_stack_trace() -> None:
    log = "level=info msg=starting\npanic: no cgroup\ngoroutine 1\n\t/a.go:1\n\t/b.go:2\n"
    assert telling_lines(log).strip() == "panic: no cgroup"


def test_log_without_a_reason_shows_its_end() -> None:
    log = "\n".join(f"level=info msg={i}" for i in range(50))
    assert telling_lines(log, limit=2).split() == ["level=info", "msg=48", "level=info", "msg=49"]


def test_the_socket_is_given_to_the_user_and_to_no_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is in the user's primary group, such as `users`, must not become root through the engine."""
    log, started = tmp_path / "dockerd.log", []
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(engine, "with_rights", lambda argv: ["sudo", *argv])
    monkeypatch.setattr(engine, "run", lambda argv, **_: started.append(argv))
    monkeypatch.setattr(subprocess, "Popen", lambda argv, **_: started.append(argv))
    engine.start_dockerd(log)
    socket = tmp_path / "docker.sock"
    engine._give_socket(lambda: False, log, socket)  # dockerd has ended
    assert started == [["sudo", "dockerd"]]
    socket.touch()
    engine._give_socket(lambda: True, log, socket)
    assert started[1:] == [["sudo", "chown", "1000", str(socket)]]


@pytest.mark.parametrize(
    ("reasons", "starts"),
    [
        (["failed to start containerd: timeout waiting for containerd to start", ""], 2),
        (["failed to start containerd: timeout waiting for containerd to start"] * 3, 2),
        (["failed to start daemon: Error initializing network controller"], 1),
    ],
)
def test_a_containerd_that_was_too_slow_is_given_a_second_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reasons: list[str], starts: int
) -> None:
    """A cold machine reads it from its disk for longer than dockerd waits; another failure stays one."""
    directories = Directories(root=tmp_path, state=tmp_path, cache=tmp_path)
    started: list[str] = []

    def start(path: Path) -> SimpleNamespace:
        started.append(reasons[len(started)])
        path.write_text(started[-1])
        return SimpleNamespace(pid=1, poll=lambda: None)

    def answer(_alive: object) -> Means:
        return Means(name="docker", present=not started[-1], evidence="dockerd ended right after its start")

    monkeypatch.setattr(engine, "SYSTEMD_RUNS", tmp_path / "no-systemd")
    monkeypatch.setattr(engine, "running_engine_pid", lambda: None)
    monkeypatch.setattr(engine, "_remove_stale_pid_file", lambda: None)
    monkeypatch.setattr(engine, "start_dockerd", start)
    monkeypatch.setattr(engine, "_wait", answer)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    last_is_good = not reasons[starts - 1]
    with nullcontext() if last_is_good else pytest.raises(MissingPrerequisite, match="does not come up"):
        engine._start(directories, Console(yes=True))
    assert len(started) == starts
