"""Where commands print: results to stdout, messages about the work to stderr.

File names, host names, servers' messages and SQL come from outside. Only this module escapes them: nothing in them
is markup, and control characters are shown as escapes such as \\x1b.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from volbench.core.base.text import escape_controls
from volbench.errors import VolbenchError


class SafeConsole(Console):
    """A console for text from outside; only Text objects set styles."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield escaped segments; everything printed passes here, also tables and progress."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escape_controls(segment.text), segment.style)


_log = logging.getLogger(__name__)
out = SafeConsole(highlight=False, soft_wrap=True, markup=False)
err = SafeConsole(stderr=True, highlight=False, soft_wrap=True, markup=False)
messages = SafeConsole(stderr=True, highlight=False, soft_wrap=True, markup=False)
"""About the work: silent with `--quiet`, as errors never are."""


def say(text: str) -> None:
    """Print a line about the work on stderr, unless `--quiet` was given, and log it."""
    _log.info("%s", text)
    messages.print(text)


def show_error(error: VolbenchError) -> None:
    """Print the message of a failure; the log has its traceback. If stderr takes nothing, the exit code tells."""
    _log.error("failed with exit code %d", error.exit_code, exc_info=error)
    with suppress(OSError):
        err.print(Text.assemble(("volbench:", "bold red"), " ", str(error)))


def discard_output() -> None:
    """Drop what stdout and stderr did not take: the interpreter would try again, and end with another exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError), open(os.devnull, "wb") as nothing:  # noqa: PTH123 - a descriptor
                os.dup2(nothing.fileno(), stream.fileno())


def show_json(value: Any) -> None:
    """Print a value as JSON on stdout; null for a number that is not finite."""
    try:
        text = json.dumps(value, indent=1, default=str, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), indent=1, default=str)
    sys.stdout.write(f"{text}\n")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def show_text(text: str) -> None:
    """Print a file's content on stdout: unchanged, but with escaped control characters on a terminal."""
    sys.stdout.write(escape_controls(text) if sys.stdout.isatty() else text)


def typed_command() -> list[str]:
    """Return the command line of this process, as a run's record and its report show it."""
    return ["volbench", *sys.argv[1:]]


def interactive() -> bool:
    """Return whether stdin and stderr are terminals, so that a prompt is possible."""
    return sys.stdin.isatty() and sys.stderr.isatty()
