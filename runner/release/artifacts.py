"""Files of a release: built from what is committed, and checked against their checksums.

Neither this machine's clock, time zone, umask and language nor files that are not committed have a part in them.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from volbench.errors import MissingPrerequisite, Refused, StepFailed, UsageError

CHECKSUMS = "SHA256SUMS"
EPOCH = "SOURCE_DATE_EPOCH"
SIGNATURE = ".sigstore.json"
"""Ends the name of a signature's file, which is made from the checksums and so is not among them."""
_BUILD_S_MAX = 1500.0
"""A crate compiles for minutes on a busy machine."""


@contextmanager
def exported(root: Path, epoch: int | None = None) -> Iterator[tuple[Path, int]]:
    """Yield a directory with what a checkout's HEAD has, and the time of that commit in seconds since 1970.

    Args:
        epoch: the time where `root` is no checkout but an unpacked source archive, which is used in place.

    Raises UsageError for such a directory without a time, MissingPrerequisite without git.
    """
    if not (root / ".git").exists():
        if epoch is None:
            raise UsageError(
                "the time of this source's commit is not known",
                where=str(root),
                evidence="it is no git checkout",
                next_step=f"set {EPOCH} to the time of the release's commit in seconds since 1970",
            )
        yield root, epoch
        return
    committed = int(_git(root, "log", "-1", "--format=%ct", "HEAD"))
    with tempfile.TemporaryDirectory(prefix="volbench-release-") as parent:
        tree = Path(parent) / "tree"
        archive = Path(parent) / "tree.tar"
        _git(root, "archive", "--format=tar", f"--output={archive}", "HEAD")
        tree.mkdir()
        subprocess.run(["tar", "-x", "-f", archive, "-C", tree], check=True)
        yield tree, committed


def uncommitted(root: Path) -> list[str]:
    """Return what differs from HEAD in a checkout, and so has no part in a release."""
    return _git(root, "status", "--porcelain").splitlines() if (root / ".git").exists() else []


def head(root: Path) -> str:
    """Return the commit that a checkout's release is built from. Raise MissingPrerequisite without git."""
    return _git(root, "rev-parse", "HEAD").strip()


def build(
    source: Path,
    epoch: int,
    directory: Path,
    *,
    targets: Sequence[str] = ("sdist", "wheel"),
    variables: Mapping[str, str] | None = None,
) -> list[Path]:
    """Build the source archive and the wheel of an exported tree into a directory, and return their paths.

    Args:
        epoch: what every file in them is dated, in seconds since 1970.
        variables: what a compiler needs in its environment.

    Raises StepFailed with the last lines of the build.
    """
    before = set(directory.iterdir())
    argv = [sys.executable, "-P", "-m", "hatchling", "build", "-d", str(directory.resolve())]
    argv += [word for target in targets for word in ("-t", target)]
    environment = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC", EPOCH: str(epoch), "PYTHONSAFEPATH": "1"}
    environment.update(variables or {})
    done = subprocess.run(
        argv,
        cwd=source,
        env=environment,
        umask=0o022,
        timeout=_BUILD_S_MAX,
        check=False,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode:
        raise StepFailed(
            "the release cannot be built", where=str(source), evidence="\n".join(done.stdout.splitlines()[-15:])
        )
    return sorted(set(directory.iterdir()) - before)


def write_checksums(directory: Path) -> Path:
    """Write SHA256SUMS of a release's files, in the format of sha256sum(1), and return its path."""
    path = directory / CHECKSUMS
    lines = [f"{_sha256(file)}  {file.name}\n" for file in _files(directory)]
    path.write_text("".join(lines), encoding="ascii")
    return path


def verify(directory: Path) -> list[str]:
    """Return the names of a release's files, each of which has its checksum in SHA256SUMS.

    Raises UsageError without that file, Refused for a file that differs, is missing, or is not listed.
    """
    wanted = _read_checksums(directory / CHECKSUMS)
    found = {file.name: _sha256(file) for file in _files(directory)}
    faults = [f"{name} is missing" for name in sorted(wanted.keys() - found.keys())]
    faults += [f"{name} is not listed" for name in sorted(found.keys() - wanted.keys())]
    faults += [f"{name} differs" for name in sorted(wanted.keys() & found.keys()) if wanted[name] != found[name]]
    if faults:
        raise Refused(
            "these are not the files of the release",
            where=str(directory / CHECKSUMS),
            evidence="; ".join(faults),
            next_step="fetch them again, and do not install them if they still differ",
        )
    return sorted(found)


def _read_checksums(path: Path) -> dict[str, str]:
    try:
        pairs = [line.split("  ", 1) for line in path.read_text(encoding="ascii").splitlines()]
        return {name: digest for digest, name in pairs}
    except (OSError, ValueError) as error:
        raise UsageError(
            f"there is no readable {CHECKSUMS}",
            where=str(path.parent),
            evidence=f"{type(error).__name__}: {error}",
            next_step="download it with the release's files",
        ) from error


def _files(directory: Path) -> list[Path]:
    return sorted(
        file for file in directory.iterdir() if file.name != CHECKSUMS and not file.name.endswith(SIGNATURE)
    )


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", root, *arguments], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingPrerequisite(
            "git does not tell what is committed",
            where=str(root),
            evidence=str(getattr(error, "stderr", "") or error).strip(),
            next_step="install git, and run this in a checkout of this user",
        ) from error
    return done.stdout
