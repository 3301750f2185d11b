"""External tools as child processes: argument lists, bounded waits, a certain end, and the end of their output."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from volbench.core.base import programs
from volbench.errors import MissingPrerequisite, StepFailed
from volbench.machine.engine.connection import check_client

TERMINATE_TIMEOUT_S = 10.0
_POLL_S = 0.2
_TAIL_BYTES = 4000
_LAST_LINES = 12
_SPLICE_BYTES = 1 << 20
_PIECE_S = 0.1
_LINE_BYTES_MAX = 1 << 20


@dataclass(kw_only=True)
class Tool:
    """A running tool. `started` starts and ends it."""

    name: str
    process: programs.Popen
    started_monotonic_s: float
    deadline_monotonic_s: float
    cancelled: threading.Event
    records_prefix: str
    _stderr: IO[bytes] = field(repr=False)
    _stdout_tail: bytes = b""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def lines(self, on_poll: Callable[[], None] = lambda: None) -> Iterator[str]:
        """Yield every line of stdout until the tool closes it. Raise StepFailed as `wait`.

        `on_poll` is called at least five times a second; what it raises ends the lines.
        """
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        partial_line = b""
        while True:
            on_poll()
            self.check_limits()
            if not select.select([descriptor], [], [], _POLL_S)[0]:
                continue
            read = os.read(descriptor, 1 << 16)
            if not read:
                break
            *complete_lines, partial_line = (partial_line + read).split(b"\n")
            if len(partial_line) > _LINE_BYTES_MAX:
                raise StepFailed(f"{self.name} wrote a line of more than {_LINE_BYTES_MAX} bytes")
            self._append_tail(complete_lines)
            yield from (line.decode(errors="replace") for line in complete_lines)
        if partial_line:
            yield partial_line.decode(errors="replace")

    def drain(self, on_progress: Callable[[int], None], *, rate_limit_bytes_per_s: float = math.inf) -> int:
        """Discard stdout and return its size; `on_progress` gets the bytes so far. Raise StepFailed as `wait`.

        The bytes go from the pipe to /dev/null within the kernel, so that the reader costs next to nothing.

        Args:
            on_progress: called at least every second in which bytes come.
            rate_limit_bytes_per_s: read no faster, so that the tool waits for its reader; a tenth of a second of it
                at a time, and the pipe holds no more, as far as the kernel makes one so small.
        """
        assert self.process.stdout is not None
        source, drained, next_report_s = self.process.stdout.fileno(), 0, 0.0
        piece = max(1, int(min(_SPLICE_BYTES, rate_limit_bytes_per_s * _PIECE_S)))
        begun_s = time.monotonic()
        with contextlib.suppress(OSError):
            fcntl.fcntl(source, fcntl.F_SETPIPE_SZ, piece)
        with Path(os.devnull).open("wb") as nowhere:
            while True:
                self.check_limits()
                early_s = begun_s + drained / rate_limit_bytes_per_s - time.monotonic()
                if early_s > 0:
                    time.sleep(min(early_s, _POLL_S))
                    continue
                if not select.select([source], [], [], _POLL_S)[0]:
                    continue
                moved = os.splice(source, nowhere.fileno(), piece)
                if moved == 0:
                    return drained
                drained += moved
                if time.monotonic() > next_report_s:
                    on_progress(drained)
                    next_report_s = time.monotonic() + _POLL_S

    def read(self, size: int, /, on_poll: Callable[[], None] = lambda: None) -> bytes:
        """Return `size` bytes of stdout, fewer only at its end. Raise StepFailed as `wait`.

        `on_poll` is called at least five times a second; what it raises ends the read.
        """
        assert self.process.stdout is not None
        source, chunks, missing = self.process.stdout.fileno(), list[bytes](), size
        while missing:
            self.check_limits()
            on_poll()
            if not select.select([source], [], [], _POLL_S)[0]:
                continue
            chunk = os.read(source, min(missing, _SPLICE_BYTES))
            if not chunk:
                break
            chunks.append(chunk)
            missing -= len(chunk)
        return b"".join(chunks)

    def wait(self, while_running: Callable[[], None] = lambda: None) -> int:
        """Wait for the end; `while_running` is called about five times a second.

        Returns the exit code, negative for a signal. Raises StepFailed at the timeout or if the step is
        cancelled.
        """
        ended = os.pidfd_open(self.pid)  # readable at the exit: Popen.wait polls, up to 50 ms too late
        try:
            while not select.select([ended], [], [], _POLL_S)[0]:
                self.check_limits()
                while_running()
        finally:
            os.close(ended)
        return self.process.wait(TERMINATE_TIMEOUT_S)

    def error_output(self) -> str:
        """Return the last lines of stderr, or of stdout's messages if stderr is empty."""
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _TAIL_BYTES))
        text = self._stderr.read().decode(errors="replace").strip() or self._stdout_tail.decode(errors="replace")
        messages = [line for line in text.splitlines() if line.strip()]
        return "\n".join(messages[-_LAST_LINES:])

    def cpu_s(self) -> float | None:
        """Return the CPU seconds of all its threads so far; None after its end."""
        return process_cpu_s(self.pid)

    def _append_tail(self, lines: list[bytes]) -> None:
        prefix = self.records_prefix.encode()
        messages = b"".join(line + b"\n" for line in lines if not (prefix and line.startswith(prefix)))
        self._stdout_tail = (self._stdout_tail + messages)[-_TAIL_BYTES:]

    def allow(self, seconds: float) -> None:
        """Move the timeout, if need be, so that the tool has that many seconds from now."""
        self.deadline_monotonic_s = max(self.deadline_monotonic_s, time.monotonic() + seconds)

    def check_limits(self) -> None:
        """Raise StepFailed where the step is cancelled, or at the timeout."""
        if self.cancelled.is_set():
            raise StepFailed(f"the step was cancelled, so volbench ended {self.name}")
        if time.monotonic() > self.deadline_monotonic_s:
            raise StepFailed(
                f"{self.name} did not finish within {self.deadline_monotonic_s - self.started_monotonic_s:.0f} s",
                evidence=self.error_output(),
                next_step="raise the step's timeout, or read the server's log",
            )


@contextlib.contextmanager
def run_tool(
    argv: Sequence[str],
    *,
    timeout_s: float,
    cancelled: threading.Event,
    cwd: Path,
    stdin: IO[bytes] | None = None,
    stdout: IO[bytes] | int = subprocess.PIPE,
    env: Mapping[str, str] | None = None,
    records_prefix: str = "",
) -> Iterator[Tool]:
    """Start a tool; at the end of the block terminate it, and kill it after TERMINATE_TIMEOUT_S.

    If setpriv(1) is installed, the kernel also ends the tool when its parent dies.

    Args:
        stdin: a file to read from; default: /dev/null.
        stdout: a file to write to; default: a pipe for `Tool.lines`.
        env: variables added to those that every program gets.
        records_prefix: prefix of stdout's lines that are records, not messages.

    Raises MissingPrerequisite if the tool is not installed.
    """
    name = Path(argv[0]).name
    require_tool(argv[0])
    check_client(argv)
    with tempfile.TemporaryFile() as stderr:
        process = programs.Popen(
            argv,
            stdin=stdin if stdin is not None else subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=programs.environment(**{"LC_ALL": "C", **(env or {})}),
            parent_death_signal=signal.SIGTERM,
        )
        try:
            yield Tool(
                name=name,
                process=process,
                started_monotonic_s=(started_s := time.monotonic()),
                deadline_monotonic_s=started_s + timeout_s,
                cancelled=cancelled,
                records_prefix=records_prefix,
                _stderr=stderr,
            )
        finally:
            process.end(grace_s=TERMINATE_TIMEOUT_S)
            if process.stdout is not None:
                process.stdout.close()


def require_tool(name: str) -> str:
    """Return the path of a tool. Raise MissingPrerequisite if it is not installed."""
    path = programs.find_program(name)
    if path is None:
        raise MissingPrerequisite(
            f"{name} is not installed", next_step=f"install the package that brings {name}; see volbench doctor"
        )
    return path


def tool_version(name: str) -> str:
    """Return the first line of `NAME --version`. Raise MissingPrerequisite."""
    path = require_tool(name)
    try:
        done = programs.run([path, "--version"], capture_output=True, timeout=20, check=False, text=True)
    except subprocess.TimeoutExpired as error:
        raise MissingPrerequisite(f"{name} --version printed nothing in 20 s") from error
    return (done.stdout or done.stderr).strip().partition("\n")[0]


def process_cpu_s(pid: int) -> float | None:
    """Return user and system CPU seconds of a process with all its threads, from /proc; None after its end."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # from the third field on: the name may contain spaces
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def usable_cpus() -> float:
    """Return the CPUs that this process and its children may use: affinity, and the quota of its control group."""
    cpus = float(len(os.sched_getaffinity(0)))
    own = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError, ValueError):  # version 2; its `max` means no limit
        quota, period = (own / "cpu.max").read_text().split()
        cpus = min(cpus, int(quota) / int(period))
    with contextlib.suppress(OSError, ValueError):  # version 1; -1 is no limit
        quota, period = ((own / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        cpus = min(cpus, int(quota) / int(period)) if int(quota) > 0 else cpus
    return cpus
