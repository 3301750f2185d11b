"""Requirements of emulated volumes: root, FUSE, loop devices, programs, the daemon."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from volbench.core.base.environment import find_program
from volbench.core.profile.resolve import ResolvedVolume
from volbench.errors import MissingPrerequisite
from volbench.machine.volume.emulated.attachments import DAEMON

_MKFS_EXT4 = ("mkfs.ext4", "-q", "-F", "-E", "nodiscard")
MKFS = {
    "xfs": ["mkfs.xfs", "-q", "-f", "-K"],
    "ext4": [*_MKFS_EXT4],
    "ext4-bigalloc": [*_MKFS_EXT4, "-O", "bigalloc", "-C", "16384"],
}


def find_daemon() -> Path | None:
    """Return the path of the emulator's binary: next to this Python (from its wheel), else on PATH."""
    bundled = Path(sys.executable).parent / DAEMON
    if bundled.is_file():
        return bundled
    program = find_program(DAEMON)
    return Path(program) if program else None


def check_environment(resolved: ResolvedVolume) -> Path:
    """Return the daemon's path. Raise MissingPrerequisite with everything that is missing."""
    missing = []
    if os.geteuid() != 0:
        missing.append("root")
    missing += [device for device in ("/dev/fuse",) if not Path(device).exists()]
    programs = ["mount", "umount"]
    if resolved.mode == "block":
        missing += [device for device in ("/dev/loop-control",) if not Path(device).exists()]
        programs += ["losetup", MKFS[resolved.filesystem or "xfs"][0]]
    missing += [program for program in programs if find_program(program) is None]
    daemon = find_daemon()
    if daemon is None:
        missing.append(DAEMON)
    if missing or daemon is None:
        raise MissingPrerequisite(
            f"this machine cannot run emulated volumes; missing: {', '.join(missing)}",
            where=f"emulated:{resolved.profile}",
            evidence=f"uid {os.geteuid()}, PATH {os.environ.get('PATH', '')}",
            next_step="run as root with FUSE, losetup, xfsprogs and e2fsprogs; "
            "`pip install runner/emulator` makes the daemon",
        )
    return daemon
