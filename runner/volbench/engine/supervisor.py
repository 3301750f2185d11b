"""The agent's end of the supervisor: commands into its FIFO, effects read from its state file."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TypeVar

from volbench.errors import StepFailed, UsageError
from volbench.target.processes import KnownProcess

SUPERVISOR_PID_FILE = "supervisor.pid"
SERVER_LOG = "mysqld.log"
STATE_FILE = "state"
COMMAND_BOUND_S = 10.0
"""A command is taken at once; on a machine that swaps it may take a moment."""
_POLL_S = 0.01
_LOG_TAIL_BYTES = 64 * 1024
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class ServerState:
    """What the supervisor says of its server.

    Args:
        seq: commands taken so far.
        pid: of the running server, in the supervisor's PID namespace; None when it does not run.
        exit_code: of the last server, 128 + N after signal N; None while it runs and before a first start.
    """

    seq: int
    pid: int | None = None
    exit_code: int | None = None

    @property
    def running(self) -> bool:
        """Whether the server's process is there."""
        return self.pid is not None

    def __str__(self) -> str:
        if self.running:
            return f"running as process {self.pid}"
        return "not started" if self.exit_code is None else f"stopped, {describe_exit(self.exit_code)}"


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A program that ran to its end under the supervisor."""

    exit_code: int
    output: str


class Supervisor:
    """Commands to the supervisor of one control directory; any agent may take over from an earlier one."""

    def __init__(self, control_dir: Path) -> None:
        self.control_dir = control_dir
        self.log_file = control_dir / SERVER_LOG

    def wait_ready_for_commands(self, timeout_s: float = 30.0) -> ServerState:
        """Wait until the supervisor is there. Raises StepFailed at the time-out."""
        return self._wait(self._said_and_listening, timeout_s, "waiting for the server's supervisor to come up")

    def state(self) -> ServerState:
        """What the supervisor said last. Raises StepFailed when it has said nothing, or is gone with a server."""
        listening = self._listening()
        state = self._said()
        if state is not None and state.running and not listening:
            raise self._gone()
        if state is None:
            raise StepFailed(
                "the server's supervisor is not there",
                where="server control",
                evidence=f"no state in {self.control_dir}; its log: {self.log_tail(5)}",
                cause="supervisor_gone",
            )
        return state

    def start(self, argv: Sequence[str]) -> ServerState:
        """Start a program with these arguments; it may have exited again in the state returned.

        Raises UsageError for an argument with a line break, StepFailed when a server runs already or no
        supervisor answers.
        """
        if any("\n" in argument for argument in argv):
            raise UsageError("a server argument must not hold a line break", where="server control")
        if self.state().running:
            raise StepFailed("the server runs already", where="server control", evidence=str(self.state()))
        partial = self.control_dir / ".argv.new"
        partial.write_text("".join(f"{argument}\n" for argument in argv))
        partial.replace(self.control_dir / "argv")
        return self._command("start")

    def stop(self, timeout_s: float) -> ServerState:
        """SIGTERM, and wait for the end. Raises StepFailed when it still runs at the time-out; it is not killed."""
        self._command("stop")
        return self.wait_stopped(timeout_s, "waiting for the server to shut down")

    def kill(self) -> ServerState:
        """SIGKILL, and wait until the process is gone."""
        self._command("kill")
        return self.wait_stopped(60.0, "waiting for the killed server to be gone")

    def run(self, argv: Sequence[str], *, timeout_s: float, doing: str) -> Finished:
        """Run a program to its end where the server runs, e.g. `mysqld --version`; its output is in the log too.

        Raises StepFailed at the time-out, after killing it.
        """
        before = self.log_size()
        self.start(argv)
        try:
            state = self.wait_stopped(timeout_s, doing)
        except StepFailed:
            self.kill()
            raise
        assert state.exit_code is not None  # noqa: S101 - a stopped program has one
        return Finished(exit_code=state.exit_code, output=self.log_since(before))

    def quit(self, timeout_s: float = 300.0) -> None:
        """Stop the server, then the supervisor itself; nothing happens when it is gone already."""
        if not self._listening():
            return
        try:
            self._send("quit")
        except StepFailed:
            return
        self._wait(lambda: None if self._listening() else True, timeout_s, "waiting for the supervisor to end")

    def wait_stopped(self, timeout_s: float, doing: str) -> ServerState:
        """Wait until no server runs. Raises StepFailed with state and last log lines."""

        def stopped() -> ServerState | None:
            listening = self._listening()  # asked first: its last act is the state, then the FIFO goes
            state = self._said()
            if state is not None and not state.running:
                return state
            if not listening:
                raise self._gone()
            return None

        return self._wait(stopped, timeout_s, doing)

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of the server's stdout and stderr; empty when there is no log."""
        text = self.log_since(max(0, self.log_size() - _LOG_TAIL_BYTES))
        return "\n".join(text.splitlines()[-lines:])

    def log_size(self) -> int:
        """Bytes in the log so far: the mark for `log_since`."""
        try:
            return self.log_file.stat().st_size
        except FileNotFoundError:
            return 0

    def log_since(self, mark: int, *, limit_bytes: int = 8 << 20) -> str:
        """What was logged after the first `mark` bytes, at most `limit_bytes` of it."""
        try:
            with self.log_file.open("rb") as log:
                log.seek(mark)
                return log.read(limit_bytes).decode(errors="replace")
        except FileNotFoundError:
            return ""

    def _command(self, word: str) -> ServerState:
        """Send a command and wait until it is taken."""
        before = self.state().seq
        self._send(word)

        def taken() -> ServerState | None:
            listening = self._listening()
            state = self._said()
            if state is not None and state.seq > before:
                return state
            if not listening:
                raise self._gone()
            return None

        return self._wait(taken, COMMAND_BOUND_S, f"waiting for the supervisor to take `{word}`")

    def _send(self, word: str) -> None:
        try:
            descriptor = os.open(self.control_dir / "command", os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno in {errno.ENXIO, errno.ENOENT}:
                raise self._gone() from error
            raise
        try:
            os.write(descriptor, f"{word}\n".encode())
        finally:
            os.close(descriptor)

    def _listening(self) -> bool:
        """Whether a supervisor has the FIFO open."""
        try:
            os.close(os.open(self.control_dir / "command", os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return False
        return True

    def _said(self) -> ServerState | None:
        try:
            fields = (self.control_dir / STATE_FILE).read_text().split()
            seq, word = int(fields[0]), fields[1]
            number = int(fields[2]) if len(fields) > 2 else None
        except (FileNotFoundError, ValueError, IndexError):
            return None
        if word == "running":
            return ServerState(seq=seq, pid=number)
        return ServerState(seq=seq, exit_code=number)

    def _said_and_listening(self) -> ServerState | None:
        return self._said() if self._listening() else None

    def _gone(self) -> StepFailed:
        return StepFailed(
            "the server's supervisor is gone, and the server with it or out of control",
            where="server control",
            evidence=f"nobody reads {self.control_dir}/command; last log lines:\n{self.log_tail(10)}",
            cause="supervisor_gone",
        )

    def _wait(self, ask: Callable[[], _T | None], timeout_s: float, doing: str) -> _T:
        until = time.monotonic() + timeout_s
        while (answer := ask()) is None:
            if time.monotonic() >= until:
                state = self._said()
                raise StepFailed(
                    f"gave up after {timeout_s:g} s: {doing}",
                    where="server control",
                    evidence=f"server {state or 'state unknown'}; last log lines:\n{self.log_tail(15)}",
                )
            time.sleep(_POLL_S)
        return answer


def describe_exit(code: int) -> str:
    """`exit code 1`, or `killed by SIGKILL` for 128 + 9."""
    if code > 128:
        try:
            return f"killed by {signal.Signals(code - 128).name}"
        except ValueError:
            pass
    return f"exit code {code}"


def supervisor_script() -> bytes:
    """The text of supervisor.sh, which the package carries."""
    return resources.files("volbench.engine").joinpath("supervisor.sh").read_bytes()


def launch_supervisor(control_dir: Path, *, timeout_s: float = 30.0) -> Supervisor:
    """Start a supervisor as a process of its own session, or take over the one that runs there already.

    Its pid file, with the start time, is CONTROL_DIR/supervisor.pid. Raises StepFailed when it does not come up.
    """
    supervisor = Supervisor(control_dir)
    pid_file = control_dir / SUPERVISOR_PID_FILE
    known = KnownProcess.from_file(pid_file)
    if known is None or not known.running():
        for stale in (STATE_FILE, "command"):
            (control_dir / stale).unlink(missing_ok=True)
        script = control_dir / "supervisor.sh"
        script.write_bytes(supervisor_script())
        started = KnownProcess.of(_spawn_detached(script, supervisor.log_file))
        if started is not None:
            started.write(pid_file)
    supervisor.wait_ready_for_commands(timeout_s)
    return supervisor


def _spawn_detached(script: Path, log_file: Path) -> int:
    """Start the script in a session of its own, and forget about it: it may outlive this process. Its pid."""
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.posix_spawnp(
        "sh",
        ["sh", str(script), str(script.parent)],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log_file), append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
