"""Where commands print: results to stdout, everything about the work to stderr.

File names, host names, servers' messages and SQL come from outside. Here, and only here, they are made harmless:
nothing in them is markup, and characters that a terminal obeys are shown as escapes such as \\x1b.
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

_OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of what a terminal obeys or does not show: controls (also C1), formats (also those that turn
the direction of writing), halves of surrogates, line and paragraph separators."""


def harmless(text: str) -> str:
    """The text with every such character shown as its escape; line breaks and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode()
        if character not in "\n\t" and unicodedata.category(character) in _OBEYED
        else character
        for character in text
    )


class HarmlessConsole(Console):
    """A console for text from outside; styles come by Text objects of our own."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """All that is printed comes through here, also tables and progress."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(harmless(segment.text), segment.style)


_log = logging.getLogger(__name__)
out = HarmlessConsole(highlight=False, soft_wrap=True, markup=False)
err = HarmlessConsole(stderr=True, highlight=False, soft_wrap=True, markup=False)


def say(text: str) -> None:
    """A line about the work."""
    _log.info("%s", text)
    err.print(text)


def show_error(error: VolbenchError) -> None:
    """The one message of a failure; the log has where it came from."""
    _log.error("failed with exit code %d", error.exit_code, exc_info=error)
    err.print(Text.assemble(("volbench:", "bold red"), " ", str(error)))


def show_json(value: Any) -> None:
    """A value as JSON on stdout."""
    json.dump(value, sys.stdout, indent=1, default=str)
    sys.stdout.write("\n")


def show_text(text: str) -> None:
    """A file's content on stdout: as it is, but for a terminal, which would obey what is in it."""
    sys.stdout.write(harmless(text) if sys.stdout.isatty() else text)


def interactive() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()
