"""External tools as child processes."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from volbench.errors import MissingPrerequisite, StepFailed
from volbench.measure.workload.process import process_cpu_s, require_tool, run_tool, tool_version, usable_cpus

ALIVE_BOUND_S = 60.0


def gone(pid: int) -> bool:
    until = time.monotonic() + ALIVE_BOUND_S
    while time.monotonic() < until:
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.02)
    return False


def test_lines_come_as_they_are_written(tmp_path: Path) -> None:
    """Whole lines, the last one without a line break too."""
    with run_tool(["printf", r"a\nb b\nlast"], timeout_s=60, cancelled=threading.Event(), cwd=tmp_path) as tool:
        assert list(tool.lines()) == ["a", "b b", "last"]
        assert tool.wait() == 0


def test_the_exit_code_and_last_words_are_kept(tmp_path: Path) -> None:
    """stderr when there is any, else stdout."""
    argv = ["sh", "-c", "echo out; echo why >&2; exit 7"]
    with run_tool(argv, timeout_s=60, cancelled=threading.Event(), cwd=tmp_path) as tool:
        list(tool.lines())
        assert tool.wait() == 7
        assert tool.error_output() == "why"


def test_a_read_returns_as_many_bytes_as_asked_for(tmp_path: Path) -> None:
    """A pipe gives 64 KiB at a time; whoever uploads parts takes a short read for the end."""
    argv = ["head", "-c", "1000000", "/dev/zero"]
    with run_tool(argv, timeout_s=60, cancelled=threading.Event(), cwd=tmp_path) as tool:
        assert [len(tool.read(size)) for size in (300_000, 0, 600_000, 300_000, 300_000)] == [
            300_000,
            0,
            600_000,
            100_000,
            0,
        ]


def test_a_tool_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    """The failure tells the bound; nothing is left running."""
    with (
        pytest.raises(StepFailed, match="sleep did not finish within 1 s"),
        run_tool(["sleep", "60"], timeout_s=1, cancelled=threading.Event(), cwd=tmp_path) as tool,
    ):
        tool.wait()
    assert gone(tool.pid)


def test_a_tool_that_ignores_the_request_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Terminate, then kill: the block always ends."""
    monkeypatch.setattr("volbench.measure.workload.process.TERMINATE_TIMEOUT_S", 0.5)
    argv = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"]
    with run_tool(argv, timeout_s=60, cancelled=threading.Event(), cwd=tmp_path) as tool:
        assert next(iter(tool.lines())) == "ready"
    assert tool.process.returncode == -9


def test_an_interrupt_ends_the_tool(tmp_path: Path) -> None:
    """Ctrl-C is an exception like any other here."""
    with (
        pytest.raises(KeyboardInterrupt),
        run_tool(["sleep", "60"], timeout_s=60, cancelled=threading.Event(), cwd=tmp_path) as tool,
    ):
        raise KeyboardInterrupt
    assert gone(tool.pid)


def test_cancelling_is_noticed_while_waiting(tmp_path: Path) -> None:
    """Another thread cancels; the wait ends within a second."""
    cancelled = threading.Event()
    timer = threading.Timer(0.3, cancelled.set)
    timer.start()
    begun = time.monotonic()
    with (
        pytest.raises(StepFailed, match="cancelled"),
        run_tool(["sleep", "60"], timeout_s=60, cancelled=cancelled, cwd=tmp_path) as tool,
    ):
        tool.wait()
    timer.join()
    assert time.monotonic() - begun < 5


def test_drained_bytes_are_counted(tmp_path: Path) -> None:
    """To the byte, and told on the way."""
    messages: list[int] = []
    argv = ["head", "-c", "5000000", "/dev/zero"]
    with run_tool(argv, timeout_s=60, cancelled=threading.Event(), cwd=tmp_path) as tool:
        assert tool.drain(messages.append) == 5_000_000
        assert tool.wait() == 0
    assert messages
    assert messages == sorted(messages)


def test_a_throttled_reader_lets_its_tool_wait(tmp_path: Path) -> None:
    """2 MB at 1 MB a second take two seconds, however fast the tool is; the last bytes are not lost."""
    argv = ["head", "-c", "2000000", "/dev/zero"]
    begun_s = time.monotonic()
    with run_tool(argv, timeout_s=60, cancelled=threading.Event(), cwd=tmp_path) as tool:
        assert tool.drain(lambda _: None, rate_limit_bytes_per_s=1e6) == 2_000_000
        assert tool.wait() == 0
    assert time.monotonic() - begun_s >= 1.8


def test_a_tool_dies_with_its_parent(tmp_path: Path) -> None:
    """SIGKILL of the one that started it leaves no tool behind, where setpriv is there."""
    require_tool("setpriv")
    script = """
import os, signal, threading, time
from pathlib import Path
from volbench.measure.workload.process import run_tool

with run_tool(["sleep", "60"], timeout_s=60, cancelled=threading.Event(), cwd=Path(".")) as tool:
    Path("pid").write_text(str(tool.pid))
    until = time.monotonic() + 60
    while Path(f"/proc/{tool.pid}/comm").read_text().strip() != "sleep":
        assert time.monotonic() < until
    os.kill(os.getpid(), signal.SIGKILL)
"""
    argv = [sys.executable, "-c", script]
    env = {"PYTHONPATH": os.pathsep.join(sys.path)}
    with run_tool(argv, timeout_s=60, cancelled=threading.Event(), cwd=tmp_path, env=env) as parent:
        assert parent.wait() == -9, parent.error_output()
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_missing_tool_is_named() -> None:
    """With the next step."""
    with pytest.raises(MissingPrerequisite, match="no-such-tool is not installed"):
        tool_version("no-such-tool")


def test_cpu_time_is_read_of_a_process_that_is_there() -> None:
    """It grows with work, and is None for one that is gone."""
    before = process_cpu_s(os.getpid())
    assert before is not None
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    after = process_cpu_s(os.getpid())
    assert after is not None
    assert after - before >= 0.05
    assert process_cpu_s(2**22 + 1) is None
    assert usable_cpus() > 0
