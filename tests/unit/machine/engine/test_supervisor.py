"""The supervisor script under every shell of this machine, and its client; `sleep` stands in for a server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from volbench.errors import StepFailed, UsageError
from volbench.machine.engine.supervisor import (
    SUPERVISOR_PID_FILE,
    Supervisor,
    describe_exit,
    launch_supervisor,
    supervisor_script,
)
from volbench.machine.placement.processes import KnownProcess

SHELLS = [
    pytest.param(shell, marks=pytest.mark.skipif(shutil.which(shell[0]) is None, reason=f"no {shell[0]} here"))
    for shell in (["sh"], ["dash"], ["bash"], ["bash", "--posix"], ["busybox", "sh"])
]
SLEEP = ["sleep", "600"]


def eventually(holds: Callable[[], bool], *, bound_s: float = 10.0) -> bool:
    until = time.monotonic() + bound_s
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def process_of(supervisor: Supervisor) -> KnownProcess:
    process = KnownProcess.from_file(supervisor.control_dir / SUPERVISOR_PID_FILE)
    assert process is not None
    return process


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    launched = launch_supervisor(tmp_path)
    yield launched
    process_of(launched).signal(signal.SIGKILL, group=True)
    assert process_of(launched).wait(60.0)


@pytest.fixture(params=SHELLS)
def in_shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Supervisor]:
    """A supervisor as a container starts it, under one of the shells."""
    script = tmp_path / "supervisor.sh"
    script.write_bytes(supervisor_script())
    process = subprocess.Popen([*request.param, str(script), str(tmp_path)], start_new_session=True)
    supervisor = Supervisor(tmp_path)
    supervisor.wait_ready_for_commands(60.0)
    yield supervisor
    supervisor.quit(10.0)
    assert process.wait(60) == 0


class TestInEveryShell:
    def test_start_stop_and_kill_report_process_and_exit_code(self, in_shell: Supervisor) -> None:
        """SIGTERM ends as 143 and SIGKILL as 137: the same codes in every shell."""
        assert str(in_shell.state()) == "not started"
        started = in_shell.start(SLEEP)
        assert started.pid is not None
        command_line = Path(f"/proc/{started.pid}/cmdline")
        assert eventually(lambda: command_line.read_bytes() == b"sleep\x00600\x00")
        assert in_shell.stop(10.0).exit_code == 128 + signal.SIGTERM
        assert in_shell.start(SLEEP).running
        assert in_shell.kill().exit_code == 128 + signal.SIGKILL

    def test_an_exit_is_written_to_the_state_at_once(self, in_shell: Supervisor) -> None:
        in_shell.start(["sh", "-c", "exit 42"])
        assert eventually(lambda: in_shell.state().exit_code == 42, bound_s=2.0)

    def test_a_kill_from_outside_is_seen(self, in_shell: Supervisor) -> None:
        pid = in_shell.start(SLEEP).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: in_shell.state().exit_code == 137, bound_s=2.0)

    def test_arguments_arrive_as_they_are(self, in_shell: Supervisor) -> None:
        """Spaces, quotes, globs, backslashes and empty arguments mean nothing to the shell."""
        odd = ["two words", "'\"", "*", "\\n", "", "$HOME", "`id`", " lead"]
        done = in_shell.run(["printf", "[%s]", *odd], timeout_s=60.0, doing="printing")
        assert done.output == "".join(f"[{argument}]" for argument in odd)

    def test_a_program_that_is_not_there_exits_with_127(self, in_shell: Supervisor) -> None:
        done = in_shell.run(["no-such-server"], timeout_s=60.0, doing="starting nothing")
        assert done.exit_code == 127
        assert "no-such-server: " in done.output

    def test_sigterm_to_the_supervisor_stops_the_server_first(self, in_shell: Supervisor) -> None:
        """As `docker stop` does; the server has time for a clean shutdown."""
        code = "trap 'echo clean; exit 0' TERM; echo up; while :; do sleep 0.05; done"
        in_shell.start(["sh", "-c", code])
        assert eventually(lambda: "up" in in_shell.log_tail())
        (child,) = (path for path in Path("/proc").glob("[0-9]*") if _is_supervisor_of(path, in_shell))
        os.kill(int(child.name), signal.SIGTERM)
        assert in_shell.wait_stopped(60.0, "stopping").exit_code == 0
        assert "clean" in in_shell.log_tail()
        assert eventually(lambda: not (in_shell.control_dir / "command").exists())

    def test_it_blocks_instead_of_polling(self, in_shell: Supervisor) -> None:
        """Neither the supervisor nor its waiting subshell is scheduled while nothing happens."""
        in_shell.start(SLEEP)
        processes = [path for path in Path("/proc").glob("[0-9]*") if _is_supervisor_of(path, in_shell)]
        assert processes

        def switches() -> list[str]:
            return [
                line
                for path in processes
                for line in (path / "status").read_text().splitlines()
                if line.startswith("voluntary_ctxt_switches")
            ]

        assert eventually(lambda: _twice(switches))


def _twice(ask: Callable[[], list[str]]) -> bool:
    """Whether the answer is the same half a second later."""
    before = ask()
    time.sleep(0.5)
    return ask() == before


def _is_supervisor_of(process: Path, supervisor: Supervisor) -> bool:
    """The main shell of a control directory: its script in the command line, and no such shell above it."""
    try:
        mine = (process / "cmdline").read_bytes()
        parent = (process / "stat").read_text().rsplit(")", 1)[1].split()[1]
        above = Path(f"/proc/{parent}/cmdline").read_bytes()
    except OSError:
        return False
    return str(supervisor.control_dir / "supervisor.sh").encode() in mine and above != mine


def is_gone(supervisor: Supervisor) -> bool:
    try:
        supervisor.state()
    except StepFailed:
        return True
    return False


class TestClient:
    def test_a_second_start_is_refused(self, supervisor: Supervisor) -> None:
        supervisor.start(SLEEP)
        with pytest.raises(StepFailed, match="runs already"):
            supervisor.start(SLEEP)

    def test_stopping_what_does_not_run_is_fine(self, supervisor: Supervisor) -> None:
        assert supervisor.stop(5.0).exit_code is None
        assert supervisor.kill().exit_code is None

    def test_a_server_that_ignores_sigterm_is_reported_not_killed(self, supervisor: Supervisor) -> None:
        """The message has the state and the last log lines; killing is the caller's decision."""
        supervisor.start(["sh", "-c", "trap '' TERM; echo stubborn; while :; do sleep 0.05; done"])
        assert eventually(lambda: "stubborn" in supervisor.log_tail())
        with pytest.raises(StepFailed, match="timeout after") as caught:
            supervisor.stop(0.3)
        assert "running as process" in caught.value.evidence
        assert "stubborn" in caught.value.evidence
        assert supervisor.kill().exit_code == 137

    def test_run_kills_what_takes_too_long(self, supervisor: Supervisor) -> None:
        with pytest.raises(StepFailed, match="napping"):
            supervisor.run(SLEEP, timeout_s=0.2, doing="napping")
        assert not supervisor.state().running

    def test_a_line_break_in_an_argument_is_a_usage_error(self, supervisor: Supervisor) -> None:
        with pytest.raises(UsageError):
            supervisor.start(["sleep", "1\nrm"])

    def test_sigterm_to_the_whole_group_keeps_the_exit_code(self, supervisor: Supervisor) -> None:
        supervisor.start(["sh", "-c", "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done"])
        assert eventually(lambda: "up" in supervisor.log_tail())
        process_of(supervisor).signal(signal.SIGTERM, group=True)
        assert supervisor.wait_stopped(60.0, "stopping").exit_code == 7

    def test_an_agent_may_die_and_the_next_one_takes_over(self, supervisor: Supervisor) -> None:
        """A server started by a process that is killed goes on, and another process can stop it."""
        agent = (
            "import os, signal, sys; from pathlib import Path; from volbench.machine.engine.supervisor "
            "import Supervisor; Supervisor(Path(sys.argv[1])).start(['sleep', '600']); "
            "os.kill(os.getpid(), signal.SIGKILL)"
        )
        died = subprocess.run([sys.executable, "-c", agent, str(supervisor.control_dir)], check=False)
        assert died.returncode == -signal.SIGKILL
        second = launch_supervisor(supervisor.control_dir)
        assert second.state().running
        assert second.stop(5.0).exit_code == 143

    def test_launching_again_takes_over_the_one_that_runs(self, supervisor: Supervisor) -> None:
        before = process_of(supervisor)
        launch_supervisor(supervisor.control_dir)
        assert process_of(supervisor) == before

    def test_what_an_earlier_supervisor_left_does_not_disturb(self, tmp_path: Path) -> None:
        """A state that says running, a plain file for the FIFO, a pid file of a process that is gone."""
        (tmp_path / "state").write_text("17 running 1\n")
        (tmp_path / "command").write_text("kill\n")
        KnownProcess(pid=2**22 - 1, start_ticks=1).write(tmp_path / SUPERVISOR_PID_FILE)
        launched = launch_supervisor(tmp_path)
        assert (launched.state().seq, launched.state().running) == (0, False)
        launched.quit(10.0)

    def test_a_killed_supervisor_is_said_to_be_gone(self, supervisor: Supervisor) -> None:
        supervisor.start(SLEEP)
        state = supervisor.state()
        process_of(supervisor).signal(signal.SIGKILL, group=True)
        assert state.pid is not None
        assert eventually(lambda: KnownProcess.of(state.pid or 0) is None)
        assert eventually(lambda: is_gone(supervisor))  # its subshell, too, has to let go of the FIFO
        with pytest.raises(StepFailed, match="supervisor is gone"):
            supervisor.state()
        with pytest.raises(StepFailed, match="supervisor is gone"):
            supervisor.stop(5.0)
        with pytest.raises(StepFailed, match="supervisor is gone"):
            supervisor.wait_stopped(5.0, "waiting")

    def test_no_supervisor_at_all_is_said_after_a_bounded_wait(self, tmp_path: Path) -> None:
        with pytest.raises(StepFailed, match="supervisor to come up"):
            Supervisor(tmp_path).wait_ready_for_commands(0.1)

    def test_quit_stops_the_server_and_ends_the_supervisor(self, supervisor: Supervisor) -> None:
        pid = supervisor.start(SLEEP).pid
        process = process_of(supervisor)
        supervisor.quit(10.0)
        assert process.wait(60.0)
        assert KnownProcess.of(pid or 0) is None
        assert supervisor.state().exit_code == 143
        supervisor.quit(1.0)

    def test_the_sequence_number_counts_commands_not_exits(self, supervisor: Supervisor) -> None:
        """So that an agent sees the effect of its own command, whatever the server does meanwhile."""
        assert supervisor.state().seq == 0
        supervisor.start(["true"])
        assert eventually(lambda: supervisor.state().exit_code == 0)
        assert supervisor.state().seq == 1
        assert supervisor.kill().seq == 2

    def test_files_are_for_the_owner_alone(self, supervisor: Supervisor) -> None:
        supervisor.start(["true"])
        for name in ("state", "command"):
            assert (supervisor.control_dir / name).stat().st_mode & 0o077 == 0, name


@pytest.mark.parametrize(
    ("code", "text"), [(0, "exit code 0"), (1, "exit code 1"), (137, "killed by SIGKILL"), (255, "exit code 255")]
)
def test_exit_codes_are_put_into_words(code: int, text: str) -> None:
    assert describe_exit(code) == text


def test_a_stop_right_after_the_start_is_not_lost(supervisor: Supervisor) -> None:
    """SIGTERM may come before the server's process has become the server."""
    for _ in range(30):
        supervisor.start(SLEEP)
        assert supervisor.stop(5.0).exit_code == 143
