"""Wheels of the crates: the emulator's daemon and the SQL lexer, for each machine that can be compiled for here."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from release import artifacts

MACHINES = ("x86_64", "aarch64")
_ASK_S_MAX = 30.0


@dataclass(frozen=True, kw_only=True)
class Crate:
    """A crate with a wheel of its own.

    Args:
        libc: of the target; `musl` makes a static program, which runs on every distribution and is linked by Rust's
            own linker; a library is loaded into Python's process and needs that process's `gnu`, and gcc.
    """

    directory: str
    libc: str

    def target(self, machine: str) -> str:
        """Return Rust's name of the platform to compile for."""
        return f"{machine}-unknown-linux-{self.libc}"

    def linker(self, machine: str) -> str:
        """Return the program that links for a machine."""
        if self.libc == "musl":
            return "rust-lld"
        return "cc" if machine == platform.machine() else f"{machine}-linux-gnu-gcc"


CRATES = (Crate(directory="runner/emulator", libc="musl"), Crate(directory="runner/lexer", libc="gnu"))


def build_all(source: Path, epoch: int, directory: Path) -> list[str]:
    """Build every wheel that this machine can, and return a sentence for each that it cannot.

    Raises StepFailed with the compiler's last lines.
    """
    omitted = []
    for crate in CRATES:
        for machine in MACHINES:
            reason = missing_compiler(crate, machine)
            if reason:
                omitted.append(f"{crate.directory} is not built for {machine}: {reason}")
                continue
            artifacts.build(
                source / crate.directory,
                epoch,
                directory,
                targets=("wheel",),
                variables=_variables(crate, machine, source),
            )
    return omitted


def missing_compiler(crate: Crate, machine: str) -> str:
    """Return what is missing to compile a crate for a machine, and how to install it; empty: nothing."""
    target = crate.target(machine)
    if shutil.which("cargo") is None or shutil.which("rustc") is None:
        return "there is no cargo; install Rust 1.85 or newer"
    command = ["rustc", "--print", "target-libdir", "--target", target]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_ASK_S_MAX)
    if answer.returncode or not list(Path(answer.stdout.strip()).glob("libstd-*")):
        return f"the target is not installed; run: rustup target add {target}"
    linker = crate.linker(machine)
    if crate.libc == "gnu" and shutil.which(linker) is None:
        package = "gcc" if linker == "cc" else linker.removesuffix("-gcc").join(("gcc-", "")).replace("_", "-")
        return f"there is no {linker}; install Debian's {package}"
    return ""


def _variables(crate: Crate, machine: str, source: Path) -> dict[str, str]:
    """Return the environment for cargo; no path of this machine gets into what it compiles."""
    home = Path.home()
    cargo_home = os.environ.get("CARGO_HOME", str(home / ".cargo"))
    flags = [f"-Clinker={crate.linker(machine)}"]
    flags += [f"--remap-path-prefix={path}={name}" for path, name in ((cargo_home, "cargo"), (source, "volbench"))]
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "CARGO_HOME": cargo_home,
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(home / ".rustup")),
        "CARGO_BUILD_TARGET": crate.target(machine),
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
    }
