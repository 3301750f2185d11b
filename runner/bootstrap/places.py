"""Where the set-up keeps things: outside the checkout, found again by the next one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Places:
    """The checkout, and this user's directories for state (logs, pid files) and for what can be made again."""

    root: Path
    state: Path
    cache: Path

    @property
    def venv(self) -> Path:
        """The Python environment of the checkout."""
        return self.root / ".venv"

    def log(self, name: str) -> Path:
        """The log file of one step of the set-up; its directory is made."""
        directory = self.state / "logs"
        directory.mkdir(parents=True, exist_ok=True)
        return directory / f"{name}.log"


def find_places(environment: Mapping[str, str] = os.environ, *, is_root: bool | None = None) -> Places:
    """Places by the XDG rules; root's state is the machine's, under /var/lib."""
    home = Path(environment.get("HOME") or "/root")
    if is_root is None:
        is_root = os.geteuid() == 0
    state_home = Path("/var/lib") if is_root else home / ".local" / "state"
    state = Path(environment.get("XDG_STATE_HOME") or state_home) / "volbench"
    cache = Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "volbench"
    return Places(root=Path(__file__).resolve().parents[2], state=state, cache=cache)
