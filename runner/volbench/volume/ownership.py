"""Our directories carry a marker file; nothing without it is written to or erased.

A marker counts only where nobody else can have put it: the directory and the marker belong to this process's user
or to root, or to whom a file of ours belongs on a network file system. A directory is opened once, without
following a link, and then worked on by its descriptor.
"""

from __future__ import annotations

import datetime
import errno
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from volbench.base import safe_files
from volbench.errors import EnvironmentLacks, Refused, StepFailed
from volbench.records.parse import parse_json
from volbench.volume.mountinfo import mounts_below, read_mounts

MARKER = ".volbench-owned.json"
MARKER_SCHEMA = 1
_PARTIAL = f".{MARKER}.partial"
_OLD_PARTIAL = f"{MARKER}.partial"
_MARKER_BYTES_MAX = 4096
_DATA_DIRECTORY_SIGNS = ("ibdata1", "mysql.ibd", "aria_log_control", "ib_logfile0", "#innodb_redo", "auto.cnf")
_REMOTE = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "fuse.glusterfs", "lustre", "virtiofs"}
)
"""File systems whose server may give a new file another owner than this process."""
_SHOWN_MAX = 5
_NOBODY: frozenset[int] = frozenset()


def claim(
    directory: Path, *, purpose: str, run_id: str = "", mode: int = 0o700, owners: frozenset[int] = _NOBODY
) -> None:
    """Make a directory ours: create it, or take it when it is empty or already marked.

    Args:
        mode: of the directory; its marker can be read by those of the group who may enter it.
        owners: users whose directories and markers are taken too: those to whom we hand our directories.

    Its parent must exist. Raises Refused for a directory with foreign contents or of another user, EnvironmentLacks
    when it cannot be made.
    """
    refuse_data_directory(directory)
    refuse_exchangeable(directory)
    try:
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        with safe_files.held_directory(directory) as descriptor:
            _claim_open(descriptor, directory, purpose=purpose, run_id=run_id, mode=mode, owners=owners)
    except NotADirectoryError as error:
        raise _no_directory(directory) from error
    except OSError as error:
        raise EnvironmentLacks(
            "the directory cannot be made ours",
            where=str(directory),
            evidence=_words(error),
            next_step="make its parent directory writable for this user, or name another place",
        ) from error


def is_ours(directory: Path, *, owners: frozenset[int] = _NOBODY) -> bool:
    """Whether a directory carries our marker: a regular file of our form, of ours or root, not a link to one."""
    try:
        with safe_files.held_directory(directory) as descriptor:
            return _fault_of(descriptor, directory, owners) is None
    except OSError:
        return False


@contextmanager
def held(directory: Path) -> Iterator[int]:
    """Hold a directory of ours by descriptor for the time of a block. Raises Refused, EnvironmentLacks."""
    try:
        with safe_files.held_directory(directory) as descriptor:
            _check_ours(descriptor, directory, _NOBODY)
            yield descriptor
    except NotADirectoryError as error:
        raise _no_directory(directory) from error


def erase_contents(directory: Path, *, owners: frozenset[int] = _NOBODY) -> None:
    """Erase everything in a directory of ours but the marker.

    Symbolic links are removed, not followed; mounts inside are never entered, also those that appear meanwhile.
    Raises Refused without the marker or with a mount inside, StepFailed when something cannot be removed.
    """
    with _opened(directory) as descriptor:
        if descriptor is None:
            raise _refused(directory, "it is not there", "nothing was erased")
        _check_ours(descriptor, directory, owners)
        _erase(descriptor, directory, keep=frozenset({MARKER}))


def remove(directory: Path, *, owners: frozenset[int] = _NOBODY) -> None:
    """Remove a directory of ours; the marker goes last, so that an interrupted removal can be taken up again.

    An empty directory without marker is what a removal leaves that was interrupted at its end: it is removed. One
    that is gone already is fine. Raises as `erase_contents` does.
    """
    with _opened(directory) as descriptor:
        if descriptor is None:
            return
        if os.listdir(descriptor):  # noqa: PTH208 - by descriptor
            _check_ours(descriptor, directory, owners)
            _erase(descriptor, directory)
        _remove_empty(directory, descriptor)


def discard(directory: Path) -> None:
    """Remove a directory that the caller has made itself, in this process: no marker is asked for.

    Symbolic links and mounts as in `erase_contents`. Raises Refused, StepFailed.
    """
    with _opened(directory) as descriptor:
        if descriptor is not None:
            _erase(descriptor, directory)
            _remove_empty(directory, descriptor)


def discard_contents(directory: Path) -> None:
    """Erase everything in a directory whose whole contents the caller has made itself; as `discard`."""
    with _opened(directory) as descriptor:
        if descriptor is not None:
            _erase(descriptor, directory)


def hand_over(directory: Path, *, group: int) -> None:
    """Let the processes of another user work in a directory of ours, and keep it ours.

    They may make files, and remove their own; the directory, its marker and our files stay root's, since it is
    sticky. Only root can do that. Raises Refused, EnvironmentLacks.
    """
    try:
        with safe_files.held_directory(directory) as descriptor:
            os.fchown(descriptor, 0, group)
            os.fchmod(descriptor, 0o1770)
            with suppress(FileNotFoundError):
                marker = safe_files.open_regular(descriptor, MARKER)
                try:
                    os.fchown(marker, -1, group)
                    os.fchmod(marker, 0o640)
                finally:
                    os.close(marker)
    except OSError as error:
        raise EnvironmentLacks(
            "the directory cannot be handed to the containers' user",
            where=str(directory),
            evidence=_words(error),
            next_step="name a directory on a file system that keeps owners",
        ) from error


def make_private_root(directory: Path, *, mode: int = 0o711) -> bool:
    """Make a directory of root's that holds directories of ours, or check the one that is there.

    Returns whether it was made. Raises Refused when it, or a directory on the way to it, belongs to somebody who is
    neither this user nor root (nor who started this process by sudo), or may be written to by others; OSError.
    """
    trusted = frozenset({0, os.geteuid(), int(os.environ.get("SUDO_UID") or 0)})
    refuse_exchangeable(directory, owners=trusted)
    try:
        directory.mkdir(mode=mode)
    except FileExistsError:
        pass
    else:
        return True
    status = directory.stat()  # a link that root or its owner made is fine, see refuse_exchangeable
    if not stat.S_ISDIR(status.st_mode):
        raise _no_directory(directory)
    real = Path(os.path.realpath(directory))
    refuse_exchangeable(real / "any", owners=trusted)
    if directory.is_symlink() and directory.lstat().st_uid not in trusted:
        raise _refused(directory, "it is a symbolic link that another user made", "remove the link")
    return False


def refuse_exchangeable(directory: Path, *, owners: frozenset[int] | None = None) -> None:
    """Raise Refused when other users could put something else in the place of a directory that root works in.

    Args:
        owners: as in `safe_files.untrusted_parent`; None: the owner of a directory on the way is trusted.
    """
    if os.geteuid() != 0:
        return
    reason = safe_files.untrusted_parent(Path(os.path.realpath(directory.parent)) / directory.name, owners=owners)
    if reason is not None:
        raise Refused(
            "other users could exchange the directory while root works in it",
            where=str(directory),
            evidence=reason,
            next_step="make that directory sticky (chmod +t) or its owner's alone to write to, or name another",
        )


def refuse_data_directory(directory: Path) -> None:
    """Raise Refused when a directory is, or is inside, a MySQL data directory that is not ours.

    Both the path as given and the one to which symbolic links lead are judged.
    """
    try:
        real = Path(os.path.realpath(directory))
    except OSError as error:
        raise Refused(
            "the directory was exchanged while its links were followed",
            where=str(directory),
            evidence=f"{type(error).__name__}: {error}",
            next_step="find out who changes it, and name another",
        ) from error
    for place in dict.fromkeys((directory.absolute(), real)):
        _refuse_data_directory(directory, (place, *place.parents))


def _refuse_data_directory(directory: Path, places: tuple[Path, ...]) -> None:
    if any(is_ours(place) for place in places):
        return
    for place in places:
        signs = [sign for sign in _DATA_DIRECTORY_SIGNS if os.path.lexists(place / sign)]
        if len(signs) >= 2 or "ibdata1" in signs or "mysql.ibd" in signs:
            inside = "" if place in (directory, directory.absolute()) else "inside "
            raise _refused(
                directory,
                f"it is {inside}a MySQL data directory: {place} holds {', '.join(signs)}",
                "name a directory beside it, on the same volume; volbench makes its own data directory there",
            )


def _claim_open(
    descriptor: int, directory: Path, *, purpose: str, run_id: str, mode: int, owners: frozenset[int]
) -> None:
    fault = _fault_of(descriptor, directory, owners)
    if fault is not None:
        _refuse_foreign(descriptor, directory, owners)
        # First nobody else may write there any more; then what is there is looked at again.
        _set_mode(descriptor, mode)
        _refuse_foreign(descriptor, directory, owners)
        _mark(descriptor, purpose=purpose, run_id=run_id)
    else:
        _set_mode(descriptor, mode)


def _refuse_foreign(descriptor: int, directory: Path, owners: frozenset[int]) -> None:
    foreign = sorted(name for name in os.listdir(descriptor) if name not in (_PARTIAL, _OLD_PARTIAL))
    if foreign:
        shown = ", ".join(foreign[:_SHOWN_MAX]) + (", ..." if len(foreign) > _SHOWN_MAX else "")
        without = f"no {MARKER}" if MARKER not in foreign else str(_fault_of(descriptor, directory, owners))
        raise _refused(
            directory,
            f"it holds {len(foreign)} entries and {without}: {shown}",
            "name an empty or a new directory; nothing in this one was touched",
        )
    fault = _fault_of_directory(descriptor, directory, owners)
    if fault is not None:
        raise _refused(directory, fault, "remove it, or name another place; nothing in it was touched")


def _set_mode(descriptor: int, mode: int) -> None:
    status = os.fstat(descriptor)
    if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != mode and not _is_shared(status):
        with suppress(PermissionError):  # a file system without modes
            os.fchmod(descriptor, mode)


def _is_shared(status: os.stat_result) -> bool:
    """Whether it was handed over, see `hand_over`."""
    return stat.S_IMODE(status.st_mode) == 0o1770


def _mark(descriptor: int, *, purpose: str, run_id: str) -> None:
    content = {
        "schema": MARKER_SCHEMA,
        "created_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "purpose": purpose,
        "run_id": run_id,
        "token": secrets.token_hex(16),
    }
    with suppress(FileNotFoundError):
        os.unlink(_OLD_PARTIAL, dir_fd=descriptor)
    safe_files.write_new(descriptor, MARKER, json.dumps(content, indent=1).encode(), mode=0o600)


def read_token(directory: Path) -> str | None:
    """Return the random token in the marker of a directory of ours; None when it is not ours."""
    try:
        with safe_files.held_directory(directory) as descriptor:
            if _fault_of(descriptor, directory, _NOBODY) is not None:
                return None
            return str((_read_marker(descriptor) or {}).get("token"))
    except OSError:
        return None


def _read_marker(descriptor: int) -> dict[str, Any] | None:
    try:
        content = parse_json(safe_files.read_regular(descriptor, MARKER, bytes_max=_MARKER_BYTES_MAX))
    except (OSError, ValueError):
        return None
    is_form = isinstance(content, dict) and isinstance(content.get("schema"), int) and "token" in content
    return content if is_form else None


def _fault_of(descriptor: int, directory: Path, owners: frozenset[int]) -> str | None:
    """Return why an open directory is not ours; None when it is."""
    if _read_marker(descriptor) is None:
        return f"it has no {MARKER}"
    fault = _fault_of_directory(descriptor, directory, owners)
    if fault is not None:
        return fault
    try:
        status = os.stat(MARKER, dir_fd=descriptor, follow_symlinks=False)
    except OSError as error:
        return f"its {MARKER} cannot be read: {error.strerror}"
    if status.st_nlink != 1:
        return f"its {MARKER} has {status.st_nlink} names (hard links)"
    if status.st_mode & stat.S_IWOTH:
        return f"everybody may write to its {MARKER}"
    return _owner_fault(descriptor, directory, status, owners, noun=f"its {MARKER}")


def owner_fault(descriptor: int, directory: Path) -> str | None:
    """Return why an open directory is another user's; None when it is this user's or root's."""
    status = os.fstat(descriptor)
    return _owner_fault(descriptor, directory, status, _NOBODY, noun="it", trust_parent=False)


def _fault_of_directory(descriptor: int, directory: Path, owners: frozenset[int]) -> str | None:
    return _owner_fault(descriptor, directory, os.fstat(descriptor), owners, noun="it")


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
    if _filesystem(descriptor) in _REMOTE and status.st_uid == _owner_of_new_file(descriptor):
        return None
    return f"{noun} belongs to user {status.st_uid}, and this process is user {os.geteuid()}"


def _parent_is_private(directory: Path) -> bool:
    """Whether nobody but this user and root can have made what is in the parent directory."""
    try:
        status = Path(os.path.realpath(directory)).parent.stat()
    except OSError:
        return False
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _filesystem(descriptor: int) -> str:
    number = safe_files.mount_id(descriptor)
    return next((mount.filesystem for mount in read_mounts() if mount.mount_id == number), "")


def _owner_of_new_file(descriptor: int) -> int | None:
    """Ask a file system to whom it gives a file of ours: a server of NFS may map users."""
    name = f".volbench-{secrets.token_hex(8)}"
    try:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=descriptor))
    except OSError:
        return None
    try:
        return os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_uid
    finally:
        os.unlink(name, dir_fd=descriptor)


def _check_ours(descriptor: int, directory: Path, owners: frozenset[int]) -> None:
    fault = _fault_of(descriptor, directory, owners)
    if fault is not None:
        raise _refused(directory, fault, "nothing was erased; remove it by hand if it is not needed")


@contextmanager
def _opened(directory: Path) -> Iterator[int | None]:
    """The open directory, None where there is none.

    Raises Refused for a link, StepFailed for what the system refuses meanwhile.
    """
    try:
        try:
            descriptor = safe_files.open_directory(directory)
        except FileNotFoundError:
            yield None
            return
        except NotADirectoryError as error:
            raise _no_directory(directory) from error
        try:
            yield descriptor
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _cannot_remove(directory, error) from error


def _erase(descriptor: int, directory: Path, *, keep: frozenset[str] = frozenset()) -> None:
    inside = mounts_below(str(directory.resolve()), read_mounts())
    if inside:
        raise _mounted_inside(directory, ", ".join(inside[:_SHOWN_MAX]), f"umount {inside[-1]}")
    try:
        safe_files.erase_below(descriptor, keep=keep, last=MARKER)
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.EBUSY):
            inside = mounts_below(str(directory.resolve()), read_mounts())
            if inside or error.errno == errno.EXDEV:
                shown = ", ".join(inside[:_SHOWN_MAX]) or str(error.filename)
                raise _mounted_inside(directory, shown, "unmount it, then repeat the command") from error
        raise


def _remove_empty(directory: Path, descriptor: int) -> None:
    """Remove the directory that was emptied, if it is still what is at its path."""
    with suppress(FileNotFoundError), safe_files.held_directory(directory.parent.resolve()) as parent:
        status, now = os.fstat(descriptor), os.stat(directory.name, dir_fd=parent, follow_symlinks=False)
        if (status.st_dev, status.st_ino) != (now.st_dev, now.st_ino):
            raise _refused(directory, "somebody has put something else in its place", "see who did, with ls -la")
        os.rmdir(directory.name, dir_fd=parent)


def _mounted_inside(directory: Path, evidence: str, next_step: str) -> Refused:
    return _refused(directory, f"something is mounted inside: {evidence}", next_step)


def _no_directory(directory: Path) -> Refused:
    if directory.is_symlink():
        return _refused(
            directory, "it is a symbolic link", "name the directory that it points to, or remove the link"
        )
    return _refused(directory, "it is a file", "name a directory")


def _cannot_remove(directory: Path, error: OSError) -> StepFailed:
    return StepFailed(
        "the directory cannot be removed",
        where=str(directory),
        evidence=_words(error),
        next_step="see who uses it with `fuser -vm`, or remove it by hand as the user who owns the files",
    )


def _refused(directory: Path, evidence: str, next_step: str) -> Refused:
    return Refused(
        "the directory is not volbench's own", where=str(directory), evidence=evidence, next_step=next_step
    )


def _words(error: OSError) -> str:
    return f"{type(error).__name__}: {error}"
