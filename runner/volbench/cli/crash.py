"""Reports a fault of volbench itself: one message, and a file for a bug report without secrets."""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from volbench import __version__
from volbench.core.base.redact import redact
from volbench.errors import Crashed, VolbenchError
from volbench.machine.placement.attach import without_password

_SECRET = re.compile(r"(?i)passw|pwd|secret|token|key")
_VALUE = re.compile(r"(?i)((?:passw\w*|pwd|secret\w*|\w*token|\w*key)[\"']?\s*[=:]\s*)\S+")
_DSN = re.compile(r"\w*sql\w*:/\S+|://[^/\s]*:[^\s]*@\S*")
_DIRECTORIES = frozenset({"PWD", "OLDPWD"})
"""The shell's working directories, with which paths of a traceback begin: no passwords."""
_SECRET_CHARACTERS_MIN = 4


def crashed(error: BaseException, arguments: Sequence[str]) -> VolbenchError:
    """Return the error to show for an unexpected exception; write the file for a bug report, mode 0600."""
    text = report_text(error, arguments, os.environ)
    try:
        descriptor, path = tempfile.mkstemp(prefix="volbench-crash-", suffix=".txt")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        next_step = f"report the fault with the file {path}; read the file first: it has names of files and hosts"
    except OSError as refusal:
        next_step = f"volbench could not write a file for a bug report ({refusal.strerror}); set TMPDIR and retry"
    location = _last_own_line(error)
    evidence = without_secrets(f"{type(error).__name__}: {error}"[:300], os.environ)
    failure = Crashed("this is a fault of volbench", where=location, evidence=evidence, next_step=next_step)
    failure.__cause__ = error  # so that the log has the traceback
    return failure


def report_text(error: BaseException, arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return versions, the command without secrets, and the traceback without values of variables."""
    command = " ".join(_argument(previous, argument) for previous, argument in _with_previous(arguments))
    lines = [
        f"volbench {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"at {datetime.now(UTC).isoformat(timespec='seconds')}",
        f"command: volbench {command}",
        "",
        *traceback.format_exception(error),
    ]
    return without_secrets("\n".join(lines), environment)


def without_secrets(text: str, environment: Mapping[str, str]) -> str:
    """Return the text without values of secret environment variables, DSNs, and named passwords."""
    for name, value in environment.items():
        if name not in _DIRECTORIES and _SECRET.search(name) and len(value) >= _SECRET_CHARACTERS_MIN:
            text = text.replace(value, "***")
    return redact(_VALUE.sub(r"\1***", _DSN.sub(lambda match: without_password(match[0]), text)), environment)


def _with_previous(arguments: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(["", *arguments], arguments, strict=False))


def _argument(previous: str, argument: str) -> str:
    return "***" if previous.startswith("--") and _SECRET.search(previous) else without_password(argument)


def _last_own_line(error: BaseException) -> str:
    package = f"{Path(__file__).parents[1]}{os.sep}"
    own_frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(package)
    ]
    return f"{own_frames[-1].filename.removeprefix(package)}:{own_frames[-1].lineno}" if own_frames else sys.argv[0]
