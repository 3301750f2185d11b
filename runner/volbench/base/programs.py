"""Programs that volbench starts: `run` and `Popen` of `subprocess`, which also say in the log what became of them.

Standard library only: the set-up uses it before anything is installed. Arguments are logged without secrets, the
environment and what is written to a program's stdin never.
"""

from __future__ import annotations

import logging
import shlex
import subprocess
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from volbench.base.redact import redact

__all__ = ["Popen", "run"]

_log = logging.getLogger(__name__)
_STDERR_CHARACTERS = 500

if TYPE_CHECKING:
    from subprocess import Popen, run
else:

    def run(argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
        """`subprocess.run`, logged with exit code and duration."""
        started_s = time.monotonic()
        try:
            done = subprocess.run(argv, **options)  # noqa: PLW1510 - the caller says what to check
        except BaseException as error:
            _tell(argv, f"{type(error).__name__}", started_s)
            raise
        _tell(argv, f"exit code {done.returncode}", started_s, done.stderr if done.returncode else None)
        return done

    class Popen(subprocess.Popen):
        """`subprocess.Popen`, logged when it starts and when its end is seen."""

        def __init__(self, argv: Sequence[str], **options: Any) -> None:
            self._started_s = time.monotonic()
            self._told = False
            try:
                super().__init__(argv, **options)
            except OSError as error:
                _tell(argv, type(error).__name__, self._started_s)
                raise
            if _log.isEnabledFor(logging.DEBUG):
                _log.debug("started %s as process %d", _shown(argv), self.pid)

        def poll(self) -> int | None:
            """As in `subprocess`."""
            return self._seen(super().poll())

        def wait(self, timeout: float | None = None) -> int:
            """As in `subprocess`."""
            return self._seen(super().wait(timeout))

        def _seen(self, code: int | None) -> int | None:
            if code is not None and not self._told:
                self._told = True
                _tell(self.args, f"process {self.pid}, exit code {code}", self._started_s)
            return code


def _tell(argv: Sequence[str], ended: str, started_s: float, stderr: bytes | str | None = None) -> None:
    if not _log.isEnabledFor(logging.DEBUG):
        return
    text = stderr.decode(errors="replace") if isinstance(stderr, bytes) else stderr or ""
    tail = f": {redact(text.strip()[-_STDERR_CHARACTERS:])}" if text.strip() else ""
    _log.debug("ran %s: %s after %.3f s%s", _shown(argv), ended, time.monotonic() - started_s, tail)


def _shown(argv: Sequence[str]) -> str:
    return redact(shlex.join(str(word) for word in argv))
