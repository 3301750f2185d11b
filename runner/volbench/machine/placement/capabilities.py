"""Prerequisites on this machine: tested, never guessed from a version or a file's name.

Standard library only, because the set-up runs these tests before any dependency is installed.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from volbench.core.base import programs
from volbench.core.base.environment import CONTAINERS

ASK_TIMEOUT_S = 15.0
SEARCH_PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass(frozen=True, kw_only=True)
class Means:
    """A prerequisite: whether it is present, the evidence, and the command that installs it."""

    name: str
    present: bool
    evidence: str
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class CommandOutput:
    """A command's output and exit code, None if it could not start or did not end in time."""

    code: int | None
    output: str

    @property
    def last_line(self) -> str:
        """The last line that is not empty."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return lines[-1] if lines else "no output"


_SETUID = frozenset({"docker", "kubectl", "sudo"})
"""sudo is a setuid program; a snap of the others is started by one."""


def ask(argv: Sequence[str], *, timeout_s: float = ASK_TIMEOUT_S) -> CommandOutput:
    """Run a command on this machine; `output` is stdout and, after a failure, stderr."""
    try:
        done = programs.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            env=programs.environment("KUBECONFIG", *CONTAINERS),
            gains_privileges=argv[0] in _SETUID,
        )
    except subprocess.TimeoutExpired:
        return CommandOutput(code=None, output=f"{argv[0]} gave no answer within {timeout_s:g} s")
    except OSError as error:
        return CommandOutput(code=None, output=f"{argv[0]}: {error.strerror}")
    return CommandOutput(
        code=done.returncode, output=done.stdout if done.returncode == 0 else done.stdout + done.stderr
    )


def find_program(*names: str, package: str = "", path: str | None = None) -> Means:
    """Find the first of several names of a program on `path`, else on SEARCH_PATH; `package` is Debian's."""
    for name in names:
        program_path = programs.find_program(name, path=SEARCH_PATH if path is None else path)
        if program_path:
            return Means(name=names[0], present=True, evidence=program_path)
    remedy = f"apt-get install --no-install-recommends {package or names[0]}"
    return Means(name=names[0], present=False, evidence=f"no {' or '.join(names)} on PATH", remedy=remedy)


def docker_engine(*, timeout_s: float = ASK_TIMEOUT_S) -> Means:
    """Test whether a Docker engine answers; evidence is its version, or the error."""
    if programs.find_program("docker", path=SEARCH_PATH) is None:
        return Means(name="docker", present=False, evidence="no docker command on PATH", remedy="make engine")
    answer = ask(["docker", "version", "--format", "{{.Server.Version}}"], timeout_s=timeout_s)
    if answer.code == 0:
        return Means(name="docker", present=True, evidence=f"engine {answer.last_line}")
    denied = "permission denied" in answer.output
    remedy = "sudo usermod -aG docker $USER, then log in again" if denied else "make engine"
    return Means(name="docker", present=False, evidence=answer.last_line, remedy=remedy)


def docker_image(name: str) -> Means:
    """Test for an image in the local engine; never pull."""
    answer = ask(["docker", "image", "inspect", "--format", "{{.Id}}", name])
    present = answer.code == 0
    return Means(name=name, present=present, evidence=answer.last_line, remedy="" if present else "make images")


def database_server() -> Means:
    """Test for a mysqld or mariadbd that the local target can start; evidence is its path and version."""
    program = find_program("mysqld", "mariadbd", package="mariadb-server-core")
    if not program.present:
        return Means(name="mysqld", present=False, evidence=program.evidence, remedy="make local")
    answer = ask([program.evidence, "--no-defaults", "--version"])
    return Means(name="mysqld", present=answer.code == 0, evidence=answer.last_line, remedy="make local")


def local_server_tools() -> Means:
    """Test the prerequisites of the local target: a server and sysbench."""
    server = database_server()
    if not server.present:
        return server
    sysbench = find_program("sysbench")
    if not sysbench.present:
        return Means(name="mysqld", present=False, evidence=sysbench.evidence, remedy="make local")
    return Means(name="mysqld", present=True, evidence=f"{server.evidence}; {sysbench.evidence}")


def fuse_and_loop() -> Means:
    """Test the prerequisites of emulated volumes: FUSE, loop devices, XFS and ext4 tools, and root."""
    lacks = lacks_for_emulation()
    lacks += [f"no {name}" for name in ("losetup", "mkfs.xfs", "mkfs.ext4") if not find_program(name).present]
    if lacks:
        remedy = "as root, on a kernel with FUSE and loop devices: apt-get install mount xfsprogs e2fsprogs"
        return Means(name="emulator", present=False, evidence=", ".join(lacks), remedy=remedy)
    return Means(
        name="emulator", present=True, evidence="root, /dev/fuse, /dev/loop-control, losetup, mkfs.xfs, mkfs.ext4"
    )


def lacks_for_emulation() -> list[str]:
    """Return missing prerequisites of emulated volumes that no package installs."""
    rights = [] if os.geteuid() == 0 else ["not root"]
    return rights + [f"no {device}" for device in ("/dev/fuse", "/dev/loop-control") if not Path(device).exists()]


def chromium() -> Means:
    """Test for a Chromium of the distribution or of the vendor, for the tests of the HTML report."""
    program = find_program(*CHROMIUM_NAMES, package="chromium")
    return Means(name="browser", present=program.present, evidence=program.evidence, remedy=program.remedy)


def nfs_client(filesystems: Path = Path("/proc/filesystems")) -> Means:
    """Test for an NFS client in the running kernel; a loadable module counts only when it is loaded."""
    try:
        names = filesystems.read_text(encoding="ascii").split()
    except OSError as error:
        return Means(name="nfs", present=False, evidence=f"{filesystems}: {error.strerror}")
    present = "nfs" in names or "nfs4" in names
    evidence = f"{filesystems} {'lists' if present else 'does not list'} nfs"
    return Means(name="nfs", present=present, evidence=evidence, remedy="" if present else "modprobe nfs")


def kubernetes() -> Means:
    """Test whether the cluster of the current kubectl context is ready."""
    if not find_program("kubectl").present:
        return Means(name="kubernetes", present=False, evidence="no kubectl on PATH", remedy="install kubectl")
    answer = ask(["kubectl", "get", "--raw", "/readyz", "--request-timeout=5s"])
    remedy = "" if answer.code == 0 else "point KUBECONFIG at a cluster that answers"
    return Means(name="kubernetes", present=answer.code == 0, evidence=answer.last_line, remedy=remedy)


def root_rights(environment: Mapping[str, str] = os.environ) -> Means:
    """Test for root, or for a sudo that works without a prompt if there is no terminal."""
    if os.geteuid() == 0:
        return Means(name="root", present=True, evidence="running as root")
    if find_program("sudo").present:
        command = ["sudo", "-v"] if os.isatty(0) and not environment.get("CI") else ["sudo", "-n", "true"]
        if command[-1] == "-v" or ask(command).code == 0:
            return Means(name="root", present=True, evidence="through sudo")
    return Means(
        name="root", present=False, evidence="neither root nor sudo", remedy="run as root, or install sudo"
    )
