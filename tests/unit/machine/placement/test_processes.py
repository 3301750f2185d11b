"""Processes are known by pid, start time and label: a pid file alone ends nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from volbench.machine.placement.local import AGENT_PID_FILE, CellDirectories, LocalPlacement
from volbench.machine.placement.processes import LABEL_VARIABLE, KnownProcess

LABEL = "20260131T120000Z-quick-1a2b3c/01-a"
WAIT_S = 60.0


def started(label: str | None) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **({LABEL_VARIABLE: label} if label else {})}
    return subprocess.Popen(["sleep", "60"], env=environment)


@pytest.fixture(params=[None, "20260131T120000Z-quick-1a2b3c/02-b", f"{LABEL}1"])
def foreign(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    process = started(request.param)
    yield process
    process.kill()
    process.wait(WAIT_S)


def placement(out: Path) -> LocalPlacement:
    return LocalPlacement(out=out, label=LABEL, directories=CellDirectories(own=(out,)))


def test_a_pid_file_that_names_another_process_ends_nothing(
    foreign: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """A run's directory may come from somebody else, who can guess pid and start time of a daemon."""
    known_values = KnownProcess.of(foreign.pid)
    assert known_values is not None
    known_values.write(tmp_path / AGENT_PID_FILE)
    agent = placement(tmp_path)
    assert not agent.running()
    agent.interrupt()
    agent.kill()
    assert foreign.poll() is None


def test_the_agent_of_the_cell_is_interrupted_and_killed(tmp_path: Path) -> None:
    for end, number in (("interrupt", signal.SIGTERM), ("kill", signal.SIGKILL)):
        process = started(LABEL)
        try:
            known_values = KnownProcess.of(process.pid)
            assert known_values is not None
            known_values.write(tmp_path / AGENT_PID_FILE)
            agent = placement(tmp_path)
            assert agent.running()
            getattr(agent, end)()
            assert process.wait(WAIT_S) == -number
            assert not agent.running()
        finally:
            process.kill()
            process.wait(WAIT_S)


def test_a_later_process_with_the_same_pid_is_not_signalled() -> None:
    """Its start time differs."""
    process = started(None)
    try:
        known_values = KnownProcess.of(process.pid)
        assert known_values is not None
        earlier = KnownProcess(pid=known_values.pid, start_ticks=known_values.start_ticks - 1)
        earlier.signal(signal.SIGKILL)
        earlier.signal(signal.SIGKILL, group=True)
        assert process.poll() is None
        known_values.signal(signal.SIGKILL)
        assert process.wait(WAIT_S) == -signal.SIGKILL
        known_values.signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait(WAIT_S)


@pytest.mark.parametrize("pid", [0, -1, 2**40, int("9" * 400), 1e400, None, "x"])
def test_a_pid_file_with_what_is_no_pid_names_nothing(pid: object, tmp_path: Path) -> None:
    """-1 would be every process."""
    (tmp_path / AGENT_PID_FILE).write_text(json.dumps({"pid": pid, "start_ticks": 1}))
    assert KnownProcess.from_file(tmp_path / AGENT_PID_FILE) is None
    assert not placement(tmp_path).running()


def test_a_process_that_replaces_its_program_keeps_its_label() -> None:
    """The kernel shows no environment during execve: an agent that begins was taken for one that had ended."""
    again = 'n=$1; [ "$n" -gt 0 ] && exec sh -c "$0" "$0" $((n - 1)); sleep 60'
    environment = {**os.environ, LABEL_VARIABLE: LABEL}
    process = subprocess.Popen(["sh", "-c", again, again, "1500"], env=environment)
    try:
        known_values = KnownProcess.of(process.pid)
        assert known_values is not None
        until = time.monotonic() + WAIT_S
        answers: list[Any] = []
        while Path(f"/proc/{process.pid}/cmdline").read_bytes().count(b"1500") or len(answers) < 3000:
            answers.append(known_values.has_label(LABEL))
            if time.monotonic() > until:
                break
        assert all(answers)
        assert not known_values.has_label(LABEL + "1")
    finally:
        process.kill()
        process.wait(WAIT_S)


def test_the_wait_for_a_process_ends_with_it() -> None:
    process = subprocess.Popen(["sleep", "0.2"])
    agent = KnownProcess.of(process.pid)
    assert agent is not None
    began_s = time.monotonic()
    assert agent.wait(WAIT_S)
    assert agent.wait(WAIT_S)  # a zombie
    process.wait(WAIT_S)
    assert agent.wait(WAIT_S)
    assert time.monotonic() - began_s < WAIT_S


def test_the_wait_for_a_process_is_limited() -> None:
    process = started(None)
    agent = KnownProcess.of(process.pid)
    assert agent is not None
    began_s = time.monotonic()
    assert not agent.wait(0.05)
    assert 0.04 < time.monotonic() - began_s < WAIT_S
    process.kill()
    process.wait(WAIT_S)
