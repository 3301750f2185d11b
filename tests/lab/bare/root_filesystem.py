"""The bare machine's files: a minimal Debian, this machine's network settings, a clone of the work tree."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from bootstrap import offline
from bootstrap.command import run
from bootstrap.console import Console
from bootstrap.directories import Directories
from bootstrap.packages import install

SUITES = ("bookworm", "trixie")
INCLUDED = ("python3", "make", "git", "ca-certificates")
ARCHIVE_DAYS = 7
CLONE = "/root/volbench"
#: Certificates that this machine trusts, so that package archives behind a proxy of its own are trusted inside too.
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def unpack(suite: str, root: Path, locations: Directories, console: Console) -> None:
    """Fill `root` from the suite's archive, which debootstrap makes when it is absent or older than a week.

    Raises MissingPrerequisite with the log's last lines when that fails.
    """
    digest = hashlib.sha256(" ".join(INCLUDED).encode()).hexdigest()[:12]
    archive = locations.cache / "bare" / f"{suite}-{digest}.tar"
    if not archive.exists() or time.time() - archive.stat().st_mtime > ARCHIVE_DAYS * 86400:
        _make_archive(suite, archive, locations, console)
    root.mkdir()
    run(
        ["tar", "-C", str(root), "--numeric-owner", "-xpf", str(archive)],
        log=locations.log("bare"),
        label="unpacking",
        timeout_s=300,
    )


def _make_archive(suite: str, archive: Path, locations: Directories, console: Console) -> None:
    install(offline.DEBOOTSTRAP_NEEDS, locations, console)
    console.say(f"making the root file system of Debian {suite} by debootstrap")
    archive.parent.mkdir(parents=True, exist_ok=True)
    log = locations.log("bare")
    with tempfile.TemporaryDirectory(prefix="volbench-bare-", dir="/var/tmp") as parent:
        tree = Path(parent) / "root"
        mirror = offline.find_mirror()
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(INCLUDED)}", suite, str(tree)]
        run(
            [*command, *([mirror] if mirror else [])],
            log=log,
            label=f"debootstrap of Debian {suite}",
            timeout_s=offline.DEBOOTSTRAP_LIMIT_S,
        )
        partial = archive.with_suffix(".partial")
        run(
            ["tar", "-C", str(tree), "--numeric-owner", "-cf", str(partial), "."],
            log=log,
            label="packing",
            timeout_s=300,
        )
        partial.replace(archive)


def configure(root: Path) -> None:
    """Give the bare machine this machine's name server, certificates and apt settings that reach the archive."""
    shutil.copyfile("/etc/resolv.conf", root / "etc/resolv.conf")
    (root / "etc/hostname").write_text("bare\n", encoding="ascii")
    (root / "etc/hosts").write_text("127.0.0.1 localhost bare\n::1 localhost\n", encoding="ascii")
    if CERTIFICATES.is_file():
        shutil.copyfile(CERTIFICATES, root / CERTIFICATES.relative_to("/"))
    sources = Path("/etc/apt/apt.conf.d")
    for name in sorted(sources.glob("*proxy*")):
        shutil.copyfile(name, root / "etc/apt/apt.conf.d" / name.name)


def clone_work_tree(work_tree: Path, root: Path, console: Console) -> None:
    """Clone what is committed in the work tree; tell of changes that are not."""
    changed = subprocess.run(
        ["git", "-C", str(work_tree), "status", "--porcelain", "--untracked-files=no"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    if changed:
        console.say(f"{len(changed.splitlines())} files have changes that are not committed, and so are not tested")
    destination = root / CLONE.lstrip("/")
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(work_tree), str(destination)], check=True)


def share_caches(root: Path, suite: str, locations: Directories, cleanup: ExitStack) -> list[tuple[Path, Path]]:
    """Directories of this machine and where they are mounted in the bare one: downloads, compiled programs.

    Returns pairs of existing directories; the mount points inside `root` are made.
    Only one machine at a time can use apt's archives: a second one downloads its own.
    """
    archives = locations.cache / "bare" / f"apt-{suite}"
    (archives / "partial").mkdir(parents=True, exist_ok=True)
    home = Path.home()
    # Programs that this machine compiled may need a newer C library than the suite has.
    compiled = locations.cache / "bare" / f"cache-{suite}"
    pairs = [
        (compiled, root / "root/.cache/volbench"),
        (locations.cache / "kubernetes", root / "root/.cache/volbench/kubernetes"),
        (home / ".cache" / "uv", root / "root/.cache/uv"),
        (home / ".cargo" / "registry", root / "root/.cargo/registry"),
    ]
    lock = cleanup.enter_context((archives / "in-use").open("w"))
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        pairs.append((archives, root / "var/cache/apt/archives"))
    (compiled / "kubernetes").mkdir(parents=True, exist_ok=True)
    for source, target in pairs:
        source.mkdir(parents=True, exist_ok=True)
        target.mkdir(parents=True, exist_ok=True)
    # debootstrap's images may keep archives: apt deletes them after each installation unless it is told otherwise.
    (root / "etc/apt/apt.conf.d/90keep-archives").write_text(
        'Binary::apt-get::APT::Keep-Downloaded-Packages "true";\n'
    )
    return pairs
