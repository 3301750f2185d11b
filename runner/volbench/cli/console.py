"""Where commands print: results to stdout, messages about the work to stderr.

File names, host names, servers' messages and SQL come from outside. Only this module escapes them: nothing in them
is markup, and control characters are shown as escapes such as \\x1b.
"""

from __future__ import annotations

import json
import logging
import sys
import unicodedata
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from volbench.errors import VolbenchError

_CONTROL_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of characters that control a terminal or are invisible: controls (also C1), formats (also
those that change the direction of writing), halves of surrogates, line and paragraph separators."""


def escape_controls(text: str) -> str:
    """Return the text with control characters as escapes; line breaks and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode()
        if character not in "\n\t" and unicodedata.category(character) in _CONTROL_CATEGORIES
        else character
        for character in text
    )


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
    """Print the message of a failure; the log has its traceback."""
    _log.error("failed with exit code %d", error.exit_code, exc_info=error)
    err.print(Text.assemble(("volbench:", "bold red"), " ", str(error)))


def show_json(value: Any) -> None:
    """Print a value as JSON on stdout."""
    json.dump(value, sys.stdout, indent=1, default=str)
    sys.stdout.write("\n")


def show_text(text: str) -> None:
    """Print a file's content on stdout: unchanged, but with escaped control characters on a terminal."""
    sys.stdout.write(escape_controls(text) if sys.stdout.isatty() else text)


def typed_command() -> list[str]:
    """Return the command line of this process, as a run's record and its report show it."""
    return ["volbench", *sys.argv[1:]]


def interactive() -> bool:
    """Return whether stdin and stderr are terminals, so that a prompt is possible."""
    return sys.stdin.isatty() and sys.stderr.isatty()
