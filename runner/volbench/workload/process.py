"""External tools as child processes: argument lists, bounded waits, always ended, last words kept."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from volbench.base import programs
from volbench.errors import EnvironmentLacks, StepFailed

TERMINATE_BOUND_S = 10.0
_POLL_S = 0.2
_TAIL_BYTES = 4000
_LAST_LINES = 12
_SPLICE_BYTES = 1 << 20
_LINE_BYTES_MAX = 1 << 20


@dataclass(kw_only=True)
class Tool:
    """A tool that runs. Made by `started`, which also ends it."""

    name: str
    process: subprocess.Popen[bytes]
    deadline_monotonic_s: float
    timeout_s: float
    cancelled: threading.Event
    records_prefix: str
    _stderr: IO[bytes] = field(repr=False)
    _stdout_tail: bytes = b""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def lines(self) -> Iterator[str]:
        """Every line of stdout as it comes, until the tool closes it. Raises StepFailed as `wait`."""
        assert self.process.stdout is not None  # noqa: S101 - the caller asked for a pipe
        descriptor = self.process.stdout.fileno()
        rest = b""
        while True:
            self._still_wanted()
            if not select.select([descriptor], [], [], _POLL_S)[0]:
                continue
            read = os.read(descriptor, 1 << 16)
            if not read:
                break
            *whole, rest = (rest + read).split(b"\n")
            if len(rest) > _LINE_BYTES_MAX:
                raise StepFailed(f"{self.name} wrote a line of more than {_LINE_BYTES_MAX} bytes")
            self._keep(whole)
            yield from (line.decode(errors="replace") for line in whole)
        if rest:
            yield rest.decode(errors="replace")

    def drain(self, seen: Callable[[int], None]) -> int:
        """Take all of stdout without keeping it; `seen` is told the bytes so far. Raises StepFailed as `wait`.

        The bytes go from the pipe to /dev/null within the kernel, so that the reader costs next to nothing.
        """
        assert self.process.stdout is not None  # noqa: S101 - the caller asked for a pipe
        source, taken, next_word_s = self.process.stdout.fileno(), 0, 0.0
        with contextlib.suppress(OSError):
            fcntl.fcntl(source, fcntl.F_SETPIPE_SZ, _SPLICE_BYTES)
        with Path(os.devnull).open("wb") as nowhere:
            while True:
                self._still_wanted()
                if not select.select([source], [], [], _POLL_S)[0]:
                    continue
                moved = os.splice(source, nowhere.fileno(), _SPLICE_BYTES)
                if moved == 0:
                    return taken
                taken += moved
                if time.monotonic() > next_word_s:
                    seen(taken)
                    next_word_s = time.monotonic() + _POLL_S

    def wait(self, while_running: Callable[[], None] = lambda: None) -> int:
        """Wait for the end; `while_running` is called about five times a second.

        Returns the exit code, negative for a signal. Raises StepFailed when the time is up or the step is
        cancelled.
        """
        ended = os.pidfd_open(self.pid)  # readable at the very end: Popen.wait would ask up to 50 ms too late
        try:
            while not select.select([ended], [], [], _POLL_S)[0]:
                self._still_wanted()
                while_running()
        finally:
            os.close(ended)
        return self.process.wait(TERMINATE_BOUND_S)

    def last_words(self) -> str:
        """The last lines of stderr, or of stdout's messages when there is nothing on stderr."""
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _TAIL_BYTES))
        text = self._stderr.read().decode(errors="replace").strip() or self._stdout_tail.decode(errors="replace")
        said = [line for line in text.splitlines() if line.strip()]
        return "\n".join(said[-_LAST_LINES:])

    def cpu_s(self) -> float | None:
        """CPU seconds of all its threads so far; None when it is gone."""
        return process_cpu_s(self.pid)

    def _keep(self, lines: list[bytes]) -> None:
        prefix = self.records_prefix.encode()
        said = b"".join(line + b"\n" for line in lines if not (prefix and line.startswith(prefix)))
        self._stdout_tail = (self._stdout_tail + said)[-_TAIL_BYTES:]

    def _still_wanted(self) -> None:
        if self.cancelled.is_set():
            raise StepFailed(f"{self.name} was ended because its step was cancelled")
        if time.monotonic() > self.deadline_monotonic_s:
            raise StepFailed(
                f"{self.name} did not finish within {self.timeout_s:.0f} s",
                evidence=self.last_words(),
                next_step="raise the step's timeout, or look at the server's log for what it waits on",
            )


@contextlib.contextmanager
def started(
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
    """Start a tool; at the end of the block it is gone: asked to terminate, killed after TERMINATE_BOUND_S.

    Where setpriv(1) is there, the kernel also ends the tool when its parent dies.

    Args:
        stdin: a file to read from; nothing if left out.
        stdout: a file to write to; a pipe for `Tool.lines` if left out.
        env: variables added to this process's own.
        records_prefix: starts the lines of stdout that are no messages.

    Raises EnvironmentLacks when the tool is not installed.
    """
    name = Path(argv[0]).name
    guard = shutil.which("setpriv")
    command = [guard, "--pdeathsig", "TERM", "--", *argv] if guard else list(argv)
    require_tool(argv[0])
    with tempfile.TemporaryFile() as stderr:
        process = programs.Popen(
            command,
            stdin=stdin if stdin is not None else subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env={**os.environ, "LC_ALL": "C", **(env or {})},
        )
        try:
            yield Tool(
                name=name,
                process=process,
                deadline_monotonic_s=time.monotonic() + timeout_s,
                timeout_s=timeout_s,
                cancelled=cancelled,
                records_prefix=records_prefix,
                _stderr=stderr,
            )
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(TERMINATE_BOUND_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()


def require_tool(name: str) -> str:
    """The path of a tool. Raises EnvironmentLacks when it is not installed."""
    path = shutil.which(name)
    if path is None:
        raise EnvironmentLacks(
            f"{name} is not installed", next_step=f"install the package that brings {name}; see volbench doctor"
        )
    return path


def tool_version(name: str) -> str:
    """The first line that `NAME --version` prints. Raises EnvironmentLacks."""
    path = require_tool(name)
    try:
        done = programs.run([path, "--version"], capture_output=True, timeout=20, check=False, text=True)
    except subprocess.TimeoutExpired as error:
        raise EnvironmentLacks(f"{name} --version gave no answer in 20 s") from error
    return (done.stdout or done.stderr).strip().partition("\n")[0]


def process_cpu_s(pid: int) -> float | None:
    """User and system CPU seconds of a process with all its threads, from /proc; None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # from the third field on: the name may hold spaces
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def usable_cpus() -> float:
    """CPUs that this process and its children may use: affinity, and the quota of its control group."""
    cpus = float(len(os.sched_getaffinity(0)))
    own = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError, ValueError):  # version 2; its `max` is no number, and no limit
        quota, period = (own / "cpu.max").read_text().split()
        cpus = min(cpus, int(quota) / int(period))
    with contextlib.suppress(OSError, ValueError):  # version 1; -1 is no limit
        quota, period = ((own / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        cpus = min(cpus, int(quota) / int(period)) if int(quota) > 0 else cpus
    return cpus
