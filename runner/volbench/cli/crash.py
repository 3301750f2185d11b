"""What is left of a fault of volbench itself: one message, and a file for a bug report without secrets."""

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
from volbench.base.redact import redact
from volbench.errors import Crashed, VolbenchError
from volbench.placement.attach import without_password

_SECRET = re.compile(r"(?i)passw|pwd|secret|token|key")
_VALUE = re.compile(r"(?i)((?:passw\w*|pwd|secret\w*|\w*token|\w*key)[\"']?\s*[=:]\s*)\S+")
_DSN = re.compile(r"\w*sql\w*:/\S+|://[^/\s]*:[^\s]*@\S*")
_SECRET_CHARACTERS_MIN = 4


def crashed(error: BaseException, arguments: Sequence[str]) -> VolbenchError:
    """The error to show for an exception that nobody expected; writes the file, mode 0600."""
    text = report_text(error, arguments, os.environ)
    try:
        descriptor, path = tempfile.mkstemp(prefix="volbench-crash-", suffix=".txt")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        next_step = f"report it with the file {path}, after you have read it: names of files and hosts are in it"
    except OSError as refusal:
        next_step = f"no file for a bug report could be written ({refusal.strerror}); set TMPDIR and try again"
    place = _last_line_of_ours(error)
    words = without_secrets(f"{type(error).__name__}: {error}"[:300], os.environ)
    failure = Crashed("this is a fault of volbench", where=place, evidence=words, next_step=next_step)
    failure.__cause__ = error  # so that the log has the traceback
    return failure


def report_text(error: BaseException, arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Versions, the command without secrets, and the traceback without values of variables."""
    lines = [
        f"volbench {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"at {datetime.now(UTC).isoformat(timespec='seconds')}",
        f"command: volbench {' '.join(_argument(before, one) for before, one in _with_the_one_before(arguments))}",
        "",
        *traceback.format_exception(error),
    ]
    return without_secrets("\n".join(lines), environment)


def without_secrets(text: str, environment: Mapping[str, str]) -> str:
    """The text without values of environment variables that hold secrets, DSNs, and what is called a password."""
    for name, value in environment.items():
        if _SECRET.search(name) and len(value) >= _SECRET_CHARACTERS_MIN:
            text = text.replace(value, "***")
    return redact(_VALUE.sub(r"\1***", _DSN.sub(lambda found: without_password(found[0]), text)), environment)


def _with_the_one_before(arguments: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(["", *arguments], arguments, strict=False))


def _argument(before: str, argument: str) -> str:
    return "***" if before.startswith("--") and _SECRET.search(before) else without_password(argument)


def _last_line_of_ours(error: BaseException) -> str:
    package = f"{Path(__file__).parents[1]}{os.sep}"
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(package)]
    return f"{ours[-1].filename.removeprefix(package)}:{ours[-1].lineno}" if ours else sys.argv[0]
