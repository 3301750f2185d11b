"""The emulator's daemon: compiled once for each content of its sources, cached, and copied to .venv."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

from bootstrap.command import run
from bootstrap.console import Console
from bootstrap.directories import Directories
from volbench.machine.placement import capabilities
from volbench.machine.placement.docker import image_names

CRATE = "runner/emulator"
SOURCES = (f"{CRATE}/Cargo.toml", f"{CRATE}/Cargo.lock", f"{CRATE}/src")
DAEMON = "volbench-volume"
BUILD_LIMIT_S = 1200.0


def is_built(directories: Directories) -> bool:
    """Return whether the daemon of the current sources is in the cache."""
    return _cached_daemon(directories).exists()


def _cached_daemon(directories: Directories) -> Path:
    return (
        directories.cache
        / "emulator"
        / image_names.content_hash(directories.root, SOURCES, platform.machine())
        / DAEMON
    )


def ensure_emulator(directories: Directories, console: Console) -> Path | None:
    """Return the daemon of the current sources in .venv/bin; None if it is not built and cargo is missing.

    Raises MissingPrerequisite with the compiler's last lines if the build fails.
    """
    if not is_built(directories) and not capabilities.find_program("cargo").present:
        return None
    cached = _cached_daemon(directories)
    if not cached.exists():
        console.say("compiling the emulator's daemon, for emulated volumes")
        target = directories.cache / "emulator" / "target"
        run(
            [
                "cargo",
                "build",
                "--release",
                "--locked",
                "--quiet",
                f"--manifest-path={directories.root / SOURCES[0]}",
                f"--target-dir={target}",
            ],
            log=directories.log("emulator"),
            label="compiling the emulator",
            timeout_s=BUILD_LIMIT_S,
        )
        _install(target / "release" / DAEMON, cached)
    _install(cached, directories.venv / "bin" / DAEMON)
    return directories.venv / "bin" / DAEMON


def _install(source: Path, destination: Path) -> None:
    """Copy atomically, so that no process starts an incomplete program."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    partial = destination.with_name(f".{destination.name}.new")
    shutil.copy2(source, partial)
    partial.replace(destination)
