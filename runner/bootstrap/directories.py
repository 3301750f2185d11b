"""The set-up's directories outside the checkout, which later set-ups reuse."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from volbench.core.base import safe_files
from volbench.errors import MissingPrerequisite, Refused

LOCK_LIMIT_S = 1800.0


@dataclass(frozen=True, kw_only=True)
class Directories:
    """The checkout, and this user's directories for state (logs, pid files) and cache."""

    root: Path
    state: Path
    cache: Path

    @property
    def venv(self) -> Path:
        """The Python environment of the checkout."""
        return self.root / ".venv"

    def log(self, name: str) -> Path:
        """Return the log file of one step of the set-up; create its directory."""
        directory = self.state / "logs"
        directory.mkdir(parents=True, exist_ok=True)
        return directory / f"{name}.log"

    @contextmanager
    def locked(self, *, on_wait: Callable[[str], None]) -> Iterator[None]:
        """Lock the set-up of this machine for one process; a second process calls `on_wait` and waits.

        Raises MissingPrerequisite if the other set-up has the lock for too long, Refused if another user made one
        of the directories.
        """
        self._refuse_planted()
        self.state.mkdir(parents=True, exist_ok=True)
        path = self.state / "set-up.lock"
        with os.fdopen(safe_files.open_own(path, os.O_RDWR | os.O_CREAT), "r+", encoding="ascii") as lock:
            limit = time.monotonic() + LOCK_LIMIT_S
            reported = False
            while not _try_lock(lock.fileno()):
                if not reported:
                    on_wait("waiting for another set-up on this machine")
                    reported = True
                if time.monotonic() > limit:
                    raise MissingPrerequisite(
                        what="another set-up does not end", where="set-up", evidence=f"{path} is locked"
                    )
                time.sleep(0.2)
            yield

    def _refuse_planted(self) -> None:
        """Raise Refused where another user could put a program or a download into one of the directories."""
        for directory in (self.root, self.state, self.cache):
            reason = safe_files.planted_entry(directory)
            if reason is not None:
                raise Refused(
                    what="another user has made a directory that the set-up works in",
                    where=str(directory),
                    evidence=reason,
                    next_step="use a checkout and a home of your own (HOME, XDG_CACHE_HOME, XDG_STATE_HOME)",
                )


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def find_directories(environment: Mapping[str, str] = os.environ, *, is_root: bool | None = None) -> Directories:
    """Return the directories by the XDG rules; root's state is under /var/lib."""
    home = Path(environment.get("HOME") or "/root")
    if is_root is None:
        is_root = os.geteuid() == 0
    state_home = Path("/var/lib") if is_root else home / ".local" / "state"
    state = Path(environment.get("XDG_STATE_HOME") or state_home) / "volbench"
    cache = Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "volbench"
    return Directories(root=Path(__file__).resolve().parents[2], state=state, cache=cache)
