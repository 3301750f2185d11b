"""The bare machine's cgroups: one directory in each hierarchy, below which everything of it stays."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

REMOVE_LIMIT_S = 30.0


def hierarchies(mounts: str) -> list[Path]:
    """Mount points of cgroup hierarchies in the text of /proc/mounts, version 1 and 2."""
    lines = [line.split() for line in mounts.splitlines()]
    return [Path(fields[1]) for fields in lines if fields[2] in {"cgroup", "cgroup2"}]


@dataclass(kw_only=True)
class CgroupTree:
    """A context in which a cgroup of this name exists in every hierarchy."""

    name: str
    directories: list[Path] = field(default_factory=list)

    def __enter__(self) -> CgroupTree:
        """Make the directories, with the CPUs and memory nodes of their parents."""
        for hierarchy in hierarchies(Path("/proc/mounts").read_text()):
            directory = hierarchy / self.name
            directory.mkdir()
            self.directories.append(directory)
            for name in ("cpuset.cpus", "cpuset.mems"):
                with contextlib.suppress(OSError):
                    (directory / name).write_text((hierarchy / name).read_text())
        return self

    def enter(self) -> None:
        """Move the calling process into the tree; called between fork and exec."""
        for directory in self.directories:
            (directory / "cgroup.procs").write_text(str(os.getpid()))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        limit = time.monotonic() + REMOVE_LIMIT_S
        for directory in self.directories:
            for path in sorted(directory.rglob("*"), key=lambda path: len(path.parts), reverse=True):
                if path.is_dir():
                    _remove(path, limit)
            _remove(directory, limit)


def _remove(directory: Path, limit: float) -> None:
    """Remove an empty cgroup; a process that ends a moment later is waited for."""
    while True:
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > limit:
                return
            time.sleep(0.05)
        else:
            return
