"""The launcher: every program and every process of volbench's own Python is started here.

- It works in `/` unless the caller names a directory, so that nothing of the caller's directory is read or run.
- Its environment is an allow-list (`volbench.core.base.environment`), and its program is found on PATH without
  relative entries.
- It can gain no privileges: a setuid program does not become root, where setpriv(1) is installed (Debian: always).
- A program that reads a stranger's bytes is *confined* (`volbench.core.base.confinement`): another user where this
  is root, no other programs, limits of memory, CPU time, files. Open what it reads, and hand it over: as `stdin`,
  or in `pass_fds` as `/dev/fd/N`.
- The log has its arguments, without secrets, and how it ended; never its environment or its stdin.

    confinement = Confinement(memory_bytes=4 << 30, cpu_s=3600)
    with open_given(dump) as source, programs.Popen(client, stdin=source, confined=confinement) as process:
        process.wait(timeout=3600)

Workers of volbench's own code are in `volbench.core.base.workers`. Standard library only: the set-up uses this
before anything is installed.
"""

from __future__ import annotations

import errno
import logging
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal, overload

from volbench.core.base.confinement import Confinement, has_no_new_privileges
from volbench.core.base.environment import OWN, environment, find_program
from volbench.core.base.python import python_command, python_variables
from volbench.core.base.redact import redact
from volbench.errors import MissingPrerequisite

__all__ = [
    "Confinement",
    "Popen",
    "detach",
    "environment",
    "find_program",
    "python_environment",
    "run",
    "start_python",
]

_log = logging.getLogger(__name__)
KILL_TIMEOUT_S = 5.0
"""A killed program ends at once, unless the kernel waits for a device on its behalf."""
_STDERR_CHARACTERS = 500
_SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
_NO_HOME = "/nonexistent"
_OF_THIS_USER = frozenset({"HOME", "LOGNAME", "TMPDIR", "USER"})

Argument = str | os.PathLike[str]


class Popen(subprocess.Popen[bytes]):
    """`subprocess.Popen`, with the launcher's defaults; logged at its start and at its end.

    Args:
        argv: the program, by name or absolute path, and its arguments. Paths in it are absolute.
        cwd: its working directory; None: `/`.
        env: its environment; None: `environment()`, for a confined program without this user's home.
        confined: bounds, for a program that reads a stranger's bytes; it is killed with the thread that started it.
        parent_death_signal: is sent to it when the thread that started it ends, where setpriv(1) is installed.
        gains_privileges: it starts setuid programs on purpose.
        options: of `subprocess.Popen`.

    Raises OSError as `subprocess.Popen` does, MissingPrerequisite without setpriv(1) and prlimit(1) to confine it.
    """

    def __init__(
        self,
        argv: Sequence[Argument],
        *,
        cwd: Argument | None = None,
        env: Mapping[str, str] | None = None,
        confined: Confinement | None = None,
        parent_death_signal: signal.Signals | None = None,
        gains_privileges: bool = False,
        **options: Any,
    ) -> None:
        self._started_s = time.monotonic()
        self._logged = False
        arguments, command, settings = _prepared(argv, cwd, env, confined, parent_death_signal, gains_privileges)
        options.setdefault("stdin", subprocess.DEVNULL)
        try:
            super().__init__(command, **settings, **options)
        except OSError as error:
            _log_result(arguments, type(error).__name__, self._started_s)
            raise
        self.args = self._argv = arguments
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("started %s as process %d", _command_text(arguments), self.pid)

    def poll(self) -> int | None:
        """Do as `subprocess` does."""
        return self._log_end(super().poll())

    def wait(self, timeout: float | None = None) -> int:
        """Do as `subprocess` does."""
        code = super().wait(timeout)
        self._log_end(code)
        return code

    def end(self, *, grace_s: float = 0.0, group: bool = False) -> bool:
        """End the program, if it runs; return whether it has ended.

        A program that waits for a device that hangs cannot be killed: this waits for it KILL_TIMEOUT_S at most.

        Args:
            grace_s: from SIGTERM to SIGKILL; 0: SIGKILL at once.
            group: the group that it leads ends with it; it was started with `start_new_session`.
        """
        if grace_s > 0:
            self._end_by(signal.SIGTERM, grace_s, group=group)
        self._end_by(signal.SIGKILL, KILL_TIMEOUT_S, group=group)
        return self.returncode is not None

    def _end_by(self, number: signal.Signals, timeout_s: float, *, group: bool) -> None:
        """Send a signal to a program that runs, and wait for its end."""
        if self.poll() is not None:  # afterwards the number may be another program's
            return
        with suppress(ProcessLookupError):
            if group:
                os.killpg(self.pid, number)
            else:
                self.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            self.wait(timeout_s)

    def _log_end(self, code: int | None) -> int | None:
        if code is not None and not self._logged:
            self._logged = True
            _log_result(self._argv, f"process {self.pid}, exit code {code}", self._started_s)
        return code


@overload
def run(argv: Sequence[Argument], *, text: Literal[True], **options: Any) -> subprocess.CompletedProcess[str]: ...
@overload
def run(
    argv: Sequence[Argument], *, text: Literal[False] = ..., **options: Any
) -> subprocess.CompletedProcess[bytes]: ...
def run(
    argv: Sequence[Argument],
    *,
    cwd: Argument | None = None,
    env: Mapping[str, str] | None = None,
    confined: Confinement | None = None,
    parent_death_signal: signal.Signals | None = None,
    gains_privileges: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run a program to its end, as `subprocess.run` does: with the arguments of `Popen`; logged with its duration.

    Raises as `Popen` and `subprocess.run`; ValueError for a confined program without `timeout`.
    """
    if confined is not None and options.get("timeout") is None:
        raise ValueError("a program that reads a stranger's bytes needs a time limit")
    started_s = time.monotonic()
    arguments, command, settings = _prepared(argv, cwd, env, confined, parent_death_signal, gains_privileges)
    if options.get("input") is None:
        options.setdefault("stdin", subprocess.DEVNULL)
    try:
        done = subprocess.run(command, **settings, **options)  # noqa: PLW1510 - the caller decides on check
    except BaseException as error:
        if isinstance(error, (subprocess.TimeoutExpired, subprocess.CalledProcessError)):
            error.cmd = arguments
        _log_result(arguments, f"{type(error).__name__}", started_s)
        raise
    done.args = arguments
    _log_result(arguments, f"exit code {done.returncode}", started_s, done.stderr if done.returncode else None)
    return done


def detach(argv: Sequence[Argument], **options: Any) -> int:
    """Start a program that may outlive this process, in a session of its own; return its process id.

    Args:
        argv: as of `Popen`.
        options: of `Popen`.
    """
    process = Popen(argv, start_new_session=True, **options)
    process.returncode = 0  # nobody waits for it here
    return process.pid


def start_python(*arguments: str, variables: Mapping[str, str] | None = None, **options: Any) -> Popen:
    """Start a Python of ours, such as `start_python("-m", "volbench.observe.process")`; see `core.base.python`.

    Args:
        arguments: of Python; paths in them are absolute.
        variables: added to its environment.
        options: of `Popen`.
    """
    return Popen(python_command(*arguments), env=python_environment(variables), **options)


def python_environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for a command of `python_command`, with these variables added."""
    return {**environment(*OWN), **python_variables(), **(variables or {})}


def _prepared(
    argv: Sequence[Argument],
    cwd: Argument | None,
    env: Mapping[str, str] | None,
    confined: Confinement | None,
    death_signal: signal.Signals | None,
    gains_privileges: bool,
) -> tuple[list[str], list[str], dict[str, Any]]:
    """Return the arguments for the log, the command to execute, and the settings of `subprocess`."""
    arguments = [os.fspath(argument) for argument in argv]
    variables = dict(env) if env is not None else environment()
    if confined is not None and env is None:  # it reads no file of this user's home
        variables = {name: value for name, value in variables.items() if name not in _OF_THIS_USER}
        variables["HOME"] = _NO_HOME
    try:
        program = _program(arguments[0], variables)
    except OSError as error:
        _log_result(arguments, type(error).__name__, time.monotonic())
        raise
    guards = _guards(confined, death_signal, gains_privileges=gains_privileges)
    settings = {"cwd": Path("/" if cwd is None else cwd).absolute(), "env": variables}
    return arguments, [*guards, program, *arguments[1:]], settings


def _program(name: str, variables: Mapping[str, str]) -> str:
    """Return the absolute path of a program. Raise FileNotFoundError, or PermissionError for no program."""
    path = find_program(name, path=variables.get("PATH"))
    if path is not None:
        return path
    kind = errno.EACCES if name.startswith("/") and Path(name).exists() else errno.ENOENT
    raise OSError(kind, os.strerror(kind), name)


def _guards(
    confined: Confinement | None, death_signal: signal.Signals | None, *, gains_privileges: bool
) -> list[str]:
    """Return the commands before a program's: each changes its own process, then becomes the next one."""
    options = [] if gains_privileges or has_no_new_privileges() else ["--no-new-privs"]
    if confined is not None:
        options, death_signal = ["--no-new-privs"], death_signal or signal.SIGKILL
        if confined.user is not None:
            options += ["--reuid", str(confined.user), "--regid", str(confined.user), "--clear-groups"]
    if death_signal is not None:
        options += ["--pdeathsig", death_signal.name.removeprefix("SIG")]
    if not options:
        return []
    setpriv = _system_program("setpriv")
    if confined is None:
        return [setpriv, *options, "--"] if setpriv else []
    prlimit = _system_program("prlimit")
    if setpriv is None or prlimit is None:
        raise MissingPrerequisite(
            "setpriv or prlimit is not installed",
            where="a program that reads files of others",
            evidence=f"neither is looked for outside {_SYSTEM_PATH}",
            next_step="apt-get install util-linux",
        )
    limits = [f"--{name}={value}" for name, value in confined.limits().items()]
    return [setpriv, *options, "--", prlimit, *limits, "--"]


@cache
def _system_program(name: str) -> str | None:
    """Return a program of util-linux; BusyBox's have other options."""
    path = find_program(name, path=_SYSTEM_PATH)
    return path if path is not None and Path(path).resolve().name == name else None


def _log_result(argv: Sequence[str], ended: str, started_s: float, stderr: bytes | str | None = None) -> None:
    if not _log.isEnabledFor(logging.DEBUG):
        return
    text = stderr.decode(errors="replace") if isinstance(stderr, bytes) else stderr or ""
    tail = f": {redact(text.strip()[-_STDERR_CHARACTERS:])}" if text.strip() else ""
    _log.debug("ran %s: %s after %.3f s%s", _command_text(argv), ended, time.monotonic() - started_s, tail)


def _command_text(argv: Sequence[str]) -> str:
    return redact(shlex.join(argv))
