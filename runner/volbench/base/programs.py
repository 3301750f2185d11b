"""Programs that volbench starts: `run` and `Popen` of `subprocess`, which also log how they ended.

Standard library only: the set-up uses this before anything is installed. Arguments are logged without secrets, the
environment and a program's stdin never.
"""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from volbench.base.python import python_command, python_variables
from volbench.base.redact import redact

__all__ = ["Popen", "python_environment", "run", "start_python"]

_log = logging.getLogger(__name__)
_STDERR_CHARACTERS = 500

if TYPE_CHECKING:
    from subprocess import Popen, run
else:

    def run(argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
        """`subprocess.run`, logged with exit code and duration."""
        started_s = time.monotonic()
        try:
            done = subprocess.run(argv, **options)  # noqa: PLW1510 - the caller decides on check
        except BaseException as error:
            _log_result(argv, f"{type(error).__name__}", started_s)
            raise
        _log_result(argv, f"exit code {done.returncode}", started_s, done.stderr if done.returncode else None)
        return done

    class Popen(subprocess.Popen):
        """`subprocess.Popen`, logged at its start and at its end."""

        def __init__(self, argv: Sequence[str], **options: Any) -> None:
            self._started_s = time.monotonic()
            self._logged = False
            try:
                super().__init__(argv, **options)
            except OSError as error:
                _log_result(argv, type(error).__name__, self._started_s)
                raise
            if _log.isEnabledFor(logging.DEBUG):
                _log.debug("started %s as process %d", _command_text(argv), self.pid)

        def poll(self) -> int | None:
            """As in `subprocess`."""
            return self._log_end(super().poll())

        def wait(self, timeout: float | None = None) -> int:
            """As in `subprocess`."""
            return self._log_end(super().wait(timeout))

        def _log_end(self, code: int | None) -> int | None:
            if code is not None and not self._logged:
                self._logged = True
                _log_result(self.args, f"process {self.pid}, exit code {code}", self._started_s)
            return code


def start_python(
    *arguments: str, variables: Mapping[str, str] | None = None, cwd: str = "/", **options: Any
) -> subprocess.Popen[bytes]:
    """Start a Python of ours, such as `start_python("-m", "volbench.sample.process")`; see `volbench.base.python`.

    Args:
        arguments: of Python.
        variables: added to its environment.
        cwd: its working directory; paths among the arguments are absolute.
        options: of `Popen`.
    """
    return Popen(python_command(*arguments), cwd=cwd, env=python_environment(variables), **options)


def python_environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for a command of `python_command`, with these variables added."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**inherited, **python_variables(), **(variables or {})}


def _log_result(argv: Sequence[str], ended: str, started_s: float, stderr: bytes | str | None = None) -> None:
    if not _log.isEnabledFor(logging.DEBUG):
        return
    text = stderr.decode(errors="replace") if isinstance(stderr, bytes) else stderr or ""
    tail = f": {redact(text.strip()[-_STDERR_CHARACTERS:])}" if text.strip() else ""
    _log.debug("ran %s: %s after %.3f s%s", _command_text(argv), ended, time.monotonic() - started_s, tail)


def _command_text(argv: Sequence[str]) -> str:
    return redact(shlex.join(str(argument) for argument in argv))
