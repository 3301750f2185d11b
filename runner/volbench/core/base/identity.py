"""What a directory is, whatever its path: kept in its marker, so that a marker in a copy counts for nothing.

The inode number and the file handle (name_to_handle_at(2): with the inode's generation) of a directory stay the
same under other paths, mounts and device numbers, in other containers, and after the volume has moved to another
machine; a copy has others.
"""

from __future__ import annotations

import ctypes
import os

from volbench.core.base import safe_files
from volbench.core.base.mountinfo import read_mounts

LASTING = frozenset({"btrfs", "ext2", "ext3", "ext4", "f2fs", "nfs", "nfs4", "tmpfs", "xfs", "zfs"})
"""File systems whose inode numbers outlast a mount. FUSE and overlayfs may number a directory anew."""
_AT_EMPTY_PATH = 0x1000
_HANDLE_BYTES_MAX = 128
_libc = ctypes.CDLL(None, use_errno=True)


class _Handle(ctypes.Structure):
    _fields_ = (
        ("handle_bytes", ctypes.c_uint),
        ("handle_type", ctypes.c_int),
        ("f_handle", ctypes.c_ubyte * _HANDLE_BYTES_MAX),
    )


def filesystem_of(descriptor: int) -> str:
    """Return the type of the file system that an open file is on; empty if it is not visible."""
    number = safe_files.mount_id(descriptor)
    return next((mount.filesystem for mount in read_mounts() if mount.mount_id == number), "")


def identity_of(descriptor: int) -> dict[str, str | int]:
    """Return what identifies an open directory, for its marker."""
    inode = os.fstat(descriptor).st_ino
    return {"filesystem": filesystem_of(descriptor), "inode": inode, "handle": _handle(descriptor)}


def identity_fault(descriptor: int, recorded: object) -> str | None:
    """Return why an open directory is not the one that was recorded; None if it may be that one.

    Nothing is decided where the file system numbers directories anew, or the record is of before there were any.
    """
    if not isinstance(recorded, dict):
        return None
    now = identity_of(descriptor)
    if now["filesystem"] not in LASTING:
        return None
    names = ["filesystem", "inode", *(["handle"] if recorded.get("handle") and now["handle"] else [])]
    changed = [name for name in names if recorded.get(name) != now[name]]
    return f"was made for another directory ({', '.join(changed)} differ): this one is a copy" if changed else None


def _handle(descriptor: int) -> str:
    """Return the file handle in hex; empty where the file system, or a sandbox, gives none."""
    handle, mount = _Handle(handle_bytes=_HANDLE_BYTES_MAX), ctypes.c_int()
    if _libc.name_to_handle_at(descriptor, b"", ctypes.byref(handle), ctypes.byref(mount), _AT_EMPTY_PATH):
        return ""
    return f"{handle.handle_type:x}:{bytes(handle.f_handle[: handle.handle_bytes]).hex()}"
