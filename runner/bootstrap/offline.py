"""A base image where no registry answers: Debian by debootstrap, imported into the engine."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from bootstrap.command import run, with_rights
from bootstrap.console import Console
from bootstrap.packages import Need, install, program
from bootstrap.places import Places
from volbench.errors import EnvironmentLacks
from volbench.target import image_names, means

SUITE = "sid"  # the one Debian suite with MySQL itself; the stable ones have MariaDB only
ROOTFS = "docker/offline/rootfs"
DEBOOTSTRAP_LIMIT_S = 600.0
IMPORT_LIMIT_S = 300.0
LEFT_OUT = ("./var/cache/apt/*", "./var/lib/apt/lists/*", "./var/log/*", "./usr/share/doc/*/changelog*",
            "./usr/share/man/*", "./usr/share/locale/*", "./usr/share/info/*",
            "./dev/*", "./proc/*", "./sys/*")  # fmt: skip

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
DEBOOTSTRAP_NEEDS: tuple[Need, ...] = (
    program("debootstrap", why="no image registry answers, so a base image is made of Debian packages"),
    Need(
        met=KEYRING.exists,
        packages=("debian-archive-keyring",),
        why="debootstrap checks the archive's signature with it",
    ),
    program("gpgv", "gpgv", why="debootstrap checks the archive's signature with it"),
)


def base_name(root: Path) -> str:
    """Name of the base image, by the content of what goes into it."""
    return f"volbench/base:{SUITE}-{image_names.content_hash(root, [ROOTFS], SUITE, platform.machine())}"


def ensure_base(places: Places, console: Console) -> str:
    """Name of the base image in the engine, made by debootstrap when it is not there."""
    name = base_name(places.root)
    if means.docker_image(name).present:
        return name
    install(DEBOOTSTRAP_NEEDS, places, console)
    console.say(f"making the base image {name} (debootstrap of Debian {SUITE}, about half a minute)")
    parent = Path(tempfile.mkdtemp(prefix="volbench-base-", dir="/var/tmp"))
    try:
        _debootstrap(parent / "root", places)
        _import(parent / "root", name, places)
    finally:
        run(
            with_rights(["rm", "-rf", "--one-file-system", str(parent)]),
            log=places.log("base"),
            what=f"removing {parent}",
            timeout_s=120,
        )
    return name


def parse_mirror(index_targets: str) -> str | None:
    """The address of the Debian archive from lines `address|origin|codename` of `apt-get indextargets`."""
    for line in index_targets.splitlines():
        address, origin, codename = (*line.split("|"), "", "")[:3]
        if origin == "Debian" and re.fullmatch(r"[a-z]+", codename) and address.startswith("http"):
            return address.rstrip("/")
    return None


def find_mirror() -> str | None:
    """The Debian archive this machine itself installs from; None leaves the choice to debootstrap."""
    answer = means.ask(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)|$(ORIGIN)|$(CODENAME)", "Created-By: Packages"],
        timeout_s=60,
    )
    return parse_mirror(answer.output) if answer.code == 0 else None


def _debootstrap(target: Path, places: Places) -> None:
    shutil.copytree(places.root / ROOTFS, target)  # dpkg's options have to be there before dpkg is
    target.chmod(0o755)
    mirror = find_mirror()
    run(
        with_rights(
            [
                "debootstrap",
                "--variant=minbase",
                "--include=ca-certificates",
                SUITE,
                str(target),
                *([mirror] if mirror else []),
            ]
        ),
        log=places.log("base"),
        what=f"debootstrap of Debian {SUITE}",
        timeout_s=DEBOOTSTRAP_LIMIT_S,
    )


def _import(rootfs: Path, name: str, places: Places) -> None:
    """Pack the tree and import it; what no container reads is left out."""
    excludes = [f"--exclude={pattern}" for pattern in LEFT_OUT]
    argv = with_rights(["tar", "-C", str(rootfs), *excludes, "--numeric-owner", "-c", "."])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as tar:
        if tar.stdout is None:  # only for the type checker: stdout is a pipe
            raise AssertionError
        run(
            ["docker", "import", "--change", 'CMD ["/bin/sh"]', "-", name],
            log=places.log("base"),
            what=f"docker import of {name}",
            timeout_s=IMPORT_LIMIT_S,
            stdin=tar.stdout.fileno(),
        )
    if tar.returncode:
        means.ask(["docker", "rmi", name])
        raise EnvironmentLacks(
            what=f"packing the base image failed (tar ended with {tar.returncode})", where="base image"
        )
