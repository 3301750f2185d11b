"""The emulator's daemon: compiled once per content of its sources, kept in the cache, put into .venv."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

from bootstrap.command import run
from bootstrap.console import Console
from bootstrap.places import Places
from volbench.target import image_names, means

CRATE = "runner/emulator"
SOURCES = (f"{CRATE}/Cargo.toml", f"{CRATE}/Cargo.lock", f"{CRATE}/src")
DAEMON = "volbench-volume"
BUILD_LIMIT_S = 1200.0


def is_built(places: Places) -> bool:
    """Whether the daemon of today's sources is in the cache."""
    return _kept(places).exists()


def _kept(places: Places) -> Path:
    return places.cache / "emulator" / image_names.content_hash(places.root, SOURCES, platform.machine()) / DAEMON


def ensure_emulator(places: Places, console: Console) -> Path | None:
    """The daemon in .venv/bin, of today's sources; None where it is not built and cargo is missing.

    Raises EnvironmentLacks with the compiler's last lines when the build fails.
    """
    if not is_built(places) and not means.find_program("cargo").present:
        return None
    kept = _kept(places)
    if not kept.exists():
        console.say("compiling the emulator's daemon, for emulated volumes")
        target = places.cache / "emulator" / "target"
        run(
            ["cargo", "build", "--release", "--locked", "--quiet", f"--manifest-path={places.root / SOURCES[0]}",
             f"--target-dir={target}"],
            log=places.log("emulator"),
            what="compiling the emulator",
            timeout_s=BUILD_LIMIT_S,
        )  # fmt: skip
        _place(target / "release" / DAEMON, kept)
    _place(kept, places.venv / "bin" / DAEMON)
    return places.venv / "bin" / DAEMON


def _place(source: Path, destination: Path) -> None:
    """Copy in one step, so that nobody ever starts half a program."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    beside = destination.with_name(f".{destination.name}.new")
    shutil.copy2(source, beside)
    beside.replace(destination)
