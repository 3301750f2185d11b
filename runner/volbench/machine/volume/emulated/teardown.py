"""Take down what an emulated volume has attached to the machine, in the right order.

The order is: file system, loop device, FUSE mount; then the daemon ends by itself. Only what `attachments` proves
to be the volume's own is signalled, detached or unmounted. A step that does not end in its time makes us abort the
FUSE connection, which fails whatever waits for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from pathlib import Path
from typing import BinaryIO

from volbench.core.base.mountinfo import Mount, read_mounts
from volbench.errors import StepFailed
from volbench.machine.volume.emulated.attachments import (
    LOCK,
    attachments,
    daemons_of,
    is_daemon_of,
    loops_of,
    mounts_below,
    mounts_of,
)
from volbench.machine.volume.emulated.commands import STEP_S_MAX, CompletedCommand, run, wait_until

FUSE_CONNECTIONS = Path("/sys/fs/fuse/connections")
STARTING_S_MAX = 10.0
ABORTED_STEP_S_MAX = 10.0
LOOP_RELEASE_S_MAX = 15.0


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


def await_daemon(directory: Path) -> None:
    """Wait while a volume is locked and no process shows itself as its daemon; the caller is `changing` the volume.

    A daemon that was just started has the lock before its name. One that was killed looks dead as soon as its first
    thread is, and has the lock until its last one is.
    """
    wait_until(lambda: bool(daemons_of(directory)) or not is_locked(directory), timeout_s=STARTING_S_MAX)


def abort(directory: Path) -> None:
    """Abort the FUSE connections of a directory: every waiting and every later request fails at once."""
    for mount in mounts_of(directory):
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
    await_daemon(directory)  # who was killed while starting one has left it
    if force:
        abort(directory)
    used, below = _layers(directory)
    for mount in used:
        force = _unmount(directory, mount, force=force, patience_s=0.0) or force
    for loop in loops_of(directory):
        run(["losetup", "-d", f"/dev/{loop}"], timeout_s=ABORTED_STEP_S_MAX)
    for mount in below:
        # A loop device releases its file a moment after its detach; never while another mount namespace (a
        # container that was just starting) has the file system mounted: it is synced, so it may be cut off.
        patience_s = ABORTED_STEP_S_MAX if force else LOOP_RELEASE_S_MAX
        _unmount(directory, mount, force=True, patience_s=patience_s)
    _end_daemons(directory)
    for mount in reversed(mounts_of(directory)):  # of a daemon that was still mounting
        _unmount(directory, mount, force=True, patience_s=1.0)
    # A loop device whose detach was deferred goes with its last user, which takes seconds on a busy machine.
    wait_until(lambda: not attachments(directory), timeout_s=LOOP_RELEASE_S_MAX)
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
    own = {mount.mount_id for mount in mounts_of(directory)}
    foreign = [mount.mount_point for mount in mounts_below(directory) if mount.mount_id not in own]
    if foreign:
        raise StepFailed(
            "an emulated volume cannot be taken down: something else is mounted inside its directory",
            where=str(directory),
            evidence=", ".join(foreign),
            next_step=f"unmount it first: umount {foreign[-1]}",
        )


def _layers(directory: Path) -> tuple[list[Mount], list[Mount]]:
    """Return the mounts for users, innermost first, and those with a loop device's image."""
    mounts = list(reversed(mounts_of(directory)))
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
        for pid in daemons_of(directory):
            _signal_daemon(pid, number, directory)
        if wait_until(lambda: not daemons_of(directory), timeout_s=5.0):
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
            if is_daemon_of(Path(f"/proc/{pid}"), directory.resolve()):
                signal.pidfd_send_signal(process, number)
    finally:
        os.close(process)
