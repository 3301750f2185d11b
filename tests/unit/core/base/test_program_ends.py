"""A child process ends within its deadline: by SIGTERM, else by SIGKILL, with its group where that is asked."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from volbench.core.base import programs

GRACE_S_MAX = 60.0


def started(script: str, *, leads_group: bool = False) -> programs.Popen:
    """A shell that has run its script up to `echo ready`."""
    process = programs.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=leads_group)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def test_a_program_that_follows_sigterm_is_not_killed() -> None:
    with started("trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done") as process:
        assert process.end(grace_s=GRACE_S_MAX)
        assert process.returncode == 7


@pytest.mark.parametrize(("script", "grace_s"), [("trap '' TERM; ", 0.2), ("", 0.0)])
def test_a_program_that_does_not_end_is_killed(script: str, grace_s: float) -> None:
    with started(f"{script}echo ready; while :; do sleep 0.05; done") as process:
        assert process.end(grace_s=grace_s)
        assert process.returncode == -signal.SIGKILL


def test_a_group_ends_with_its_leader() -> None:
    """The child has the pipe's other end: its end of file shows that the child is gone."""
    with started("sleep 1000 & echo ready; wait", leads_group=True) as process:
        assert process.end(group=True)
        assert process.stdout is not None
        assert process.stdout.read() == b""


def test_a_program_that_has_ended_gets_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number may be another program's."""
    with started("echo ready") as process:
        process.wait(60)
        monkeypatch.setattr(os, "killpg", lambda *_: pytest.fail("a signal was sent"))
        monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("a signal was sent"))
        assert process.end(grace_s=1.0, group=True)
        assert process.end()
        assert process.returncode == 0


def test_a_program_that_cannot_be_killed_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that waits in the kernel for a device that hangs."""
    monkeypatch.setattr(programs, "KILL_TIMEOUT_S", 0.05)
    with started("echo ready; exec sleep 1000") as process:
        with monkeypatch.context() as without_signals:
            without_signals.setattr(programs.Popen, "send_signal", lambda *_: None)
            assert not process.end(grace_s=0.05)
        assert process.end(grace_s=GRACE_S_MAX)
