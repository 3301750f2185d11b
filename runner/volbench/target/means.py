"""What this machine has and lacks: asked for, never guessed from a version or a file's name.

Standard library only, because the set-up runs these questions before any dependency is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from volbench.base import programs

ASK_TIMEOUT_S = 15.0
SEARCH_PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass(frozen=True, kw_only=True)
class Means:
    """One thing a run may need: whether it is there, what was seen, and the command that mends the lack."""

    name: str
    present: bool
    evidence: str
    mend: str = ""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a command said: its exit code, None when it could not be started or did not end in time."""

    code: int | None
    output: str

    @property
    def last_line(self) -> str:
        """The last line that says something."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return lines[-1] if lines else "no output"


def ask(argv: Sequence[str], *, timeout_s: float = ASK_TIMEOUT_S) -> Answer:
    """Run a question to this machine; `output` holds stdout and, on failure, stderr after it."""
    try:
        done = programs.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return Answer(code=None, output=f"{argv[0]} gave no answer within {timeout_s:g} s")
    except OSError as error:
        return Answer(code=None, output=f"{argv[0]}: {error.strerror}")
    return Answer(code=done.returncode, output=done.stdout if done.returncode == 0 else done.stdout + done.stderr)


def find_program(*names: str, package: str = "", path: str | None = None) -> Means:
    """The first of several names of a program on `path`, else on SEARCH_PATH; `package` is Debian's."""
    for name in names:
        found = shutil.which(name, path=SEARCH_PATH if path is None else path)
        if found:
            return Means(name=names[0], present=True, evidence=found)
    mend = f"apt-get install --no-install-recommends {package or names[0]}"
    return Means(name=names[0], present=False, evidence=f"no {' or '.join(names)} on PATH", mend=mend)


def docker_engine(*, timeout_s: float = ASK_TIMEOUT_S) -> Means:
    """A Docker engine that answers; evidence is its version, or why it does not answer."""
    if shutil.which("docker", path=SEARCH_PATH) is None:
        return Means(name="docker", present=False, evidence="no docker command on PATH", mend="make engine")
    answer = ask(["docker", "version", "--format", "{{.Server.Version}}"], timeout_s=timeout_s)
    if answer.code == 0:
        return Means(name="docker", present=True, evidence=f"engine {answer.last_line}")
    denied = "permission denied" in answer.output
    mend = "sudo usermod -aG docker $USER, then log in again" if denied else "make engine"
    return Means(name="docker", present=False, evidence=answer.last_line, mend=mend)


def docker_image(name: str) -> Means:
    """An image in the local engine; never pulls."""
    answer = ask(["docker", "image", "inspect", "--format", "{{.Id}}", name])
    present = answer.code == 0
    return Means(name=name, present=present, evidence=answer.last_line, mend="" if present else "make images")


def registry_answers(image: str = "debian:stable-slim", *, timeout_s: float = 30.0) -> Means:
    """Whether an image registry answers, asked for the manifest of a small image; nothing is pulled."""
    answer = ask(["docker", "manifest", "inspect", image], timeout_s=timeout_s)
    if answer.code == 0:
        return Means(name="registry", present=True, evidence=f"knows {image}")
    mend = "none needed: `make images` builds the images from Debian packages instead"
    return Means(name="registry", present=False, evidence=answer.last_line, mend=mend)


def database_server() -> Means:
    """A mysqld or mariadbd that the local target can start; evidence is its path and version."""
    found = find_program("mysqld", "mariadbd", package="mariadb-server-core")
    if not found.present:
        return Means(name="mysqld", present=False, evidence=found.evidence, mend="make local")
    answer = ask([found.evidence, "--no-defaults", "--version"])
    return Means(name="mysqld", present=answer.code == 0, evidence=answer.last_line, mend="make local")


def local_server_tools() -> Means:
    """What the local target cannot do without: a server and sysbench."""
    server = database_server()
    if not server.present:
        return server
    sysbench = find_program("sysbench")
    if not sysbench.present:
        return Means(name="mysqld", present=False, evidence=sysbench.evidence, mend="make local")
    return Means(name="mysqld", present=True, evidence=f"{server.evidence}; {sysbench.evidence}")


def fuse_and_loop() -> Means:
    """What emulated volumes need of the machine: FUSE, loop devices, XFS tools and root."""
    lacks = lacks_for_emulation()
    lacks += [f"no {name}" for name in ("losetup", "mkfs.xfs") if not find_program(name).present]
    if lacks:
        mend = "as root, on a kernel with FUSE and loop devices: apt-get install mount xfsprogs"
        return Means(name="emulator", present=False, evidence=", ".join(lacks), mend=mend)
    return Means(name="emulator", present=True, evidence="root, /dev/fuse, /dev/loop-control, losetup, mkfs.xfs")


def lacks_for_emulation() -> list[str]:
    """What emulated volumes need and no package brings."""
    rights = [] if os.geteuid() == 0 else ["not root"]
    return rights + [f"no {device}" for device in ("/dev/fuse", "/dev/loop-control") if not Path(device).exists()]


def chromium() -> Means:
    """A Chromium of the distribution or of the vendor, for the tests of the HTML report."""
    found = find_program(*CHROMIUM_NAMES, package="chromium")
    return Means(name="browser", present=found.present, evidence=found.evidence, mend=found.mend)


def nfs_client(filesystems: Path = Path("/proc/filesystems")) -> Means:
    """An NFS client in the running kernel; a module that could be loaded counts only once it is."""
    try:
        known = filesystems.read_text(encoding="ascii").split()
    except OSError as error:
        return Means(name="nfs", present=False, evidence=f"{filesystems}: {error.strerror}")
    present = "nfs" in known or "nfs4" in known
    evidence = f"{filesystems} {'lists' if present else 'does not list'} nfs"
    return Means(name="nfs", present=present, evidence=evidence, mend="" if present else "modprobe nfs")


def kubernetes() -> Means:
    """A cluster that calls itself ready through the current kubectl context."""
    if not find_program("kubectl").present:
        return Means(name="kubernetes", present=False, evidence="no kubectl on PATH", mend="install kubectl")
    answer = ask(["kubectl", "get", "--raw", "/readyz", "--request-timeout=5s"])
    mend = "" if answer.code == 0 else "point KUBECONFIG at a cluster that answers"
    return Means(name="kubernetes", present=answer.code == 0, evidence=answer.last_line, mend=mend)


def root_rights(environment: Mapping[str, str] = os.environ) -> Means:
    """Root, or a sudo that asks nothing when there is no terminal to ask on."""
    if os.geteuid() == 0:
        return Means(name="root", present=True, evidence="running as root")
    if find_program("sudo").present:
        asked = ["sudo", "-v"] if os.isatty(0) and not environment.get("CI") else ["sudo", "-n", "true"]
        if asked[-1] == "-v" or ask(asked).code == 0:
            return Means(name="root", present=True, evidence="through sudo")
    return Means(name="root", present=False, evidence="neither root nor sudo", mend="run as root, or install sudo")
