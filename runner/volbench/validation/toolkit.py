"""Percona Toolkit's programs: the installed ones, else those of the tools image on the local Docker engine.

A program gets its files, credentials among them, in memory: by descriptors here, through the standard input into a
tmpfs of a container. So no password is on a command line, in an environment, in what `docker inspect` shows, or on
a disk. The program ends with this process.
"""

from __future__ import annotations

import io
import math
import os
import stat
import subprocess
import tarfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from volbench.core.base import programs
from volbench.core.base.confinement import Confinement
from volbench.core.base.environment import CONTAINERS
from volbench.machine.placement import capabilities
from volbench.machine.placement.docker import image_names

if TYPE_CHECKING:  # the extra `server`, which `doctor` does without
    from volbench.machine.engine.connection import Account

ToolName = Literal["pt-upgrade", "pt-config-diff", "pt-variable-advisor"]
PROGRAMS: tuple[ToolName, ...] = get_args(ToolName)
"""Every program of Percona Toolkit that volbench runs."""
VERSION_TIMEOUT_S = 60.0
_START_S = 60.0
"""For a container to start, in addition to the program's own time."""
_MEMORY_BYTES = 2 << 30
_PROCESSES = 16
"""They ask `uname` and `hostname`."""
_INSIDE = "/run/volbench"
_TMPFS_BYTES = 192 * 2**20
_SCRIPT = """
cd /run/volbench && exec 3<&0 && head -c "$1" | tar -x -f - || exit 125
shift
"$@" </dev/null 3<&- & tool=$!
{ cat <&3 >/dev/null; kill -KILL "$tool"; } 2>/dev/null &
wait "$tool"
"""
"""Takes the files first; then the standard input is only watched: it ends with the process that validates."""

Arguments = Callable[[Mapping[str, str]], Sequence[str]]
"""From the paths of the files, as the program sees them, to its arguments."""


class Toolkit(Protocol):
    """A program that can be run."""

    @property
    def image(self) -> str:
        """The image of its container; empty for a program of this machine."""

    def run(
        self, arguments: Arguments, files: Mapping[str, str], *, timeout_s: float, accounts: Sequence[Account] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run the program with files in memory. Raise OSError, subprocess.TimeoutExpired."""


def find_toolkit(name: ToolName) -> Toolkit | None:
    """Return the installed program, else that of a local tools image; None without both."""
    installed = programs.find_program(name)
    if installed is not None:
        return InstalledProgram(path=installed)
    image = local_tools_image()
    return ContainerProgram(name=name, image=image) if image else None


def local_tools_image() -> str:
    """Return the tools image of this code, else the newest of any code; empty if the local engine has none.

    An engine of another machine is no help: its containers reach neither this machine's sockets nor its loopback.
    """
    if not os.environ.get("DOCKER_HOST", "unix:").startswith("unix:") or not capabilities.docker_engine().present:
        return ""
    if capabilities.docker_image(image_names.tools_image()).present:
        return image_names.tools_image()
    prefix = f"{image_names.TOOLS_REPOSITORY}:"
    return next((name for name in image_names.local_images() if name.startswith(prefix)), "")  # newest first


def version_of(toolkit: Toolkit) -> str:
    """Return the program's version, `?` if it does not say."""
    try:
        printed = toolkit.run(lambda _: ["--version"], {}, timeout_s=VERSION_TIMEOUT_S).stdout.split()
    except (OSError, subprocess.TimeoutExpired):
        return "?"
    return printed[-1] if printed else "?"


@dataclass(frozen=True, kw_only=True)
class InstalledProgram:
    """A program of this machine."""

    path: str
    image: str = ""

    def run(
        self,
        arguments: Arguments,
        files: Mapping[str, str],
        *,
        timeout_s: float,
        accounts: Sequence[Account] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Run it, confined: it reads names and statements of others. It ends with this process."""
        bounds = Confinement(memory_bytes=_MEMORY_BYTES, cpu_s=math.ceil(timeout_s), processes=_PROCESSES)
        if not all(map(_is_open_to_others, _files_of(accounts))):
            bounds = replace(bounds, user=None)  # another user would not get to the server
        with ExitStack() as stack:
            descriptors = {name: _in_memory(text) for name, text in files.items()}
            for number in descriptors.values():
                stack.callback(os.close, number)
                bounds.give(number)
            paths = {name: f"/dev/fd/{number}" for name, number in descriptors.items()}
            return programs.run(
                [self.path, *arguments(paths)],
                confined=bounds,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
                pass_fds=tuple(descriptors.values()),
                env=programs.environment(LC_ALL="C", HOME="/nonexistent"),
            )


@dataclass(frozen=True, kw_only=True)
class ContainerProgram:
    """A program of the tools image, in a container of its own that keeps nothing."""

    name: ToolName
    image: str

    def run(
        self, arguments: Arguments, files: Mapping[str, str], *, timeout_s: float, accounts: Sequence[Account] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run it; it is killed when the standard input of its container ends."""
        payload = _archive(files)
        paths = {name: f"{_INSIDE}/{name}" for name in files}
        argv = [
            "docker",
            "run",
            "--rm",
            "--interactive",
            "--log-driver=none",
            "--pull=never",
            "--read-only",
            "--cap-drop=ALL",
            "--security-opt=no-new-privileges",
            f"--user={os.getuid()}:{os.getgid()}",
            "--env=LC_ALL=C",
            "--label=org.volbench.validation=1",
            *_reach(accounts),
            f"--tmpfs={_INSIDE}:rw,noexec,nosuid,mode=0700,size={_TMPFS_BYTES},uid={os.getuid()},gid={os.getgid()}",
            "--entrypoint=sh",
            self.image,
            "-c",
            _SCRIPT,
            "volbench",
            str(len(payload)),
            self.name,
            *arguments(paths),
        ]
        reader, writer = os.pipe()
        feeding = threading.Thread(target=_feed, args=(writer, payload), daemon=True)
        feeding.start()
        try:
            return programs.run(
                argv,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s + _START_S,
                check=False,
                stdin=reader,
                env=programs.environment(*CONTAINERS),
                gains_privileges=True,  # Docker of a snap
            )
        finally:
            os.close(reader)  # first: a writer that still waits has no reader then
            feeding.join()
            os.close(writer)


def _files_of(accounts: Sequence[Account]) -> list[Path]:
    """Return the sockets and certificates that a client of these accounts opens."""
    names = [
        name
        for account in accounts
        for name in (
            [account.socket] if account.socket else [account.tls.ssl_ca, account.tls.ssl_cert, account.tls.ssl_key]
        )
    ]
    return [Path(name) for name in names if name]


def _is_open_to_others(path: Path) -> bool:
    """Return whether every user may read a file, or connect to a socket."""
    try:
        real = path.resolve(strict=True)
        mode = real.stat().st_mode
        is_reachable = all(parent.stat().st_mode & stat.S_IXOTH for parent in real.parents)
    except OSError:
        return False
    permission = stat.S_IWOTH if stat.S_ISSOCK(mode) else stat.S_IROTH
    return is_reachable and bool(mode & permission)


def _reach(accounts: Sequence[Account]) -> list[str]:
    """Return the options of `docker run` for the servers' sockets, networks and certificates, and nothing else."""
    over_tcp = any(not account.socket for account in accounts)
    mounts = {
        str(Path(account.socket).resolve().parent): str(Path(account.socket).parent)
        for account in accounts
        if account.socket
    }
    for account in accounts:
        tls = account.tls
        mounts |= {path: path for path in (tls.ssl_ca, tls.ssl_cert, tls.ssl_key) if path and not account.socket}
    options = [f"--network={'host' if over_tcp else 'none'}"]
    for source, target in mounts.items():
        options += ["--mount", f"type=bind,source={source},target={target},readonly"]
    return options


def _feed(writer: int, payload: bytes) -> None:
    with suppress(OSError):  # the container is gone
        unsent = memoryview(payload)
        while unsent:
            unsent = unsent[os.write(writer, unsent) :]


def _archive(files: Mapping[str, str]) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, text in files.items():
            content = text.encode("utf-8", "surrogateescape")
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o600
            entry.uid, entry.gid = os.getuid(), os.getgid()
            tar.addfile(entry, io.BytesIO(content))
    return archive.getvalue()


def _in_memory(text: str) -> int:
    """Return a descriptor of a file in memory, which vanishes with the last process that has it open."""
    number = os.memfd_create("volbench")
    os.fchmod(number, 0o600)  # the client ignores option files that everybody may write
    with os.fdopen(os.dup(number), "wb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))
    return number
