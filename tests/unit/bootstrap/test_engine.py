"""A pid file left behind is told from a dockerd that runs."""

from pathlib import Path

from bootstrap.engine import running_engine_pid, telling_lines


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
