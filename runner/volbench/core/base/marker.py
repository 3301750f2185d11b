"""The marker file of a directory, and why one does not count.

A marker counts only if no other user can have made it: directory and marker belong to this process's user, to root,
or to the owner that a network file system gives this process's files. It counts in the directory that it was made
for, and not in a copy (`volume.identity`).
"""

from __future__ import annotations

import datetime
import json
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from volbench.core.base import safe_files
from volbench.core.base.identity import filesystem_of, identity_fault, identity_of
from volbench.core.base.parse import parse_json

MARKER = ".volbench-owned.json"
MARKER_SCHEMA = 1
PARTIAL = f".{MARKER}.partial"
OLD_PARTIAL = f"{MARKER}.partial"
_MARKER_BYTES_MAX = 4096
_REMOTE = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "fuse.glusterfs", "lustre", "virtiofs"}
)
"""File systems whose server may give a new file another owner than this process."""
NO_OWNERS: frozenset[int] = frozenset()


def write_marker(descriptor: int, *, purpose: str, run_id: str) -> None:
    """Write a new marker into an open directory. Raise OSError."""
    content = {
        "schema": MARKER_SCHEMA,
        "created_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "purpose": purpose,
        "run_id": run_id,
        "token": secrets.token_hex(16),
        "directory": identity_of(descriptor),
    }
    with suppress(FileNotFoundError):
        os.unlink(OLD_PARTIAL, dir_fd=descriptor)
    safe_files.write_new(descriptor, MARKER, json.dumps(content, indent=1).encode(), mode=0o600)


def _read_marker(descriptor: int) -> dict[str, Any] | None:
    try:
        content = parse_json(safe_files.read_regular(descriptor, MARKER, bytes_max=_MARKER_BYTES_MAX))
    except (OSError, ValueError):
        return None
    is_form = isinstance(content, dict) and isinstance(content.get("schema"), int) and "token" in content
    return content if is_form else None


def marker_fault(descriptor: int, directory: Path, owners: frozenset[int]) -> str | None:
    """Return why an open directory has no valid marker; None if it has one."""
    content = _read_marker(descriptor)
    if content is None:
        return f"there is no {MARKER}"
    if (copied := identity_fault(descriptor, content.get("directory"))) is not None:
        return f"its {MARKER} {copied}"
    fault = directory_fault(descriptor, directory, owners)
    return _marker_file_fault(descriptor, directory, owners) if fault is None else fault


def _marker_file_fault(descriptor: int, directory: Path, owners: frozenset[int]) -> str | None:
    try:
        status = os.stat(MARKER, dir_fd=descriptor, follow_symlinks=False)
    except OSError as error:
        return f"its {MARKER} cannot be read: {error.strerror}"
    if status.st_nlink != 1:
        return f"its {MARKER} has {status.st_nlink} names (hard links)"
    if status.st_mode & stat.S_IWOTH:
        return f"every user may write to its {MARKER}"
    return _owner_fault(descriptor, directory, status, owners, noun=f"its {MARKER}")


def owner_fault(descriptor: int, directory: Path) -> str | None:
    """Return why an open directory is another user's; None if it is this user's or root's."""
    status = os.fstat(descriptor)
    return _owner_fault(descriptor, directory, status, NO_OWNERS, noun="the directory", trust_parent=False)


def directory_fault(descriptor: int, directory: Path, owners: frozenset[int]) -> str | None:
    """Return why an open directory is neither this user's nor one of the owners'; None if it is."""
    return _owner_fault(descriptor, directory, os.fstat(descriptor), owners, noun="the directory")


def _owner_fault(
    descriptor: int,
    directory: Path,
    status: os.stat_result,
    owners: frozenset[int],
    *,
    noun: str,
    trust_parent: bool = True,
) -> str | None:
    trusted = {0, os.geteuid(), *owners}
    if status.st_uid in trusted or (trust_parent and _parent_is_private(directory)):
        return None
    if filesystem_of(descriptor) in _REMOTE and status.st_uid == _owner_of_new_file(descriptor):
        return None
    return f"{noun} belongs to user {status.st_uid}, and this process is user {os.geteuid()}"


def _parent_is_private(directory: Path) -> bool:
    """Return whether only this user and root can write to the parent directory."""
    try:
        status = Path(os.path.realpath(directory)).parent.stat()
    except OSError:
        return False
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _owner_of_new_file(descriptor: int) -> int | None:
    """Return the owner that a file system gives to a new file of this process: an NFS server may map users."""
    name = f".volbench-{secrets.token_hex(8)}"
    try:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=descriptor))
    except OSError:
        return None
    try:
        return os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_uid
    finally:
        os.unlink(name, dir_fd=descriptor)
