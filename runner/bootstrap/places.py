"""Where the set-up keeps things: outside the checkout, found again by the next one."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from volbench.errors import EnvironmentLacks

HELD_LIMIT_S = 1800.0


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

    @contextmanager
    def held(self, *, on_wait: Callable[[str], None]) -> Iterator[None]:
        """Hold the set-up of this machine for one process; a second one waits, and says so by `on_wait`.

        Raises EnvironmentLacks when the other set-up holds it longer than any set-up should.
        """
        self.state.mkdir(parents=True, exist_ok=True)
        with (self.state / "set-up.lock").open("w", encoding="ascii") as lock:
            limit = time.monotonic() + HELD_LIMIT_S
            said = False
            while not _try_lock(lock.fileno()):
                if not said:
                    on_wait("another set-up works on this machine; waiting for it")
                    said = True
                if time.monotonic() > limit:
                    raise EnvironmentLacks(
                        what="another set-up does not end", where="set-up", evidence=f"it holds {lock.name}"
                    )
                time.sleep(0.2)
            yield


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def find_places(environment: Mapping[str, str] = os.environ, *, is_root: bool | None = None) -> Places:
    """Places by the XDG rules; root's state is the machine's, under /var/lib."""
    home = Path(environment.get("HOME") or "/root")
    if is_root is None:
        is_root = os.geteuid() == 0
    state_home = Path("/var/lib") if is_root else home / ".local" / "state"
    state = Path(environment.get("XDG_STATE_HOME") or state_home) / "volbench"
    cache = Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "volbench"
    return Places(root=Path(__file__).resolve().parents[2], state=state, cache=cache)
