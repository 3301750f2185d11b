"""The SQL lexer's library: compiled once for each content of its sources, cached, and copied into the package."""

from __future__ import annotations

import filecmp
import os
import platform
import shutil
import tempfile
from pathlib import Path

from bootstrap.command import run
from bootstrap.console import Console
from bootstrap.directories import Directories
from volbench.errors import MissingPrerequisite
from volbench.machine.placement import capabilities
from volbench.machine.placement.docker import image_names

CRATE = "runner/lexer"
SOURCES = (f"{CRATE}/Cargo.toml", f"{CRATE}/Cargo.lock", f"{CRATE}/src")
LIBRARY = "libvolbench_lexer.so"
PACKAGE = "runner/volbench/core/sql"
BUILD_LIMIT_S = 600.0


def cached_library(directories: Directories) -> Path:
    """Return where the library of the current sources is, or will be."""
    content = image_names.content_hash(directories.root, SOURCES, platform.machine())
    return directories.cache / "lexer" / content / LIBRARY


def ensure_lexer(directories: Directories, console: Console) -> Path:
    """Return the library of the current sources in the package, where the tools image takes it from too.

    Raises MissingPrerequisite with the compiler's last lines if the build fails, or without a compiler.
    """
    cached = cached_library(directories)
    if not cached.exists():
        if not capabilities.find_program("cargo").present:
            raise MissingPrerequisite(
                what="the SQL lexer cannot be compiled",
                where=CRATE,
                evidence="there is no cargo",
                next_step="install cargo 1.70 or newer, for example Debian's cargo-web or cargo, and gcc",
            )
        console.say("compiling the SQL lexer, for observation, validation and replays")
        cached.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix="target-", dir=cached.parent
        ) as target:  # checkouts share the cache
            run(
                [
                    "cargo",
                    "build",
                    "--release",
                    "--locked",
                    "--offline",
                    "--quiet",
                    f"--manifest-path={directories.root / SOURCES[0]}",
                    f"--target-dir={target}",
                ],
                log=directories.log("lexer"),
                label="compiling the SQL lexer",
                timeout_s=BUILD_LIMIT_S,
            )
            _install(Path(target) / "release" / LIBRARY, cached)
    library = directories.root / PACKAGE / LIBRARY
    if not library.exists() or not filecmp.cmp(cached, library, shallow=False):
        _install(cached, library)
    return library


def _install(source: Path, destination: Path) -> None:
    """Copy atomically, so that no process loads an incomplete library, and one that has it keeps the old one."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    partial = destination.with_name(f".{destination.name}.{os.getpid()}")
    shutil.copy2(source, partial)
    partial.replace(destination)
