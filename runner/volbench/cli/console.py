"""Where commands print: results to stdout, everything about the work to stderr."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from rich.console import Console
from rich.markup import escape

from volbench.errors import VolbenchError

out = Console(highlight=False, soft_wrap=True)
_log = logging.getLogger(__name__)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def say(text: str) -> None:
    """A line about the work."""
    _log.info("%s", text)
    err.print(escape(text))


def show_error(error: VolbenchError) -> None:
    """The one message of a failure; the log has where it came from."""
    _log.error("failed with exit code %d", error.exit_code, exc_info=error)
    err.print(f"[bold red]volbench:[/] {escape(str(error))}")


def show_json(value: Any) -> None:
    """A value as JSON on stdout."""
    json.dump(value, sys.stdout, indent=1, default=str)
    sys.stdout.write("\n")


def interactive() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()
