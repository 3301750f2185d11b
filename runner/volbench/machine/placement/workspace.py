"""Directories of a run outside its results: control and scratch directories, and the template cache."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from volbench.core.base import ownership
from volbench.core.base.confinement import may_mount


def default_cache() -> Path:
    """Return `$VOLBENCH_CACHE`, else `$XDG_CACHE_HOME/volbench`, else `~/.cache/volbench`.

    For a root who may make no mount namespace `/var/cache/volbench`: the user of its servers may not enter /root.
    """
    named = os.environ.get("VOLBENCH_CACHE")
    if named:
        return Path(named)
    if os.geteuid() == 0 and not may_mount():
        return Path("/var/cache/volbench")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "volbench"


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """Directories for everything but results. Names are short: a Unix socket's path has at most 107 bytes."""

    run_id: str
    cache: Path

    @property
    def short_id(self) -> str:
        """The random part of the run's id."""
        return self.run_id.rsplit("-", 1)[-1]

    @property
    def templates(self) -> Path:
        """The cache of dataset templates, shared by all runs."""
        return self.cache / "templates"

    @property
    def volume_folder(self) -> str:
        """Name of the run's directory on each volume."""
        return f"volbench-{self.short_id}"

    def control_dir(self, cell_id: str) -> Path:
        """Return the cell's control directory: my.cnf, socket, supervisor."""
        return Path(tempfile.gettempdir()) / f"volbench-{self.short_id}-{cell_id}"

    def scratch_dir(self, cell_id: str) -> Path:
        """Return the cell's scratch directory, on the machine's own disk."""
        return self.cache / "scratch" / f"{self.short_id}-{cell_id}"

    def own_dir(self, cell_id: str) -> Path:
        """Return the cell's copies of the user's files that the server's user may not read.

        No cell's name begins so.
        """
        return self.cache / "scratch" / f"{self.short_id}-own-{cell_id}"

    def claim(self, directory: Path, *, mode: int = 0o700) -> Path:
        """Create a marked directory, or take a marked one. Raise Refused for other directories."""
        directory.parent.mkdir(parents=True, exist_ok=True)
        ownership.claim(directory, purpose="run", run_id=self.run_id, mode=mode)
        return directory

    def leftovers(self) -> list[Path]:
        """Return existing control and scratch directories of this run."""
        control = Path(tempfile.gettempdir()).glob(f"volbench-{self.short_id}-*")
        scratch = (self.cache / "scratch").glob(f"{self.short_id}-*")
        return [path for path in (*control, *scratch) if ownership.is_owned(path)]
