"""Loop devices that processes of the bare machine left attached."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

_LOOP_GET_STATUS64 = 0x4C05
_STATUS_BYTES = 232
"""struct loop_info64 of linux/loop.h; it begins with lo_device and lo_inode."""


def detach_loop_devices(directory: Path) -> None:
    """Detach every loop device whose file lies below `directory`, by device and inode.

    The path that the kernel shows is of a mount namespace that is gone, so it says nothing.
    """
    attached = dict(_attached())
    if not attached:
        return
    for parent, _, names in os.walk(directory):
        for name in names:
            try:
                state = os.lstat(os.path.join(parent, name))  # noqa: PTH118 - 100,000 of them
            except OSError:
                continue
            for device, backing in attached.items():
                if backing == (state.st_dev, state.st_ino):
                    subprocess.run(["losetup", "--detach", device], check=False)


def _attached() -> Iterator[tuple[str, tuple[int, int]]]:
    """Each loop device with a file, and that file's device and inode."""
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        device = f"/dev/{path.parts[3]}"
        try:
            descriptor = os.open(device, os.O_RDONLY)
        except OSError:
            continue
        try:
            status = bytearray(_STATUS_BYTES)
            fcntl.ioctl(descriptor, _LOOP_GET_STATUS64, status)
        except OSError:
            continue
        finally:
            os.close(descriptor)
        yield device, struct.unpack_from("=QQ", status)
