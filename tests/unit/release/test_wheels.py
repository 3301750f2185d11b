"""Wheels of the crates: which can be compiled here, and what is missing for the others."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from release import artifacts, trial, wheels

ROOT = Path(__file__).parents[3]
EMULATOR, LEXER = wheels.CRATES


def programs(directory: Path, *names: str, libdir: Path) -> None:
    """Put programs into a directory; each prints a directory, as rustc tells where a target's library is."""
    directory.mkdir()
    for name in names:
        (directory / name).write_text(f"#!/bin/sh\necho {libdir}\n")
        (directory / name).chmod(0o755)


@pytest.mark.parametrize(
    ("crate", "present", "has_target", "reason"),
    [
        (EMULATOR, (), True, "there is no cargo"),
        (EMULATOR, ("cargo", "rustc"), False, "rustup target add s390x-unknown-linux-musl"),
        (EMULATOR, ("cargo", "rustc"), True, ""),
        (LEXER, ("cargo", "rustc"), False, "rustup target add s390x-unknown-linux-gnu"),
        (LEXER, ("cargo", "rustc"), True, "gcc-s390x-linux-gnu"),
        (LEXER, ("cargo", "rustc", "s390x-linux-gnu-gcc"), True, ""),
    ],
)
def test_what_is_missing_is_said_with_its_remedy(
    crate: wheels.Crate,
    present: tuple[str, ...],
    has_target: bool,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    libdir = tmp_path / "lib"
    libdir.mkdir()
    if has_target:
        (libdir / "libstd-1.rlib").touch()
    programs(tmp_path / "bin", *present, libdir=libdir)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    output = wheels.missing_compiler(crate, "s390x")
    assert reason in output
    assert bool(reason) == bool(output)


def test_a_wheel_that_cannot_be_built_is_told_and_the_others_are_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []
    monkeypatch.setattr(wheels, "missing_compiler", lambda _, machine: "no" if machine == "aarch64" else "")
    monkeypatch.setattr(artifacts, "build", lambda source, *_, **__: built.append(source.name))
    omitted = wheels.build_all(tmp_path, 1, tmp_path)
    assert built == ["emulator", "lexer"]
    assert omitted == [f"{crate.directory} is not built for aarch64: no" for crate in wheels.CRATES]


def test_each_crate_is_in_this_source() -> None:
    for crate in wheels.CRATES:
        assert (ROOT / crate.directory / "Cargo.lock").exists()
        assert (ROOT / crate.directory / "pyproject.toml").exists()


def test_only_wheels_for_this_machine_are_tried(tmp_path: Path) -> None:
    names = ["volbench-1-py3-none-any.whl", f"volbench_lexer-1-py3-none-linux_{platform.machine()}.whl"]
    for name in [*names, "volbench_emulator-1-py3-none-linux_s390x.whl", "volbench-1.tar.gz"]:
        (tmp_path / name).touch()
    assert [file.name for file in trial.wheels_of_this_machine(tmp_path)] == names
