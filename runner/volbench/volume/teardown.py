"""What an emulated volume attaches to the machine: how it is found, and taken down in the right order.

The order is: file system, loop device, FUSE mount; then the daemon ends by itself. Nothing here may hang, so no
step looks into a mount: mounts are found in mountinfo, loop devices in sysfs, daemons in /proc.
Names and paths prove nothing, since a container may have the same ones. A daemon is the process that has this
volume's lock file open, which nobody else can open; a loop device is the attachment whose sequence number was
written down; a mount is the daemon's, or of that loop device. Nothing else is signalled, detached or unmounted.
A step that does not end in its time makes us abort the FUSE connection, which fails whatever waits for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from volbench.base import programs, safe_files
from volbench.errors import StepFailed
from volbench.volume.mountinfo import Mount, read_mounts

FUSE_CONNECTIONS = Path("/sys/fs/fuse/connections")
DAEMON = "volbench-volume"
LOCK = "daemon.lock"
LOOP = "loop-device"
"""Name and sequence number of the loop device that was attached last: its file's path is lost with a mount that is
detached while somebody (a container with a copy of our mounts) still holds the device."""
SYS_BLOCK = Path("/sys/block")
STEP_S_MAX = 30.0
STARTING_S_MAX = 10.0
ABORTED_STEP_S_MAX = 10.0
LOOP_RELEASE_S_MAX = 15.0
_POLL_S = 0.02
_OUTPUT_BYTES_MAX = 4000
_FUSE_SOURCE = "volbench-"
"""Begins the source of the daemon's mounts, which goes on with the profile."""
_DEVICE_NUMBER = re.compile(r"\d+:\d+")
_ANSWER_S_MAX = 2.0


@dataclass(frozen=True, kw_only=True)
class Done:
    """How a command ended: its exit code, None when it did not end in time; and what it printed."""

    code: int | None
    output: str


@dataclass(frozen=True, kw_only=True)
class Attachments:
    """What a volume's directory has attached to this machine now."""

    mounts: tuple[Mount, ...]
    loops: tuple[str, ...]
    daemons: tuple[int, ...]

    def __bool__(self) -> bool:
        return bool(self.mounts or self.loops or self.daemons)

    def __str__(self) -> str:
        parts = [f"mount {mount.mount_point}" for mount in self.mounts]
        parts += [f"loop device /dev/{loop}" for loop in self.loops]
        parts += [f"daemon {pid}" for pid in self.daemons]
        return ", ".join(parts) or "nothing"


def run(argv: Sequence[str], *, timeout_s: float = STEP_S_MAX) -> Done:
    """Run a command and wait for it, but never longer than its time.

    A command that hangs in the kernel cannot be killed, so it is left behind, not waited for.
    """
    with tempfile.TemporaryFile() as output:
        process = programs.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            code: int | None = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
            code = None
        output.seek(0)
        return Done(code=code, output=output.read(_OUTPUT_BYTES_MAX).decode(errors="replace").strip())


def wait_until(condition: Callable[[], bool], *, timeout_s: float) -> bool:
    """Ask until a condition holds; False when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def started_at(pid: int) -> int | None:
    """When a process was started, in clock ticks since boot (field 22 of /proc/PID/stat); None when it is gone.

    With the pid it names one process for ever. A zombie counts as gone.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


def attachments(directory: Path) -> Attachments:
    """What a volume's directory has attached: mounts (outermost first), loop devices, daemons."""
    return Attachments(mounts=_mounts(directory), loops=_loops(directory), daemons=tuple(_daemons(directory)))


def remember_loop(directory: Path, device: Path) -> None:
    """Write down which attachment of a loop device is this volume's; kernels before 5.15 do not number them."""
    number = _disk_sequence(device.name)
    if number is not None:
        with safe_files.held_directory(directory) as held:
            safe_files.write_new(held, LOOP, f"{device.name} {number}".encode())


def forget_loop(directory: Path) -> None:
    """Remove what was written down of an earlier attachment, before another one is made."""
    with contextlib.suppress(FileNotFoundError), safe_files.held_directory(directory) as held:
        os.unlink(LOOP, dir_fd=held)


def is_locked(directory: Path) -> bool:
    """Whether a daemon lives, from before its first instruction on: it inherits a lock that nobody else holds."""
    try:
        with (directory / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: who only asks is not in another's way
    except BlockingIOError:
        return True
    except OSError:  # there was never one
        return False
    return False


def take_lock(file: BinaryIO) -> bool:
    """Lock a volume's lock file, to be inherited by its daemon; False when somebody else's daemon has it."""

    def taken() -> bool:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    return wait_until(taken, timeout_s=1.0)  # who only asks lets go at once


def abort(directory: Path) -> None:
    """Abort the FUSE connections of a directory: every waiting and every later request fails at once."""
    for mount in _mounts(directory):
        if not mount.filesystem.startswith("fuse"):
            continue
        if not any(found.mount_point == str(FUSE_CONNECTIONS) for found in read_mounts()):
            run(["mount", "-t", "fusectl", "none", str(FUSE_CONNECTIONS)], timeout_s=ABORTED_STEP_S_MAX)
        connection = FUSE_CONNECTIONS / mount.device_number.partition(":")[2] / "abort"
        with contextlib.suppress(OSError):  # gone already
            connection.write_text("1", encoding="ascii")


def take_down(directory: Path, *, force: bool) -> None:
    """Take everything down that a volume's directory has attached.

    Args:
        force: detach file systems that are in use, and abort at once; for what a killed process has left.

    Raises StepFailed naming what is still there, and before anything is done for what somebody else has mounted.
    """
    _refuse_foreign_mounts(directory)
    # Who was killed while starting a daemon has left one that is yet to show itself.
    wait_until(lambda: bool(_daemons(directory)) or not is_locked(directory), timeout_s=STARTING_S_MAX)
    if force:
        abort(directory)
    used, below = _layers(directory)
    for mount in used:
        force = _unmount(directory, mount, force=force, patience_s=0.0) or force
    for loop in _loops(directory):
        run(["losetup", "-d", f"/dev/{loop}"], timeout_s=ABORTED_STEP_S_MAX)
    for mount in below:
        # A loop device lets go of its file a moment after it is told to. Where the file system lives on in a copy
        # of our mounts (a container that was starting meanwhile), never: it is synced, so it may be cut off.
        patience_s = ABORTED_STEP_S_MAX if force else LOOP_RELEASE_S_MAX
        _unmount(directory, mount, force=True, patience_s=patience_s)
    _end_daemons(directory)
    for mount in reversed(_mounts(directory)):  # of a daemon that was still mounting
        _unmount(directory, mount, force=True, patience_s=1.0)
    left = attachments(directory)
    if left:
        raise StepFailed(
            "an emulated volume could not be taken down",
            where=str(directory),
            evidence=f"still there: {left}",
            next_step="stop whoever uses it (see `fuser -vm`), then run `volbench volume remove` again",
        )


def _refuse_foreign_mounts(directory: Path) -> None:
    """Raises StepFailed for a mount inside the directory that is not the volume's: it would be detached as well."""
    own = {mount.mount_id for mount in _mounts(directory)}
    foreign = [mount.mount_point for mount in _mounts_below(directory) if mount.mount_id not in own]
    if foreign:
        raise StepFailed(
            "an emulated volume cannot be taken down: something else is mounted inside its directory",
            where=str(directory),
            evidence=", ".join(foreign),
            next_step=f"unmount it first: umount {foreign[-1]}",
        )


def _layers(directory: Path) -> tuple[list[Mount], list[Mount]]:
    """The mounts that are used, innermost first; and those that carry a loop device's image."""
    mounts = list(reversed(_mounts(directory)))
    image = str(directory.resolve() / "image")
    return [mount for mount in mounts if mount.mount_point != image], [
        mount for mount in mounts if mount.mount_point == image
    ]


def _unmount(directory: Path, mount: Mount, *, force: bool, patience_s: float) -> bool:
    """Unmount; whether it had to be forced. Raises StepFailed when it is in use and must not be forced."""
    last = Done(code=None, output="")
    if not force:
        run(["sync", "-f", mount.mount_point])

    def ended() -> bool:
        nonlocal last
        last = run(["umount", mount.mount_point], timeout_s=ABORTED_STEP_S_MAX if force else STEP_S_MAX)
        return last.code in (0, None) or not _is_mounted(mount)

    if wait_until(ended, timeout_s=patience_s) and last.code is not None:
        return False
    if last.code is not None and not force:
        raise StepFailed(
            "an emulated volume is in use",
            where=mount.mount_point,
            evidence=last.output,
            next_step="stop whoever uses it (see `fuser -vm`)",
        )
    abort(directory)
    if not wait_until(lambda: not _is_mounted(mount), timeout_s=1.0):
        run(["umount", "-l", mount.mount_point], timeout_s=ABORTED_STEP_S_MAX)
    return True


def _is_mounted(mount: Mount) -> bool:
    return any(found.mount_id == mount.mount_id for found in read_mounts())


def _end_daemons(directory: Path) -> None:
    """A daemon ends when its mount is gone; one that does not is told to, then killed."""
    for number in (0, signal.SIGTERM, signal.SIGKILL):
        for pid in _daemons(directory):
            _signal_daemon(pid, number, directory)
        if wait_until(lambda: not _daemons(directory), timeout_s=5.0):
            break
    # A process that is gone by its name still waits for its I/O, and has its lock as long.
    wait_until(lambda: not is_locked(directory), timeout_s=5.0)


def _signal_daemon(pid: int, number: int, directory: Path) -> None:
    """Signal a process through a descriptor that was opened before it was looked at: the pid may be given anew."""
    try:
        process = os.pidfd_open(pid)
    except OSError:  # it has ended
        return
    try:
        with contextlib.suppress(OSError):  # it ends meanwhile
            if _is_daemon_of(Path(f"/proc/{pid}"), directory.resolve()):
                signal.pidfd_send_signal(process, number)
    finally:
        os.close(process)


def _mounts_below(directory: Path) -> tuple[Mount, ...]:
    prefix = f"{directory.resolve()}/"
    return tuple(mount for mount in read_mounts() if mount.mount_point.startswith(prefix))


def _mounts(directory: Path) -> tuple[Mount, ...]:
    """The volume's own: the daemon's FUSE mounts, and the file system on its loop device."""
    below = _mounts_below(directory)
    if not below:
        return ()
    places = {str(directory.resolve() / name) for name in ("data", "image")}
    devices = {_device_number(loop) for loop in _loops(directory)}
    return tuple(
        mount
        for mount in below
        if mount.mount_point in places and (_is_daemons(mount) or mount.device_number in devices)
    )


def _is_daemons(mount: Mount) -> bool:
    return mount.filesystem.startswith("fuse") and mount.source.startswith(_FUSE_SOURCE)


def _device_number(loop: str) -> str | None:
    try:
        return (SYS_BLOCK / loop / "dev").read_text(encoding="ascii").strip()
    except OSError:
        return None


def _loops(directory: Path) -> tuple[str, ...]:
    """The attachment that was written down; where none was, those of the volume's image."""
    remembered = _remembered_loop(directory)
    if remembered:
        return tuple(remembered)
    image = f"{directory.resolve()}/image/disk.img"
    found = []
    for file in SYS_BLOCK.glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):  # detached meanwhile
            name = file.parent.parent.name
            path = file.read_text(encoding="utf-8", errors="surrogateescape").strip()
            if path == image and _is_on_the_image(name, directory):
                found.append(name)
    return tuple(sorted(found))


def _is_on_the_image(loop: str, directory: Path) -> bool:
    """Whether the file of a loop device is on the volume's FUSE mount: its path may be that of another namespace.

    The kernel asks the daemon for that. Where that one is dead there is no answer, and path and mount decide.
    """
    image = f"{directory.resolve()}/image"
    own = {
        mount.device_number
        for mount in _mounts_below(directory)
        if mount.mount_point == image and _is_daemons(mount)
    }
    argv = ["losetup", "--list", "--noheadings", "--output", "BACK-MAJ:MIN", f"/dev/{loop}"]
    answer = run(argv, timeout_s=_ANSWER_S_MAX)
    return bool(own) and (answer.output in own or not _DEVICE_NUMBER.fullmatch(answer.output))


def _remembered_loop(directory: Path) -> list[str]:
    """The device that was written down, while it is the same attachment: its number is never given again."""
    try:
        name, number = (directory / LOOP).read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return []
    attached = (SYS_BLOCK / name / "loop" / "backing_file").exists()
    return [name] if attached and _disk_sequence(name) == number else []


def _disk_sequence(name: str) -> str | None:
    """Counts what was ever attached to any device since boot."""
    try:
        return (SYS_BLOCK / name / "diskseq").read_text(encoding="ascii").strip()
    except OSError:
        return None


def _daemons(directory: Path) -> list[int]:
    """The processes that hold the volume's lock, as a rule one."""
    found = []
    place = directory.resolve()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if not _is_daemon_of(entry, place):
                continue
            if started_at(int(entry.name)) is not None:
                found.append(int(entry.name))
    return found


def _is_daemon_of(process: Path, directory: Path) -> bool:
    """Whether /proc/PID is the daemon of a volume: of its name, in its directory, with its lock file open.

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
    """Whether /proc/PID is a daemon of this user's: a name alone proves nothing, every process may choose its own.

    Raises OSError when the process is gone.
    """
    if (process / "comm").read_text(errors="replace").strip() != DAEMON:
        return False
    status = (process / "status").read_text(errors="replace")
    users = next((line.split()[1:] for line in status.splitlines() if line.startswith("Uid:")), [])
    return set(users) == {str(os.geteuid())}  # a set-user-ID program keeps the real user of who started it
