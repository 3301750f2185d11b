"""Messages and the confirmation prompt of the set-up."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from volbench.core.base.text import escape_controls
from volbench.errors import Refused


def consents_by_itself(environment: Mapping[str, str], *, terminal: bool) -> bool:
    """Return whether the prompt is skipped: `YES=1`, or no terminal."""
    return environment.get("YES", "") not in {"", "0"} or not terminal


@dataclass(frozen=True, kw_only=True)
class Console:
    """Lines on stdout, each with the seconds since the set-up began."""

    yes: bool
    began: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """Print one line."""
        print(f"[{time.monotonic() - self.began:5.1f} s] {escape_controls(text)}", flush=True)

    def consent(self, action: str, reason: str) -> None:
        """Announce an action with its reason, and ask for consent unless `yes`; raise Refused if it is denied."""
        self.say(f"{action}: {reason}")
        if self.yes:
            return
        answer = input("           Continue? [Y/n] ").strip().lower()
        if answer not in {"", "y", "yes"}:
            raise Refused(what=f"declined: {action}", next_step="YES=1 answers yes to all prompts")


def open_console(environment: Mapping[str, str] = os.environ) -> Console:
    """The console of this process."""
    return Console(yes=consents_by_itself(environment, terminal=sys.stdin is not None and sys.stdin.isatty()))
