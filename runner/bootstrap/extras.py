"""What a run can do without: the emulator, and for the tests a browser, a second shell, a filesystem."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from bootstrap import emulator, posix_suites
from bootstrap.console import Console
from bootstrap.local import LOCAL_NEEDS
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
#: What only tests need, in groups that stand or fall together.
TEST_TOOLS: tuple[tuple[Need, ...], ...] = (
    SMALL_TOOLS,
    LOCAL_NEEDS,
    (program("mariadb-backup", why="physical backups are tried with it"),),
    (program("mydumper", why="parallel dumps are tried with it"),),
    (program("fio", why="probes are tried with it"),),
    (program("pt-upgrade", "percona-toolkit", why="validation is tried with its tools"),),
    (program("docker-compose", why="the compose files are tried with it"),),
    (program("setpriv", "util-linux", why="tests run as another user by it"),),
    (
        BROWSER,
        Need(
            met=lambda: any(Path("/usr/lib").glob("*/libatomic.so.1")) or Path("/usr/lib/libatomic.so.1").exists(),
            packages=("libatomic1",),
            why="the browser's driver needs it",
        ),
    ),
)

DEMO_EMULATED = "gp3=emulated:ebs-gp3"
DEMO_IN_MEMORY = "memory=path:/dev/shm/volbench-demo"


def try_test_tools(places: Places, console: Console) -> None:
    """Install what tests use in one go; where that fails, group by group, so that one lack costs no other."""
    try:
        install([need for group in TEST_TOOLS for need in group], places, console)
    except (EnvironmentLacks, Refused):
        for group in TEST_TOOLS:
            _try(partial(install, group, places, console), console, "some tests will be skipped")


def try_posix_suites(places: Places, console: Console) -> None:
    """Compile fsx and pjdfstest where emulated volumes can be mounted; where that fails, say so and go on."""
    if not means.lacks_for_emulation():
        _try(partial(posix_suites.ensure_posix_suites, places, console), console, "some tests will be skipped")


def try_compiler(places: Places, console: Console) -> None:
    """Install what makes emulated volumes, and what compiles their daemon, where this kernel can run it."""
    if not means.lacks_for_emulation():
        compiler = () if emulator.is_built(places) else COMPILER
        _try(partial(install, (*compiler, *SMALL_TOOLS[1:]), places, console), console, "no emulated volumes")


def try_emulator(places: Places, console: Console) -> None:
    """Build the emulator's daemon; where that fails, say so and go on."""
    _try(partial(emulator.ensure_emulator, places, console), console, "no emulated volumes")


def second_demo_volume(places: Places) -> str:
    """The volume that the demo compares a directory with: an emulated gp3, memory where there is no emulator."""
    there = means.fuse_and_loop().present and emulator.is_built(places)
    return DEMO_EMULATED if there else DEMO_IN_MEMORY


def _try(step: Callable[[], object], console: Console, without: str) -> None:
    try:
        step()
    except (EnvironmentLacks, Refused) as lack:
        console.say(f"{without}:\n{lack}")
