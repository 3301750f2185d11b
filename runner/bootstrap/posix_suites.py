"""fsx and pjdfstest, two public test suites for file systems, compiled for the tests of emulated volumes."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from bootstrap.command import run
from bootstrap.console import Console
from bootstrap.directories import Directories
from volbench.errors import Refused
from volbench.machine.placement import capabilities

CRATES = {
    "fsx@0.3.2": "72680bb1e43d40729d5f6e9de5bbe604820ff51e4707e109cb5082ec67d022a2",
    "pjdfstest@0.2.2": "bb5e2bea16df357ae879d1585bedaffe5913ab8f45e874f623b0b2f5555c8376",
}
"""SHA-256 of each crate's archive, whose own Cargo.lock has those of all crates that it needs."""
PROGRAMS = ("fsx", "pjdfstest")
BUILD_LIMIT_S = 1200.0


def is_built(directories: Directories) -> bool:
    """Whether both programs are in the cache."""
    return all(os.access(_directory(directories) / "bin" / name, os.X_OK) for name in PROGRAMS)


def ensure_posix_suites(directories: Directories, console: Console) -> None:
    """Compile both programs into the cache; nothing is done where they are there, or where cargo is missing.

    Raises MissingPrerequisite with the compiler's last lines when the build fails, Refused for another archive than
    the one that was looked at.
    """
    if is_built(directories) or not capabilities.find_program("cargo").present:
        return
    console.say(f"compiling {' and '.join(CRATES)}, for the tests of emulated volumes")
    log = directories.log("posix-suites")
    _fetch(log)
    run(
        ["cargo", "install", "--locked", "--quiet", f"--root={_directory(directories)}", *CRATES],
        log=log,
        label=f"compiling {' and '.join(CRATES)}",
        timeout_s=BUILD_LIMIT_S,
    )


def _fetch(log: Path) -> None:
    """Bring the crates' archives and compare them before anything in them runs.

    Raises MissingPrerequisite, Refused.
    """
    with tempfile.TemporaryDirectory(prefix="volbench-crates-") as project:
        dependencies = "".join(
            f'{name} = "={version}"\n' for name, _, version in (c.partition("@") for c in CRATES)
        )
        (Path(project) / "Cargo.toml").write_text(
            f'[package]\nname = "posix-suites"\nversion = "0.0.0"\n[dependencies]\n{dependencies}', encoding="ascii"
        )
        (Path(project) / "src").mkdir()
        (Path(project) / "src/main.rs").write_text("fn main() {}\n", encoding="ascii")
        run(
            ["cargo", "fetch", "--quiet", f"--manifest-path={project}/Cargo.toml"],
            log=log,
            label=f"fetching {' and '.join(CRATES)}",
            timeout_s=BUILD_LIMIT_S,
        )
    cargo_home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    for crate, sha256 in CRATES.items():
        check_archives(cargo_home, crate, sha256)


def check_archives(cargo_home: Path, crate: str, sha256: str) -> None:
    """Raise Refused unless cargo's archive of a crate, such as `fsx@0.3.2`, has this SHA-256."""
    archives = list((cargo_home / "registry" / "cache").glob(f"*/{crate.replace('@', '-')}.crate"))
    digests = {hashlib.sha256(archive.read_bytes()).hexdigest() for archive in archives}
    if digests != {sha256}:
        raise Refused(
            what=f"{crate} is not the archive that was looked at",
            where=str(cargo_home / "registry" / "cache"),
            evidence=f"SHA-256 {', '.join(sorted(digests)) or 'of no archive'} instead of {sha256}",
            next_step="remove the archive there and try again; report it if it comes back",
        )


def _directory(directories: Directories) -> Path:
    return directories.cache / "posix-suites"
