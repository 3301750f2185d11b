"""`python -m release build|check|make|verify DIRECTORY`, behind the Makefile."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from release import artifacts, materials, placeholders, trial, wheels
from volbench import __version__
from volbench.errors import StepFailed, UsageError, VolbenchError

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, check or verify a release; return the exit code."""
    parser = argparse.ArgumentParser(prog="release", description=__doc__)
    parser.add_argument("verb", choices=("build", "check", "make", "verify"))
    parser.add_argument("directory", type=Path)
    parser.add_argument(
        "--rehearsal", action="store_true", help="make: print what is not settled, do not refuse it"
    )
    given = parser.parse_args(arguments)
    try:
        if given.verb == "make":
            make(given.directory, is_rehearsal=given.rehearsal)
        else:
            verbs: dict[str, Callable[[Path], object]] = {"build": build, "check": check, "verify": verify}
            verbs[given.verb](given.directory)
    except VolbenchError as error:
        print(f"release: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def make(directory: Path, *, is_rehearsal: bool = False) -> None:
    """Build a release with the wheels of its crates, try it in a clean environment, and print what to tag.

    Raises UsageError while something is not settled, unless it is a rehearsal; StepFailed, MissingPrerequisite.
    """
    unsettled = None
    try:
        placeholders.refuse_unsettled(ROOT)
    except UsageError as error:
        if not is_rehearsal:
            raise
        unsettled = error
    omitted = build(directory, with_crates=True)
    for line in [*omitted, *trial.try_release(directory, __version__)]:
        print(line)
    if unsettled is not None:
        print(f"rehearsal, tag nothing: {unsettled}")
        return
    print(f"to release: git tag --sign v{__version__} --message 'volbench {__version__}' {artifacts.head(ROOT)}")
    print(f"            git push origin v{__version__}")


def build(directory: Path, *, with_crates: bool = False) -> list[str]:
    """Write a release's files into an empty or new directory; return a sentence for each wheel that it lacks.

    Args:
        with_crates: also build the wheels of the crates, whose bytes depend on this machine's compiler.

    Raises UsageError, StepFailed, MissingPrerequisite.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise UsageError(
            "a release is built into an empty directory",
            where=str(directory),
            next_step="name another, or empty it",
        )
    text = os.environ.get(artifacts.EPOCH, "")
    with artifacts.exported(ROOT, int(text) if text.isdecimal() else None) as (source, epoch):
        artifacts.build(source, epoch, directory)
        omitted = wheels.build_all(source, epoch, directory) if with_crates else []
        bill = materials.bill_of_materials(source, __version__, epoch)
    (directory / f"volbench-{__version__}.cdx.json").write_text(bill, encoding="utf-8")
    artifacts.write_checksums(directory)
    changes = artifacts.uncommitted(ROOT)
    if changes:
        print(f"left out: {len(changes)} changes that are not committed (git status)")
    for name in artifacts.verify(directory):
        print(directory / name)
    return omitted


def check(directory: Path) -> None:
    """Build a release a second time and compare; the bill of materials must fit its schema. Raise StepFailed."""
    build(directory)
    with tempfile.TemporaryDirectory(prefix="volbench-release-") as again:
        build(Path(again))
        sums = [(place / artifacts.CHECKSUMS).read_text(encoding="ascii") for place in (directory, Path(again))]
    if sums[0] != sums[1]:
        raise StepFailed("two builds of the same commit differ", where=str(directory), evidence="\n".join(sums))
    for bill in directory.glob("*.cdx.json"):
        fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill.read_text(encoding="utf-8"))
        if fault is not None:
            raise StepFailed("the bill of materials does not fit its schema", where=str(bill), evidence=str(fault))
    print("two builds are equal, byte for byte; the bill of materials fits CycloneDX 1.6")


def verify(directory: Path) -> None:
    """Compare a release's files with SHA256SUMS. Raise UsageError, Refused."""
    for name in artifacts.verify(directory):
        print(f"{name}: OK")


if __name__ == "__main__":
    sys.exit(main())
