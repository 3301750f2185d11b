"""The agent's end of the supervisor: commands into its FIFO, effects read from its state file."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TypeVar

from volbench.core.base import programs, safe_files
from volbench.errors import StepFailed, UsageError
from volbench.machine.placement.processes import KnownProcess

SUPERVISOR_PID_FILE = "supervisor.pid"
SERVER_LOG = "mysqld.log"
STATE_FILE = "state"
COMMAND_TIMEOUT_S = 10.0
"""The supervisor reads a command at once; on a machine that swaps that may take a moment."""
_POLL_S = 0.01
_LOG_TAIL_BYTES = 64 * 1024
_STATE_BYTES_MAX = 4096
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class ServerState:
    """The state of a server, as its supervisor wrote it.

    Args:
        seq: number of commands that the supervisor has read.
        pid: of the running server, in the supervisor's PID namespace; None if it does not run.
        exit_code: of the last server, 128 + N after signal N; None while it runs and before a first start.
    """

    seq: int
    pid: int | None = None
    exit_code: int | None = None

    @property
    def running(self) -> bool:
        """Whether the server's process runs."""
        return self.pid is not None

    def __str__(self) -> str:
        if self.running:
            return f"running as process {self.pid}"
        return "not started" if self.exit_code is None else f"stopped, {describe_exit(self.exit_code)}"


@dataclass(frozen=True, kw_only=True)
class Finished:
    """Exit code and output of a program that ended under the supervisor."""

    exit_code: int
    output: str


class Supervisor:
    """Commands to the supervisor of one control directory; any agent may take over from an earlier one."""

    def __init__(self, control_dir: Path) -> None:
        self.control_dir = control_dir
        self.log_file = control_dir / SERVER_LOG

    def wait_ready_for_commands(self, timeout_s: float = 30.0) -> ServerState:
        """Wait until the supervisor reads commands. Raise StepFailed at the time-out."""
        return self._wait(self._state_if_listening, timeout_s, "waiting for the server's supervisor to come up")

    def state(self) -> ServerState:
        """Return the last state. Raise StepFailed without one, or if the supervisor died with a running server."""
        listening = self._listening()
        state = self._read_state()
        if state is not None and state.running and not listening:
            raise self._gone()
        if state is None:
            raise StepFailed(
                "the server's supervisor does not run",
                where="server control",
                evidence=f"no state in {self.control_dir}; its log: {self.log_tail(5)}",
                cause="supervisor_gone",
            )
        return state

    def start(self, argv: Sequence[str]) -> ServerState:
        """Start a program with these arguments; in the returned state the program may have exited already.

        Raises UsageError for an argument with a line break, StepFailed if a server runs already or no
        supervisor answers.
        """
        if any("\n" in argument for argument in argv):
            raise UsageError("a server argument must not contain a line break", where="server control")
        if self.state().running:
            raise StepFailed("the server runs already", where="server control", evidence=str(self.state()))
        with safe_files.held_directory(self.control_dir.resolve()) as directory:
            content = "".join(f"{argument}\n" for argument in argv)
            safe_files.write_new(directory, "argv", content.encode(errors="surrogateescape"), sync=False)
        return self._command("start")

    def stop(self, timeout_s: float) -> ServerState:
        """Send SIGTERM and wait for the end. Raise StepFailed at the time-out; the server is not killed."""
        self._command("stop")
        return self.wait_stopped(timeout_s, "waiting for the server to shut down")

    def kill(self) -> ServerState:
        """Send SIGKILL and wait until the process is gone."""
        self._command("kill")
        return self.wait_stopped(60.0, "waiting for the killed server to be gone")

    def run(self, argv: Sequence[str], *, timeout_s: float, doing: str) -> Finished:
        """Run a program where the server runs, to its end, e.g. `mysqld --version`; the log gets its output too.

        Raises StepFailed at the time-out, after killing the program.
        """
        before = self.log_size()
        self.start(argv)
        try:
            state = self.wait_stopped(timeout_s, doing)
        except StepFailed:
            self.kill()
            raise
        assert state.exit_code is not None
        return Finished(exit_code=state.exit_code, output=self.log_since(before))

    def quit(self, timeout_s: float = 300.0) -> None:
        """Stop the server, then the supervisor itself; do nothing if the supervisor is gone already."""
        if not self._listening():
            return
        try:
            self._send("quit")
        except StepFailed:
            return
        self._wait(lambda: None if self._listening() else True, timeout_s, "waiting for the supervisor to end")

    def wait_stopped(self, timeout_s: float, doing: str) -> ServerState:
        """Wait until no server runs. Raise StepFailed with state and last log lines."""

        def stopped() -> ServerState | None:
            listening = self._listening()  # before the state: at its end the supervisor writes the state first
            state = self._read_state()
            if state is not None and not state.running:
                return state
            if not listening:
                raise self._gone()
            return None

        return self._wait(stopped, timeout_s, doing)

    def log_tail(self, lines: int = 20) -> str:
        """Return the last lines of the server's stdout and stderr; empty if there is no log."""
        text = self.log_since(max(0, self.log_size() - _LOG_TAIL_BYTES))
        return "\n".join(text.splitlines()[-lines:])

    def log_size(self) -> int:
        """Return the log's size in bytes: the mark for `log_since`."""
        try:
            return self.log_file.lstat().st_size
        except FileNotFoundError:
            return 0

    def log_since(self, mark: int, *, limit_bytes: int = 8 << 20) -> str:
        """Return the log's text after the first `mark` bytes, at most `limit_bytes`."""
        try:
            with safe_files.held_directory(self.control_dir.resolve()) as directory:
                descriptor = safe_files.open_regular(directory, self.log_file.name)
            with os.fdopen(descriptor, "rb") as log:
                log.seek(mark)
                return log.read(limit_bytes).decode(errors="replace")
        except OSError:  # there is none, or something else has its name
            return ""

    def _command(self, command: str) -> ServerState:
        """Send a command and wait until the supervisor has read it."""
        before = self.state().seq
        self._send(command)

        def acknowledged() -> ServerState | None:
            listening = self._listening()
            state = self._read_state()
            if state is not None and state.seq > before:
                return state
            if not listening:
                raise self._gone()
            return None

        return self._wait(acknowledged, COMMAND_TIMEOUT_S, f"waiting for the supervisor to take `{command}`")

    def _send(self, command: str) -> None:
        try:
            descriptor = safe_files.open_pipe(self.control_dir / "command")
        except OSError as error:
            raise self._gone() from error
        try:
            os.write(descriptor, f"{command}\n".encode())
        finally:
            os.close(descriptor)

    def _listening(self) -> bool:
        """Return whether a supervisor has the FIFO open."""
        try:
            os.close(safe_files.open_pipe(self.control_dir / "command"))
        except OSError:
            return False
        return True

    def _read_state(self) -> ServerState | None:
        try:
            state = safe_files.read_beside(self.control_dir / STATE_FILE, bytes_max=_STATE_BYTES_MAX)
            fields = state.decode("ascii").split()
            seq, status = int(fields[0]), fields[1]
            number = int(fields[2]) if len(fields) > 2 else None
        except (OSError, ValueError, IndexError):
            return None
        if status == "running":
            return ServerState(seq=seq, pid=number)
        return ServerState(seq=seq, exit_code=number)

    def _state_if_listening(self) -> ServerState | None:
        return self._read_state() if self._listening() else None

    def _gone(self) -> StepFailed:
        return StepFailed(
            "the server's supervisor is gone; the server is gone too, or cannot be controlled",
            where="server control",
            evidence=f"no process reads {self.control_dir}/command; last log lines:\n{self.log_tail(10)}",
            cause="supervisor_gone",
        )

    def _wait(self, ask: Callable[[], _T | None], timeout_s: float, doing: str) -> _T:
        until = time.monotonic() + timeout_s
        while (answer := ask()) is None:
            if time.monotonic() >= until:
                state = self._read_state()
                raise StepFailed(
                    f"timeout after {timeout_s:g} s: {doing}",
                    where="server control",
                    evidence=f"server {state or 'state unknown'}; last log lines:\n{self.log_tail(15)}",
                )
            time.sleep(_POLL_S)
        return answer


def describe_exit(code: int) -> str:
    """Return `exit code 1`, or `killed by SIGKILL` for 128 + 9."""
    if code > 128:
        try:
            return f"killed by {signal.Signals(code - 128).name}"
        except ValueError:
            pass
    return f"exit code {code}"


def supervisor_script() -> bytes:
    """Return the text of the package's supervisor.sh."""
    return resources.files("volbench.machine.engine").joinpath("supervisor.sh").read_bytes()


def launched_supervisor(control_dir: Path) -> KnownProcess | None:
    """Return the supervisor that `launch_supervisor` started for that directory, while it runs; else None."""
    process = KnownProcess.from_file(control_dir / SUPERVISOR_PID_FILE)
    return process if process is not None and process.running() else None


def launch_supervisor(control_dir: Path, *, timeout_s: float = 30.0) -> Supervisor:
    """Start a supervisor in a session of its own, or take over one that runs in that directory already.

    Its pid file, with the start time, is CONTROL_DIR/supervisor.pid. Raises StepFailed if it does not start.
    """
    supervisor = Supervisor(control_dir)
    if launched_supervisor(control_dir) is None:
        for stale in (STATE_FILE, "command"):
            (control_dir / stale).unlink(missing_ok=True)
        script = control_dir / "supervisor.sh"
        with safe_files.held_directory(control_dir.resolve()) as directory:
            safe_files.write_new(directory, script.name, supervisor_script(), mode=0o644, sync=False)
        started = KnownProcess.of(_spawn_detached(script, supervisor.log_file))
        if started is not None:
            started.write(control_dir / SUPERVISOR_PID_FILE)
    supervisor.wait_ready_for_commands(timeout_s)
    return supervisor


def _spawn_detached(script: Path, log_file: Path) -> int:
    """Start the script in a session of its own and return its pid; it may outlive this process."""
    log = safe_files.open_own(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        return programs.detach(["sh", script, script.parent], stdout=log, stderr=log)
    finally:
        os.close(log)
