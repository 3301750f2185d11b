"""fsx and pjdfstest, two public test suites for file systems, compiled for the tests of emulated volumes."""

from __future__ import annotations

import os
from pathlib import Path

from bootstrap.command import run
from bootstrap.console import Console
from bootstrap.directories import Directories
from volbench.placement import capabilities

CRATES = ("fsx@0.3.2", "pjdfstest@0.2.2")
PROGRAMS = ("fsx", "pjdfstest")
BUILD_LIMIT_S = 1200.0


def is_built(directories: Directories) -> bool:
    """Whether both programs are in the cache."""
    return all(os.access(_directory(directories) / "bin" / name, os.X_OK) for name in PROGRAMS)


def ensure_posix_suites(directories: Directories, console: Console) -> None:
    """Compile both programs into the cache; nothing is done where they are there, or where cargo is missing.

    Raises EnvironmentLacks with the compiler's last lines when the build fails.
    """
    if is_built(directories) or not capabilities.find_program("cargo").present:
        return
    console.say(f"compiling {' and '.join(CRATES)}, for the tests of emulated volumes")
    run(
        ["cargo", "install", "--locked", "--quiet", f"--root={_directory(directories)}", *CRATES],
        log=directories.log("posix-suites"),
        label=f"compiling {' and '.join(CRATES)}",
        timeout_s=BUILD_LIMIT_S,
    )


def _directory(directories: Directories) -> Path:
    return directories.cache / "posix-suites"
