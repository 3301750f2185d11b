"""Where the observed server's data is: found by its process and the mounts that it sees, never guessed."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from volbench.core.base.mountinfo import Mount, mount_of, read_mounts
from volbench.core.records.facts import HostFacts, VolumeFacts
from volbench.errors import MissingPrerequisite, UsageError
from volbench.machine.host.host import host_facts
from volbench.machine.volume.emulated.control import CONTROL_SOCKET
from volbench.machine.volume.emulated.status import emulated_behind
from volbench.machine.volume.facts.discovery import discover, facts_of
from volbench.measure.sample.cgroup.cgroup_cpu import find_cpu_files
from volbench.measure.sample.cgroup.cgroup_io import find_directory
from volbench.observe.server import ObservedServer, listening_process

AUTO, NONE = "auto", "none"
SERVERS = frozenset({"mysqld", "mariadbd"})
PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, kw_only=True)
class ObservedHost:
    """What of the server's host is seen from here; empty: nothing. `notes` says what is missing, and why."""

    pid: int | None = None
    host: HostFacts | None = None
    volume: VolumeFacts | None = None
    cgroup_dir: str = ""
    cpu_files: tuple[str, ...] = ()
    emulator_socket: str = ""
    notes: tuple[str, ...] = field(default=())


def find_place(server: ObservedServer, volume: str) -> ObservedHost:
    """Look for the server's process and its volume.

    Args:
        server: as it was asked.
        volume: `auto`, `none`, or the path of the data directory or its mount on this machine.

    Raises UsageError for a path that is not there.
    """
    if volume == NONE:
        return ObservedHost(notes=("--volume none: no metrics of the host and its storage",))
    if volume != AUTO:
        return _requested_place(Path(volume), server)
    if not server.local and process_with_address(server) is None:
        return ObservedHost(
            notes=(
                f"the server is on another machine ({server.address}): no metrics of its host and storage; run"
                " volbench there, or add what CloudWatch recorded (`volbench observe report DIR --add FILE`)",
            )
        )
    pid = find_process(server)
    if pid is None:
        return _without_process(server)
    facts, note = _volume_of(pid, server.datadir)
    return _of(facts, pid, [note] if note else [])


def _requested_place(path: Path, server: ObservedServer) -> ObservedHost:
    if not path.exists():
        raise UsageError(
            "there is no such path",
            where=f"--volume {path}",
            next_step="give the data directory or its mount point",
        )
    return _of(discover(path), find_process(server), [])


def _without_process(server: ObservedServer) -> ObservedHost:
    reason = f"the server's process is not seen from here (datadir {server.datadir}, host name {server.hostname})"
    if os.uname().nodename == server.hostname and Path(server.datadir).is_dir():
        return _of(discover(Path(server.datadir)), None, [f"{reason}: its volume is that of the same path here"])
    return ObservedHost(
        notes=(f"{reason}: no metrics of its host and storage; run volbench as root, or give --volume PATH",)
    )


def _of(facts: VolumeFacts | None, pid: int | None, notes: list[str]) -> ObservedHost:
    emulated = emulated_behind(facts.mount_point) if facts is not None else None
    if facts is not None and emulated is not None:
        facts = facts.model_copy(update=emulated[1])
    if facts is not None and facts.memory_backed:
        notes.append("the data directory is in memory: there is no device to watch")
    elif facts is not None and facts.disk is None and facts.nfs_server is None and emulated is None:
        notes.append(f"no device is known behind {facts.path} ({facts.filesystem}): {'; '.join(facts.notes)}")
    group = _text(PROC / str(pid) / "cgroup") if pid is not None else ""
    return ObservedHost(
        pid=pid,
        host=host_facts(),
        volume=facts,
        cgroup_dir=str(find_directory(group, CGROUPS) or "") if group else "",
        cpu_files=find_cpu_files(group, CGROUPS) if group else (),
        emulator_socket=str(emulated[0] / CONTROL_SOCKET) if emulated is not None else "",
        notes=tuple(notes),
    )


def find_process(server: ObservedServer, proc: Path = PROC) -> int | None:
    """The server's process as this machine numbers it; None when it is not seen.

    It is the one behind the Unix socket, or the one that listens on the port, or that whose own file system has the
    server's pid file with the number that this process has in its own PID namespace.
    """
    if server.peer_pid is not None and _is_server(server.peer_pid, proc):
        return server.peer_pid
    if not server.local:
        return process_with_address(server, proc)
    if not server.address.startswith("unix:"):
        listening = listening_process(int(server.address.rpartition(":")[2]), proc)
        if listening is not None and _is_server(listening, proc):
            return listening
    candidates = _servers(proc)
    matching = [pid for pid in candidates if _has_pid_file(pid, server, proc)]
    return matching[0] if len(matching) == 1 else None


def _servers(proc: Path) -> list[int]:
    """Return the processes that are servers."""
    pids = [int(entry.name) for entry in proc.iterdir() if entry.name.isdecimal()]
    return [pid for pid in pids if _is_server(pid, proc)]


def process_with_address(server: ObservedServer, proc: Path = PROC) -> int | None:
    """The server in a container of this machine whose own network has the address that we connect to."""
    host = server.address.rpartition(":")[0].strip("[]")
    try:
        address = socket.gethostbyname(host)
    except OSError:
        return None
    candidates = _servers(proc)
    own = [pid for pid in candidates if _has_address(_text(proc / str(pid) / "net/fib_trie"), address)]
    return own[0] if len(own) == 1 else None


def _has_address(fib_trie: str, address: str) -> bool:
    """Whether a network namespace's table of routes has an address as one of its own."""
    lines = fib_trie.splitlines()
    return any(
        line.strip() == f"|-- {address}" and "host LOCAL" in following for line, following in pairwise(lines)
    )


def _is_server(pid: int, proc: Path) -> bool:
    return _text(proc / str(pid) / "comm").strip() in SERVERS


def _has_pid_file(pid: int, server: ObservedServer, proc: Path) -> bool:
    root = proc / str(pid) / "root"
    numbers = [
        line.split()[1:] for line in _text(proc / str(pid) / "status").splitlines() if line.startswith("NSpid:")
    ]
    if not server.pid_file or not numbers or not numbers[0]:
        return False
    within = Path(server.pid_file if server.pid_file.startswith("/") else f"{server.datadir}/{server.pid_file}")
    name = _text(root / "etc/hostname").strip()
    same_host = server.hostname in {name, os.uname().nodename}
    return same_host and _text(root / within.relative_to("/")).strip() == numbers[0][-1]


def _volume_of(pid: int, datadir: str) -> tuple[VolumeFacts | None, str]:
    """The facts of a directory as a process sees it, and what is missing."""
    process = PROC / str(pid)
    try:
        if (process / "ns/mnt").readlink() == (PROC / "self/ns/mnt").readlink():
            return discover(Path(datadir)), ""
        device = (process / "root" / datadir.lstrip("/")).stat().st_dev
        mounts = read_mounts(process / "mountinfo")
    except (OSError, MissingPrerequisite) as error:
        return None, f"the mounts of the server's process {pid} cannot be read ({error}): run volbench as root"
    mount = _mount_with(mounts, f"{os.major(device)}:{os.minor(device)}", datadir)
    return _below_overlay(facts_of(datadir, mounts, mount=mount, contained=False), mount), ""


def _below_overlay(facts: VolumeFacts, mount: Mount | None) -> VolumeFacts:
    """With the device of a container's layer, whose directory is seen on the host alone."""
    upper = mount.option("upperdir") if mount is not None and facts.overlay and facts.disk is None else None
    if upper is None or not Path(upper).is_dir():
        return facts
    below = discover(Path(upper))
    note = f"the data directory is in a container's layer, which is in {upper} on {below.filesystem}"
    return facts.model_copy(update={"device": below.device, "disk": below.disk, "notes": (note,)})


def _mount_with(mounts: tuple[Mount, ...], device_number: str, path: str) -> Mount | None:
    """The mount of this file system that holds the path; the path may go over symbolic links of the container."""
    mount = mount_of(path, mounts)
    if mount is not None and mount.device_number == device_number:
        return mount
    return next((candidate for candidate in reversed(mounts) if candidate.device_number == device_number), mount)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
