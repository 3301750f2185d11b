"""Directories of volbench have a marker file; volbench writes to and erases nothing without one.

A directory is opened once, without following a link; all further work uses its descriptor. Which markers count:
`volume.marker`.
"""

from __future__ import annotations

import errno
import os
import random
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from volbench.core.base import safe_files
from volbench.core.base.marker import (
    MARKER,
    NO_OWNERS,
    OLD_PARTIAL,
    PARTIAL,
    directory_fault,
    marker_fault,
    write_marker,
)
from volbench.core.base.mountinfo import mounts_below, read_mounts
from volbench.core.base.text import counted
from volbench.errors import MissingPrerequisite, Refused, StepFailed

_DATA_DIRECTORY_FILES = ("ibdata1", "mysql.ibd", "aria_log_control", "ib_logfile0", "#innodb_redo", "auto.cnf")
_LISTED_MAX = 5
CLAIMS_MAX = 50
"""Tries to mark a directory that others mark at the same time: each removes what another has half written."""
CLAIM_PAUSE_S = 0.02
"""Longest time before the next try."""


def claim(
    directory: Path, *, purpose: str, run_id: str = "", mode: int = 0o700, owners: frozenset[int] = NO_OWNERS
) -> None:
    """Mark a directory as volbench's: create it, or take an empty or already marked one.

    Args:
        mode: of the directory; members of its group who may enter it can read the marker.
        owners: users whose directories and markers count too: those to whom volbench hands directories.

    Its parent must exist. Raises Refused for a directory with other contents or of another user,
    MissingPrerequisite if it cannot be created.
    """
    refuse_data_directory(directory)
    refuse_exchangeable(directory)
    try:
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        with safe_files.held_directory(directory) as descriptor:
            for tries_left in reversed(range(CLAIMS_MAX)):
                try:
                    _claim_open(descriptor, directory, purpose=purpose, run_id=run_id, mode=mode, owners=owners)
                    break
                except (FileNotFoundError, FileExistsError):  # another process marks it now: look again
                    if not tries_left:
                        raise
                except Refused:
                    if not tries_left or not _is_marked_now(descriptor):
                        raise
                time.sleep(random.uniform(0, CLAIM_PAUSE_S))
    except NotADirectoryError as error:
        raise _no_directory(directory) from error
    except OSError as error:
        raise MissingPrerequisite(
            "volbench cannot create or mark the directory",
            where=str(directory),
            evidence=_error_text(error),
            next_step="make its parent directory writable for this user, or name another directory",
        ) from error


def is_owned(directory: Path, *, owners: frozenset[int] = NO_OWNERS) -> bool:
    """Return whether a directory has a valid marker: a regular file of this user or root, not a link."""
    try:
        with safe_files.held_directory(directory) as descriptor:
            return marker_fault(descriptor, directory, owners) is None
    except OSError:
        return False


@contextmanager
def open_owned(directory: Path) -> Iterator[int]:
    """Yield the descriptor of a marked directory. Raise Refused, MissingPrerequisite."""
    try:
        with safe_files.held_directory(directory) as descriptor:
            _check_owned(descriptor, directory, NO_OWNERS)
            yield descriptor
    except NotADirectoryError as error:
        raise _no_directory(directory) from error


def erase_contents(directory: Path, *, owners: frozenset[int] = NO_OWNERS) -> None:
    """Erase everything in a marked directory but the marker.

    Symbolic links are removed, not followed; mounts inside are never entered, also ones that appear meanwhile.
    Raises Refused without the marker or with a mount inside, StepFailed if something cannot be removed.
    """
    with _open_if_exists(directory) as descriptor:
        if descriptor is None:
            raise _refused(directory, "the directory does not exist", "nothing was erased")
        _check_owned(descriptor, directory, owners)
        _erase(descriptor, directory, keep=frozenset({MARKER}))


def remove(directory: Path, *, owners: frozenset[int] = NO_OWNERS) -> None:
    """Remove a marked directory; the marker goes last, so that an interrupted removal can be repeated.

    An empty directory without marker, which an interrupted removal leaves, is removed, and so is one with a half
    written marker alone, which an interrupted `claim` leaves. A missing one is fine.
    Raises as `erase_contents` does.
    """
    with _open_if_exists(directory) as descriptor:
        if descriptor is None:
            return
        names = set(os.listdir(descriptor))  # noqa: PTH208 - by descriptor
        if names:
            if not names <= {PARTIAL, OLD_PARTIAL}:
                _check_owned(descriptor, directory, owners)
            elif (fault := directory_fault(descriptor, directory, owners)) is not None:
                raise _refused(
                    directory, fault, "nothing was erased; remove the directory by hand if it is not needed"
                )
            _erase(descriptor, directory)
        _remove_empty(directory, descriptor)


def discard(directory: Path) -> None:
    """Remove a directory that the caller made in this process; no marker is needed.

    Symbolic links and mounts as in `erase_contents`. Raises Refused, StepFailed.
    """
    with _open_if_exists(directory) as descriptor:
        if descriptor is not None:
            _erase(descriptor, directory)
            _remove_empty(directory, descriptor)


def discard_contents(directory: Path) -> None:
    """Erase everything in a directory whose contents the caller made itself; as `discard`."""
    with _open_if_exists(directory) as descriptor:
        if descriptor is not None:
            _erase(descriptor, directory)


def hand_over(directory: Path, *, group: int) -> None:
    """Let the processes of another user work in a marked directory, which stays volbench's.

    They may create files, and remove their own; directory, marker and volbench's files stay root's, since the
    directory is sticky. Only root can do that. Raises Refused, MissingPrerequisite.
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
        raise MissingPrerequisite(
            "volbench cannot give the containers' user access to the directory",
            where=str(directory),
            evidence=_error_text(error),
            next_step="name a directory on a file system that keeps owners",
        ) from error


def make_private_root(directory: Path, *, mode: int = 0o711) -> bool:
    """Create root's parent directory for marked directories, or check an existing one.

    Returns whether it was created. Raises Refused if other users than this one, root and sudo's caller own it or a
    directory above it, or may write to one of them; OSError.
    """
    trusted = safe_files.trusted_users()
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
        raise _refused(directory, "the path is a symbolic link of another user", "remove the link")
    return False


def refuse_exchangeable(directory: Path, *, owners: frozenset[int] | None = None) -> None:
    """Raise Refused if other users could replace a directory in which root works.

    Args:
        owners: as in `safe_files.untrusted_parent`; None: the owner of a directory on the way is trusted, unless it
            is in one where everybody may make files.
    """
    refuse_planted(directory.parent)
    if os.geteuid() != 0:
        return
    reason = safe_files.untrusted_parent(Path(os.path.realpath(directory.parent)) / directory.name, owners=owners)
    if reason is not None:
        raise Refused(
            "other users could replace the directory while root works in it",
            where=str(directory),
            evidence=reason,
            next_step="make that directory sticky (chmod +t) or writable for its owner only, or name another one",
        )


def refuse_planted(path: Path) -> None:
    """Raise Refused if another user has made a part of a path where everybody may, see `planted_entry`."""
    reason = safe_files.planted_entry(path)
    if reason is not None:
        raise Refused(
            "another user has made this directory, and may exchange it while volbench works in it",
            where=str(path),
            evidence=reason,
            next_step="work in a directory of your own, or name one with the option for it",
        )


def refuse_data_directory(directory: Path) -> None:
    """Raise Refused if a directory is, or is inside, a MySQL data directory that volbench did not make.

    The check covers the path and the target of its symbolic links.
    """
    try:
        real = Path(os.path.realpath(directory))
    except OSError as error:
        raise Refused(
            "the directory changed while volbench followed its links",
            where=str(directory),
            evidence=f"{type(error).__name__}: {error}",
            next_step="find the process that changes it, or name another directory",
        ) from error
    for path in dict.fromkeys((directory.absolute(), real)):
        _refuse_data_directory(directory, (path, *path.parents))


def _refuse_data_directory(directory: Path, paths: tuple[Path, ...]) -> None:
    if any(is_owned(path) for path in paths):
        return
    for path in paths:
        files = [file for file in _DATA_DIRECTORY_FILES if os.path.lexists(path / file)]
        if len(files) >= 2 or "ibdata1" in files or "mysql.ibd" in files:
            inside = "" if path in (directory, directory.absolute()) else "inside "
            raise _refused(
                directory,
                f"the directory is {inside}a MySQL data directory: {path} has {', '.join(files)}",
                "name another directory on the same volume; volbench makes its own data directory there",
            )


def _claim_open(
    descriptor: int, directory: Path, *, purpose: str, run_id: str, mode: int, owners: frozenset[int]
) -> None:
    fault = marker_fault(descriptor, directory, owners)
    if fault is not None:
        _refuse_foreign(descriptor, directory, owners)
        # First no other user may write there any more; then the contents are checked again.
        _set_mode(descriptor, mode)
        _refuse_foreign(descriptor, directory, owners)
        write_marker(descriptor, purpose=purpose, run_id=run_id)
    else:
        _set_mode(descriptor, mode)


def _refuse_foreign(descriptor: int, directory: Path, owners: frozenset[int]) -> None:
    foreign = sorted(name for name in os.listdir(descriptor) if name not in (PARTIAL, OLD_PARTIAL))
    if MARKER in foreign and marker_fault(descriptor, directory, owners) is None:
        raise FileExistsError(errno.EEXIST, "another process has marked the directory", MARKER)
    if foreign:
        names = ", ".join(foreign[:_LISTED_MAX]) + (", ..." if len(foreign) > _LISTED_MAX else "")
        reason = f"no {MARKER}" if MARKER not in foreign else str(marker_fault(descriptor, directory, owners))
        raise _refused(
            directory,
            f"the directory has {counted(len(foreign), 'entry', 'entries')} and {reason}: {names}",
            "name an empty or a new directory; nothing in this one was changed",
        )
    fault = directory_fault(descriptor, directory, owners)
    if fault is not None:
        raise _refused(directory, fault, "remove it, or name another directory; nothing in it was changed")


def _is_marked_now(descriptor: int) -> bool:
    """Return whether a directory has volbench's own files only, which another process may be exchanging."""
    names = set(os.listdir(descriptor))
    return MARKER in names and names <= {MARKER, PARTIAL, OLD_PARTIAL}


def _set_mode(descriptor: int, mode: int) -> None:
    status = os.fstat(descriptor)
    if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != mode and not _is_shared(status):
        with suppress(PermissionError):  # a file system without modes
            os.fchmod(descriptor, mode)


def _is_shared(status: os.stat_result) -> bool:
    """Return whether the directory was handed over, see `hand_over`."""
    return stat.S_IMODE(status.st_mode) == 0o1770


def _check_owned(descriptor: int, directory: Path, owners: frozenset[int]) -> None:
    fault = marker_fault(descriptor, directory, owners)
    if fault is not None:
        raise _refused(directory, fault, "nothing was erased; remove the directory by hand if it is not needed")


@contextmanager
def _open_if_exists(directory: Path) -> Iterator[int | None]:
    """Yield the descriptor of a directory, None if it does not exist.

    Raises Refused for a link, StepFailed for an OSError in the block.
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
    mounts = mounts_below(str(directory.resolve()), read_mounts())
    if mounts:
        raise _mounted_inside(directory, ", ".join(mounts[:_LISTED_MAX]), f"umount {mounts[-1]}")
    try:
        safe_files.erase_below(descriptor, keep=keep, last=MARKER)
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.EBUSY):
            mounts = mounts_below(str(directory.resolve()), read_mounts())
            if mounts or error.errno == errno.EXDEV:
                mount_points = ", ".join(mounts[:_LISTED_MAX]) or str(error.filename)
                raise _mounted_inside(directory, mount_points, "unmount it, then repeat the command") from error
        raise


def _remove_empty(directory: Path, descriptor: int) -> None:
    """Remove the emptied directory, if its path still leads to it."""
    with suppress(FileNotFoundError), safe_files.held_directory(directory.parent.resolve()) as parent:
        status, current = os.fstat(descriptor), os.stat(directory.name, dir_fd=parent, follow_symlinks=False)
        if (status.st_dev, status.st_ino) != (current.st_dev, current.st_ino):
            raise _refused(directory, "another process replaced the directory", "find its owner with ls -la")
        os.rmdir(directory.name, dir_fd=parent)


def _mounted_inside(directory: Path, evidence: str, next_step: str) -> Refused:
    return _refused(directory, f"file systems are mounted inside: {evidence}", next_step)


def _no_directory(directory: Path) -> Refused:
    if directory.is_symlink():
        return _refused(directory, "the path is a symbolic link", "name the link's target, or remove the link")
    return _refused(directory, "the path is a file", "name a directory")


def _cannot_remove(directory: Path, error: OSError) -> StepFailed:
    return StepFailed(
        "volbench cannot remove the directory",
        where=str(directory),
        evidence=_error_text(error),
        next_step="find its users with `fuser -vm`, or remove it by hand as the owner of the files",
    )


def _refused(directory: Path, evidence: str, next_step: str) -> Refused:
    return Refused(
        "the directory is not one of volbench's", where=str(directory), evidence=evidence, next_step=next_step
    )


def _error_text(error: OSError) -> str:
    return f"{type(error).__name__}: {error}"
