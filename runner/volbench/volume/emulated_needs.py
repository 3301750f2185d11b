"""What an emulated volume needs of this machine: root, FUSE, loop devices, programs, the daemon."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from volbench.errors import EnvironmentLacks
from volbench.volume.profiles import ResolvedVolume
from volbench.volume.teardown import DAEMON

MKFS = {"xfs": ["mkfs.xfs", "-q", "-f", "-K"], "ext4": ["mkfs.ext4", "-q", "-F", "-E", "nodiscard"]}


def find_daemon() -> Path | None:
    """The emulator's binary: beside this Python (its wheel puts it there), else on PATH."""
    beside = Path(sys.executable).parent / DAEMON
    if beside.is_file():
        return beside
    found = shutil.which(DAEMON)
    return Path(found) if found else None


def check_environment(resolved: ResolvedVolume) -> Path:
    """The daemon's path. Raises EnvironmentLacks naming everything that is missing."""
    lacks = []
    if os.geteuid() != 0:
        lacks.append("root")
    lacks += [device for device in ("/dev/fuse",) if not Path(device).exists()]
    programs = ["mount", "umount"]
    if resolved.mode == "block":
        lacks += [device for device in ("/dev/loop-control",) if not Path(device).exists()]
        programs += ["losetup", MKFS[resolved.filesystem or "xfs"][0]]
    lacks += [program for program in programs if shutil.which(program) is None]
    daemon = find_daemon()
    if daemon is None:
        lacks.append(DAEMON)
    if lacks or daemon is None:
        raise EnvironmentLacks(
            f"emulated volumes cannot be made on this machine: it lacks {', '.join(lacks)}",
            where=f"emulated:{resolved.profile}",
            evidence=f"uid {os.geteuid()}, PATH {os.environ.get('PATH', '')}",
            next_step="run as root with FUSE, losetup and xfsprogs; `pip install runner/emulator` makes the daemon",
        )
    return daemon
