"""What only tests need: a browser for the HTML report, a Rust compiler for the emulator. Their lack skips tests."""

from __future__ import annotations

from pathlib import Path

from bootstrap.console import Console
from bootstrap.packages import Need, install, program
from bootstrap.places import Places
from volbench.errors import EnvironmentLacks
from volbench.target import means

BROWSER = Need(
    met=lambda: means.chromium().present,
    packages=("chromium", "chromium-browser"),
    why="the tests open the HTML report in it",
)
COMPILER = (
    program("cargo", "cargo-web", "cargo", why="builds the emulator"),  # cargo-web: a stable Debian's newest
    program("cc", "gcc", why="links the emulator"),
    Need(met=Path("/usr/include/stdio.h").exists, packages=("libc6-dev",), why="links the emulator"),
)


def try_extras(places: Places, console: Console) -> None:
    """Install what is missing; where that fails, say so and go on."""
    compiler = COMPILER if (places.root / "runner" / "emulator" / "Cargo.toml").is_file() else ()
    for needs in ((BROWSER,), compiler):
        try:
            install(needs, places, console)
        except EnvironmentLacks as lack:
            console.say(f"some tests will be skipped:\n{lack}")
