"""What only tests need: a browser, a second shell, a filesystem, the emulator. Their lack skips tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from bootstrap import emulator
from bootstrap.console import Console
from bootstrap.packages import Need, install, program
from bootstrap.places import Places
from volbench.errors import EnvironmentLacks, Refused
from volbench.target import means

BROWSER = Need(
    met=lambda: means.chromium().present,
    packages=("chromium", "chromium-browser"),
    why="the tests open the HTML report in it",
)
SMALL_TOOLS = (
    program("busybox", "busybox", "busybox-static", why="the supervisor's script is tried in its shell too"),
    program("mkfs.xfs", "xfsprogs", why="volumes with XFS are tried too"),
    program("losetup", "mount", why="volumes on loop devices are tried too"),
)
COMPILER = (
    program("cargo", "cargo-web", "cargo", why="builds the emulator"),  # cargo-web: a stable Debian's newest
    program("cc", "gcc", why="links the emulator"),
    Need(met=Path("/usr/include/stdio.h").exists, packages=("libc6-dev",), why="links the emulator"),
)


def try_extras(places: Places, console: Console) -> None:
    """Install what is missing; where that fails, say so and go on."""
    has_emulator = (places.root / emulator.SOURCES[0]).is_file()
    for needs in ((BROWSER,), SMALL_TOOLS, COMPILER if has_emulator else ()):
        _try(partial(install, needs, places, console), console)
    _try(partial(emulator.ensure_emulator, places, console), console)


def _try(step: Callable[[], object], console: Console) -> None:
    try:
        step()
    except (EnvironmentLacks, Refused) as lack:
        console.say(f"some tests will be skipped:\n{lack}")
