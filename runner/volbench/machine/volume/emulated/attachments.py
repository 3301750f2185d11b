"""What an emulated volume has attached to the machine: its mounts, loop devices and daemons.

Nothing here may hang, so no step looks into a mount: mounts are found in mountinfo, loop devices in sysfs, daemons
in /proc. Names and paths prove nothing, since a container may have the same ones. A daemon is the process that has
this volume's lock file open, which nobody else can open; a loop device is the attachment whose sequence number was
written down; a mount is the daemon's, or of that loop device.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from volbench.core.base import safe_files
from volbench.core.base.mountinfo import Mount, read_mounts
from volbench.machine.volume.emulated.commands import run

DAEMON = "volbench-volume"
LOCK = "daemon.lock"
LOOP = "loop-device"
"""Name and sequence number of the last attached loop device: the path of its file is lost with a detached mount
while another mount namespace (a container) still has the device open."""
SYS_BLOCK = Path("/sys/block")
_FUSE_SOURCE = "volbench-"
"""Begins the source of the daemon's mounts, which goes on with the profile."""
_DEVICE_NUMBER = re.compile(r"\d+:\d+")
_ANSWER_S_MAX = 2.0


@dataclass(frozen=True, kw_only=True)
class Attachments:
    """What a volume has attached to this machine now."""

    mounts: tuple[Mount, ...]
    loops: tuple[str, ...]
    daemons: tuple[int, ...]

    def __bool__(self) -> bool:
        return bool(self.mounts or self.loops or self.daemons)

    def __str__(self) -> str:
        texts = [f"mount {mount.mount_point}" for mount in self.mounts]
        texts += [f"loop device /dev/{loop}" for loop in self.loops]
        texts += [f"daemon {pid}" for pid in self.daemons]
        return ", ".join(texts) or "nothing"


def process_start_ticks(pid: int) -> int | None:
    """Return a process's start time in clock ticks since boot (field 22 of /proc/PID/stat); None after its end.

    With the pid it identifies one process for ever. A zombie counts as ended.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


def process_namespace() -> str:
    """Return what a pid of this process counts in: the boot, and the pid namespace (a container has its own)."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}:{Path('/proc/self/ns/pid').readlink()}"


def attachments(directory: Path) -> Attachments:
    """Return a volume's attachments: mounts (outermost first), loop devices, daemons."""
    return Attachments(mounts=mounts_of(directory), loops=loops_of(directory), daemons=tuple(daemons_of(directory)))


def remember_loop(directory: Path, device: Path) -> None:
    """Record this volume's attachment of a loop device; kernels before 5.15 do not number attachments."""
    number = _disk_sequence(device.name)
    if number is not None:
        with safe_files.held_directory(directory) as directory_fd:
            safe_files.write_new(directory_fd, LOOP, f"{device.name} {number}".encode())


def forget_loop(directory: Path) -> None:
    """Remove what was written down of an earlier attachment, before another one is made."""
    with contextlib.suppress(FileNotFoundError), safe_files.held_directory(directory) as descriptor:
        os.unlink(LOOP, dir_fd=descriptor)


def mounts_below(directory: Path) -> tuple[Mount, ...]:
    """Return all mounts inside a directory, whoever made them."""
    prefix = f"{directory.resolve()}/"
    return tuple(mount for mount in read_mounts() if mount.mount_point.startswith(prefix))


def mounts_of(directory: Path) -> tuple[Mount, ...]:
    """Return the volume's own mounts: the daemon's FUSE mounts, and the file system on its loop device."""
    below = mounts_below(directory)
    if not below:
        return ()
    paths = {str(directory.resolve() / name) for name in ("data", "image")}
    devices = {_device_number(loop) for loop in loops_of(directory)}
    return tuple(
        mount
        for mount in below
        if mount.mount_point in paths and (_is_daemons(mount) or mount.device_number in devices)
    )


def _is_daemons(mount: Mount) -> bool:
    return mount.filesystem.startswith("fuse") and mount.source.startswith(_FUSE_SOURCE)


def _device_number(loop: str) -> str | None:
    try:
        return (SYS_BLOCK / loop / "dev").read_text(encoding="ascii").strip()
    except OSError:
        return None


def loops_of(directory: Path) -> tuple[str, ...]:
    """Return the loop device that was written down; where none was, those of the volume's image."""
    remembered = _remembered_loop(directory)
    if remembered:
        return tuple(remembered)
    image = f"{directory.resolve()}/image/disk.img"
    attachments = []
    for file in SYS_BLOCK.glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):  # detached meanwhile
            name = file.parent.parent.name
            path = file.read_text(encoding="utf-8", errors="surrogateescape").strip()
            if path == image and _is_on_the_image(name, directory):
                attachments.append(name)
    return tuple(sorted(attachments))


def _is_on_the_image(loop: str, directory: Path) -> bool:
    """Return whether the file of a loop device is on the volume's FUSE mount.

    Its path may be that of another namespace.

    The kernel asks the daemon for that. Where that one is dead there is no answer, and path and mount decide.
    """
    image = f"{directory.resolve()}/image"
    own = {
        mount.device_number
        for mount in mounts_below(directory)
        if mount.mount_point == image and _is_daemons(mount)
    }
    argv = ["losetup", "--list", "--noheadings", "--output", "BACK-MAJ:MIN", f"/dev/{loop}"]
    answer = run(argv, timeout_s=_ANSWER_S_MAX)
    return bool(own) and (answer.output in own or not _DEVICE_NUMBER.fullmatch(answer.output))


def _remembered_loop(directory: Path) -> list[str]:
    """Return the recorded device, if it is the same attachment: sequence numbers are never reused."""
    try:
        name, number = (directory / LOOP).read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return []
    attached = (SYS_BLOCK / name / "loop" / "backing_file").exists()
    return [name] if attached and _disk_sequence(name) == number else []


def _disk_sequence(name: str) -> str | None:
    """Return the device's sequence number, which counts attachments since boot."""
    try:
        return (SYS_BLOCK / name / "diskseq").read_text(encoding="ascii").strip()
    except OSError:
        return None


def daemons_of(directory: Path) -> list[int]:
    """Return the processes that hold the volume's lock, as a rule one."""
    pids = []
    resolved = directory.resolve()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            if not is_daemon_of(entry, resolved):
                continue
            if process_start_ticks(int(entry.name)) is not None:
                pids.append(int(entry.name))
    return pids


def is_daemon_of(process: Path, directory: Path) -> bool:
    """Return whether /proc/PID is the daemon of a volume: of its name, in its directory, with its lock file open.

    None of that needs the memory map, which a process that hangs may hold. Raises OSError when it is gone.
    """
    if not is_daemon(process) or (process / "cwd").readlink() != directory:
        return False
    lock = directory / LOCK
    own = lock.lstat()
    for descriptor in (process / "fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            if descriptor.readlink() == lock and os.path.samestat(descriptor.stat(), own):
                return True
    return False


def is_daemon(process: Path) -> bool:
    """Return whether /proc/PID is a daemon of this user: the name alone proves nothing, processes choose their own.

    Raises OSError if the process is gone.
    """
    if (process / "comm").read_text(errors="replace").strip() != DAEMON:
        return False
    status = (process / "status").read_text(errors="replace")
    users = next((line.split()[1:] for line in status.splitlines() if line.startswith("Uid:")), [])
    return set(users) == {str(os.geteuid())}  # a set-user-ID program keeps its caller's real user
