"""What an emulated volume attaches to the machine: how to find it, and take it down in the right order.

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
from volbench.volume.facts.mountinfo import Mount, read_mounts

FUSE_CONNECTIONS = Path("/sys/fs/fuse/connections")
DAEMON = "volbench-volume"
LOCK = "daemon.lock"
LOOP = "loop-device"
"""Name and sequence number of the last attached loop device: the path of its file is lost with a detached mount
while another mount namespace (a container) still has the device open."""
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
class CompletedCommand:
    """Exit code of a command, None if it did not end in time, and its output."""

    code: int | None
    output: str


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


def run(argv: Sequence[str], *, timeout_s: float = STEP_S_MAX) -> CompletedCommand:
    """Run a command and wait for it, at most `timeout_s`.

    A command that hangs in the kernel cannot be killed; this does not wait for it.
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
        return CompletedCommand(code=code, output=output.read(_OUTPUT_BYTES_MAX).decode(errors="replace").strip())


def wait_until(condition: Callable[[], bool], *, timeout_s: float) -> bool:
    """Poll until a condition is true; return False at the timeout."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def process_start_ticks(pid: int) -> int | None:
    """Return a process's start time in clock ticks since boot (field 22 of /proc/PID/stat); None after its end.

    With the pid it identifies one process for ever. A zombie counts as ended.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


def attachments(directory: Path) -> Attachments:
    """Return a volume's attachments: mounts (outermost first), loop devices, daemons."""
    return Attachments(mounts=_mounts(directory), loops=_loops(directory), daemons=tuple(_daemons(directory)))


def remember_loop(directory: Path, device: Path) -> None:
    """Record this volume's attachment of a loop device; kernels before 5.15 do not number attachments."""
    number = _disk_sequence(device.name)
    if number is not None:
        with safe_files.held_directory(directory) as directory_fd:
            safe_files.write_new(directory_fd, LOOP, f"{device.name} {number}".encode())


def forget_loop(directory: Path) -> None:
    """Remove what was written down of an earlier attachment, before another one is made."""
    with contextlib.suppress(FileNotFoundError), safe_files.held_directory(directory) as held:
        os.unlink(LOOP, dir_fd=held)


def is_locked(directory: Path) -> bool:
    """Return whether a daemon lives, from before its first instruction on: it inherits a lock of its own."""
    try:
        with (directory / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: queries do not block each other
    except BlockingIOError:
        return True
    except OSError:  # there was never a daemon
        return False
    return False


def take_lock(file: BinaryIO) -> bool:
    """Lock a volume's lock file for its daemon to inherit; return False if another daemon has the lock."""

    def locked() -> bool:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    return wait_until(locked, timeout_s=1.0)  # queries release the lock at once


def abort(directory: Path) -> None:
    """Abort the FUSE connections of a directory: every waiting and every later request fails at once."""
    for mount in _mounts(directory):
        if not mount.filesystem.startswith("fuse"):
            continue
        if not any(mounted.mount_point == str(FUSE_CONNECTIONS) for mounted in read_mounts()):
            run(["mount", "-t", "fusectl", "none", str(FUSE_CONNECTIONS)], timeout_s=ABORTED_STEP_S_MAX)
        connection = FUSE_CONNECTIONS / mount.device_number.partition(":")[2] / "abort"
        with contextlib.suppress(OSError):  # gone already
            connection.write_text("1", encoding="ascii")


def take_down(directory: Path, *, force: bool) -> None:
    """Take down everything that a volume has attached.

    Args:
        force: detach file systems in use, and abort at once; for leftovers of a killed process.

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
        # A loop device releases its file a moment after its detach; never while another mount namespace (a
        # container that was just starting) has the file system mounted: it is synced, so it may be cut off.
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
            evidence=f"still attached: {left}",
            next_step="stop its users (see `fuser -vm`), then run `volbench volume remove` again",
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
    """Return the mounts for users, innermost first, and those with a loop device's image."""
    mounts = list(reversed(_mounts(directory)))
    image = str(directory.resolve() / "image")
    return [mount for mount in mounts if mount.mount_point != image], [
        mount for mount in mounts if mount.mount_point == image
    ]


def _unmount(directory: Path, mount: Mount, *, force: bool, patience_s: float) -> bool:
    """Unmount; return whether force was needed. Raise StepFailed if it is in use and `force` is False."""
    last = CompletedCommand(code=None, output="")
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
            next_step="stop its users (see `fuser -vm`)",
        )
    abort(directory)
    if not wait_until(lambda: not _is_mounted(mount), timeout_s=1.0):
        run(["umount", "-l", mount.mount_point], timeout_s=ABORTED_STEP_S_MAX)
    return True


def _is_mounted(mount: Mount) -> bool:
    return any(mounted.mount_id == mount.mount_id for mounted in read_mounts())


def _end_daemons(directory: Path) -> None:
    """Wait for the daemons, which end when their mount is gone; then terminate and kill them."""
    for number in (0, signal.SIGTERM, signal.SIGKILL):
        for pid in _daemons(directory):
            _signal_daemon(pid, number, directory)
        if wait_until(lambda: not _daemons(directory), timeout_s=5.0):
            break
    # A process without a name may still wait for its I/O, and has its lock until then.
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


def _daemons(directory: Path) -> list[int]:
    """The processes that hold the volume's lock, as a rule one."""
    pids = []
    resolved = directory.resolve()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            if not _is_daemon_of(entry, resolved):
                continue
            if process_start_ticks(int(entry.name)) is not None:
                pids.append(int(entry.name))
    return pids


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
    """Return whether /proc/PID is a daemon of this user: the name alone proves nothing, processes choose their own.

    Raises OSError if the process is gone.
    """
    if (process / "comm").read_text(errors="replace").strip() != DAEMON:
        return False
    status = (process / "status").read_text(errors="replace")
    users = next((line.split()[1:] for line in status.splitlines() if line.startswith("Uid:")), [])
    return set(users) == {str(os.geteuid())}  # a set-user-ID program keeps its caller's real user
