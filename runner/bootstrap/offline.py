"""A base image without a registry: Debian by debootstrap, imported into the engine."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from bootstrap.command import run, with_rights
from bootstrap.console import Console
from bootstrap.directories import Directories
from bootstrap.packages import Need, install, program
from volbench.errors import MissingPrerequisite
from volbench.machine.placement import capabilities
from volbench.machine.placement.docker import image_names

SUITE = "sid"  # the one Debian suite with MySQL itself; the stable ones have MariaDB only
ROOTFS = "docker/offline/rootfs"
DEBOOTSTRAP_LIMIT_S = 600.0
IMPORT_LIMIT_S = 300.0
LEFT_OUT = (
    "./var/cache/apt/*",
    "./var/lib/apt/lists/*",
    "./var/log/*",
    "./usr/share/doc/*/changelog*",
    "./usr/share/man/*",
    "./usr/share/locale/*",
    "./usr/share/info/*",
    "./dev/*",
    "./proc/*",
    "./sys/*",
)

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
DEBOOTSTRAP_NEEDS: tuple[Need, ...] = (
    program("debootstrap", reason="no image registry answers, so a base image is made of Debian packages"),
    Need(
        met=KEYRING.exists,
        packages=("debian-archive-keyring",),
        reason="debootstrap checks the archive's signature with it",
    ),
    program("gpgv", "gpgv", reason="debootstrap checks the archive's signature with it"),
)


def base_name(root: Path) -> str:
    """Return the name of the base image, by the content of its inputs."""
    return f"volbench/base:{SUITE}-{image_names.content_hash(root, [ROOTFS], SUITE, platform.machine())}"


def ensure_base(directories: Directories, console: Console) -> str:
    """Return the name of the base image in the engine; build it with debootstrap if it does not exist."""
    name = base_name(directories.root)
    if capabilities.docker_image(name).present:
        return name
    install(DEBOOTSTRAP_NEEDS, directories, console)
    console.say(f"making the base image {name} (debootstrap of Debian {SUITE}, about half a minute)")
    parent = Path(tempfile.mkdtemp(prefix="volbench-base-", dir="/var/tmp"))
    try:
        _debootstrap(parent / "root", directories)
        _import(parent / "root", name, directories)
    finally:
        run(
            with_rights(["rm", "-rf", "--one-file-system", str(parent)]),
            log=directories.log("base"),
            label=f"removing {parent}",
            timeout_s=120,
        )
    return name


def parse_mirror(index_targets: str) -> str | None:
    """Return the address of the Debian archive from lines `address|origin|codename` of `apt-get indextargets`."""
    for line in index_targets.splitlines():
        address, origin, codename = (*line.split("|"), "", "")[:3]
        if origin == "Debian" and re.fullmatch(r"[a-z]+", codename) and address.startswith("http"):
            return address.rstrip("/")
    return None


def find_mirror() -> str | None:
    """Return the Debian archive of this machine's apt; None leaves the choice to debootstrap."""
    answer = capabilities.ask(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)|$(ORIGIN)|$(CODENAME)", "Created-By: Packages"],
        timeout_s=60,
    )
    return parse_mirror(answer.output) if answer.code == 0 else None


def _debootstrap(target: Path, directories: Directories) -> None:
    shutil.copytree(directories.root / ROOTFS, target)  # dpkg's options have to be there before dpkg is
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
        log=directories.log("base"),
        label=f"debootstrap of Debian {SUITE}",
        timeout_s=DEBOOTSTRAP_LIMIT_S,
    )


def _import(rootfs: Path, name: str, directories: Directories) -> None:
    """Pack the tree and import it, without files that no container reads."""
    excludes = [f"--exclude={pattern}" for pattern in LEFT_OUT]
    argv = with_rights(["tar", "-C", str(rootfs), *excludes, "--numeric-owner", "-c", "."])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as tar:
        if tar.stdout is None:  # only for the type checker: stdout is a pipe
            raise AssertionError
        run(
            ["docker", "import", "--change", 'CMD ["/bin/sh"]', "-", name],
            log=directories.log("base"),
            label=f"docker import of {name}",
            timeout_s=IMPORT_LIMIT_S,
            stdin=tar.stdout.fileno(),
        )
    if tar.returncode:
        capabilities.ask(["docker", "rmi", name])
        raise MissingPrerequisite(
            what=f"packing the base image failed (tar ended with {tar.returncode})", where="base image"
        )
