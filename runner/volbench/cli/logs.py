"""The log of `--verbose` and VOLBENCH_LOG: commands, requests, decisions. Only this module configures logging."""

from __future__ import annotations

import logging
import os
import platform
import shlex
import sys
import time
from pathlib import Path

from volbench import __version__
from volbench.core.base import safe_files
from volbench.core.base.redact import redact
from volbench.core.base.text import escape_controls
from volbench.errors import UsageError

VARIABLE = "VOLBENCH_LOG"
GLOBAL_OPTIONS = ("--verbose", "--quiet")
LOGGERS = ("volbench", "urllib3.connectionpool")
"""volbench's own, and requests to engine, cluster and bucket: method, address and status, no headers or bodies."""
_FORMAT = "%(asctime)s.%(msecs)03dZ %(process)d %(levelname)s %(name)s: %(message)s"
_log = logging.getLogger(__name__)


class Redacted(logging.Formatter):
    """Formats a record in UTC with secrets masked and control characters escaped, since it may go to a terminal."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's lines."""
        return escape_controls(redact(super().format(record)))


def set_up(*, verbose: bool) -> None:
    """Log to stderr if `verbose`, and to the file that VOLBENCH_LOG names; without both log nothing.

    Processes that this one starts write to the same file. Raises UsageError when the file cannot be written.
    """
    name = os.environ.get(VARIABLE, "")
    if verbose:
        _add(logging.StreamHandler())
    if name:
        path = Path(name).absolute()
        os.environ[VARIABLE] = str(path)
        _add_file(path)
    if verbose or name:
        system = f"{platform.system()} {platform.release()} {platform.machine()}"
        _log.info("volbench %s, Python %s, %s, in %s", __version__, platform.python_version(), system, Path.cwd())
        _log.info("command: %s", shlex.join(["volbench", *sys.argv[1:]]))


def add_agent_log(path: Path) -> None:
    """Log to a file of the cell's directory, too. Raises UsageError when it cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _add_file(path)


def global_options_first(arguments: list[str]) -> list[str]:
    """Return the command line with options of all commands in front, from anywhere before a `--`."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    selected = [option for option in GLOBAL_OPTIONS if option in arguments[:end]]
    remaining = [argument for argument in arguments[:end] if argument not in GLOBAL_OPTIONS]
    return [*selected, *remaining, *arguments[end:]]


def _add_file(path: Path) -> None:
    try:
        descriptor = safe_files.open_own(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        raise UsageError(
            "the log cannot be written",
            where=f"{VARIABLE}={path}",
            evidence=f"{type(error).__name__}: {error}",
            next_step="name a file of your own in an existing, writable directory",
        ) from error
    _add(logging.StreamHandler(os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")))


def _add(handler: logging.Handler) -> None:
    handler.setFormatter(Redacted(_FORMAT, datefmt="%Y-%m-%dT%H:%M:%S"))
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        logger.addHandler(handler)
