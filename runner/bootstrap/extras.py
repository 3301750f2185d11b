"""Optional parts: the emulator, the SQL lexer, and for the tests a browser, a second shell, a filesystem."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from bootstrap import emulator, lexer, posix_suites
from bootstrap.console import Console
from bootstrap.directories import Directories
from bootstrap.local import LOCAL_NEEDS
from bootstrap.packages import Need, install, program
from volbench.errors import MissingPrerequisite, Refused
from volbench.machine.placement import capabilities

BROWSER = Need(
    met=lambda: capabilities.chromium().present,
    packages=("chromium", "chromium-browser"),
    reason="the tests open the HTML report in it",
)
SMALL_TOOLS = (
    program("busybox", "busybox", "busybox-static", reason="the supervisor's script is tried in its shell too"),
    program("mkfs.xfs", "xfsprogs", reason="volumes with XFS are tried too"),
    program("mkfs.ext4", "e2fsprogs", reason="volumes with ext4 are tried too"),
    program("losetup", "mount", reason="volumes on loop devices are tried too"),
)
COMPILER = (
    program(
        "cargo", "cargo-web", "cargo", reason="builds the emulator and the SQL lexer"
    ),  # cargo-web: a stable Debian's newest
    program("cc", "gcc", reason="links them"),
    Need(met=Path("/usr/include/stdio.h").exists, packages=("libc6-dev",), reason="links them"),
)
#: Programs that only tests need; each group is installed completely or not at all.
TEST_TOOLS: tuple[tuple[Need, ...], ...] = (
    SMALL_TOOLS,
    LOCAL_NEEDS,
    (program("mariadb-backup", reason="physical backups are tried with it"),),
    (program("mydumper", reason="parallel dumps are tried with it"),),
    (program("fio", reason="probes are tried with it"),),
    (program("sar", "sysstat", reason="the lab records sar and iostat during its runs"),),
    (program("pt-upgrade", "percona-toolkit", reason="validation is tried with its tools"),),
    (program("docker-compose", reason="the compose files are tried with it"),),
    (program("setpriv", "util-linux", reason="tests run as another user by it"),),
    (
        BROWSER,
        Need(
            met=lambda: any(Path("/usr/lib").glob("*/libatomic.so.1")) or Path("/usr/lib/libatomic.so.1").exists(),
            packages=("libatomic1",),
            reason="the browser's driver needs it",
        ),
    ),
)

LAB_TOOLS = (
    program("rsync", reason="the lab of causes copies files while the server runs"),
    program("nbdkit", reason="the lab slows a volume down with it"),
    Need(
        met=lambda: Path("/usr/include/nbdkit-plugin.h").exists(),
        packages=("nbdkit-plugin-dev",),
        reason="the lab compiles its shapes of volumes against it",
    ),
    program("nbdfuse", "libnbd-bin", reason="the lab mounts such a volume"),
    program("bindfs", reason="the lab delays a file system with it"),
    program("iptables", reason="the lab drops packets with it"),
    program("cc", "gcc", reason="compiles the delays of the lab's file system"),
    program("go", "golang-go", reason="compiles toxiproxy, which delays the network"),
)

DEMO_EMULATED = "gp3=emulated:ebs-gp3"
DEMO_IN_MEMORY = "memory=path:/dev/shm/volbench-demo"


def try_test_tools(directories: Directories, console: Console) -> None:
    """Install the tests' programs at once; if that fails, group by group, so that groups fail separately."""
    try:
        install([need for group in TEST_TOOLS for need in group], directories, console)
    except (MissingPrerequisite, Refused):
        for group in TEST_TOOLS:
            _try(partial(install, group, directories, console), console, "some tests will be skipped")


def try_posix_suites(directories: Directories, console: Console) -> None:
    """Compile fsx and pjdfstest if emulated volumes can be mounted; print a failure and continue."""
    if not capabilities.lacks_for_emulation():
        _try(partial(posix_suites.ensure_posix_suites, directories, console), console, "some tests will be skipped")


def try_compiler(directories: Directories, console: Console) -> None:
    """Install the programs of emulated volumes and the compiler of their daemon, if this kernel can run it."""
    if not capabilities.lacks_for_emulation():
        compiler = () if emulator.is_built(directories) else COMPILER
        _try(partial(install, (*compiler, *SMALL_TOOLS[1:]), directories, console), console, "no emulated volumes")


def try_emulator(directories: Directories, console: Console) -> None:
    """Build the emulator's daemon; print a failure and continue."""
    _try(partial(emulator.ensure_emulator, directories, console), console, "no emulated volumes")


def try_lexer(directories: Directories, console: Console) -> None:
    """Build the SQL lexer, with a compiler where one is needed; print a failure and continue."""

    def build() -> None:
        if not lexer.cached_library(directories).exists():
            install(COMPILER, directories, console)
        lexer.ensure_lexer(directories, console)

    _try(build, console, "no observation, validation or replay of logs")


def second_demo_volume(directories: Directories) -> str:
    """Return the second volume of the demo: an emulated gp3, or memory without the emulator."""
    can_emulate = capabilities.fuse_and_loop().present and emulator.is_built(directories)
    return DEMO_EMULATED if can_emulate else DEMO_IN_MEMORY


def _try(step: Callable[[], object], console: Console, without: str) -> None:
    try:
        step()
    except (MissingPrerequisite, Refused) as lack:
        console.say(f"{without}:\n{lack}")
