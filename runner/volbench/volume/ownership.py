"""Our directories carry a marker file; nothing without it is written to or erased."""

from __future__ import annotations

import datetime
import json
import os
import secrets
import stat
from pathlib import Path
from typing import Any

from volbench.errors import EnvironmentLacks, Refused, StepFailed
from volbench.volume.mountinfo import mounts_below, read_mounts

MARKER = ".volbench-owned.json"
MARKER_SCHEMA = 1
_PARTIAL = f"{MARKER}.partial"
_MARKER_BYTES_MAX = 4096
_DATA_DIRECTORY_SIGNS = ("ibdata1", "mysql.ibd", "aria_log_control", "ib_logfile0", "#innodb_redo", "auto.cnf")
_SHOWN_MAX = 5


def claim(directory: Path, *, purpose: str, run_id: str = "") -> None:
    """Make a directory ours: create it, or take it when it is empty or already marked.

    Its parent must exist. Raises Refused for a directory with foreign contents, EnvironmentLacks when it cannot
    be made.
    """
    refuse_data_directory(directory)
    try:
        directory.mkdir(exist_ok=True)
        if directory.is_symlink():
            raise _refused(directory, "it is a symbolic link", "name the directory that it points to")
        if is_ours(directory):
            return
        foreign = sorted(name for name in os.listdir(directory) if name != _PARTIAL)  # noqa: PTH208
        if foreign:
            shown = ", ".join(foreign[:_SHOWN_MAX]) + (", ..." if len(foreign) > _SHOWN_MAX else "")
            raise _refused(
                directory,
                f"it holds {len(foreign)} entries and no {MARKER}: {shown}",
                "name an empty or a new directory; nothing in this one was touched",
            )
        _mark(directory, purpose=purpose, run_id=run_id)
    except FileExistsError as error:
        raise _refused(directory, "it is a file", "name a directory") from error
    except OSError as error:
        raise EnvironmentLacks(
            "the directory cannot be made ours",
            where=str(directory),
            evidence=_words(error),
            next_step="make its parent directory writable for this user, or name another place",
        ) from error


def is_ours(directory: Path) -> bool:
    """Whether a directory carries our marker: a regular file of our form, not a link to one."""
    return _read_marker(directory) is not None


def erase_contents(directory: Path) -> None:
    """Erase everything in a directory of ours but the marker.

    Symbolic links are removed, not followed; mounts inside are never entered. Raises Refused without the marker
    or with a mount inside, StepFailed when something cannot be removed.
    """
    _check_ours(directory)
    _erase(directory, keep=MARKER)


def remove(directory: Path) -> None:
    """Remove a directory of ours; the marker goes last, so that an interrupted removal can be taken up again.

    An empty directory without marker is what a removal leaves that was interrupted at its end: it is removed. One
    that is gone already is fine. Raises as `erase_contents` does.
    """
    if not directory.is_symlink() and not directory.exists():
        return
    if directory.is_symlink() or not _is_empty(directory):
        erase_contents(directory)
    discard(directory)


def discard(directory: Path) -> None:
    """Remove a directory that the caller has made itself, in this process: no marker is asked for.

    Symbolic links and mounts as in `erase_contents`. Raises Refused, StepFailed.
    """
    discard_contents(directory)
    try:
        directory.rmdir()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise _cannot_remove(directory, error) from error


def discard_contents(directory: Path) -> None:
    """Erase everything in a directory whose whole contents the caller has made itself; as `discard`."""
    _erase(directory, keep=None)


def refuse_data_directory(directory: Path) -> None:
    """Raise Refused when a directory is, or is inside, a MySQL data directory that is not ours."""
    places = (directory, *directory.absolute().parents)
    if any(is_ours(place) for place in places):
        return
    for place in places:
        signs = [sign for sign in _DATA_DIRECTORY_SIGNS if os.path.lexists(place / sign)]
        if len(signs) >= 2 or "ibdata1" in signs or "mysql.ibd" in signs:
            inside = "" if place == directory else "inside "
            raise _refused(
                directory,
                f"it is {inside}a MySQL data directory: {place} holds {', '.join(signs)}",
                "name a directory beside it, on the same volume; volbench makes its own data directory there",
            )


def _mark(directory: Path, *, purpose: str, run_id: str) -> None:
    content = {
        "schema": MARKER_SCHEMA,
        "created_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "purpose": purpose,
        "run_id": run_id,
        "token": secrets.token_hex(8),
    }
    partial = directory / _PARTIAL
    with partial.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(directory / MARKER)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_marker(directory: Path) -> dict[str, Any] | None:
    try:
        descriptor = os.open(directory / MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        try:
            content = json.loads(file.read(_MARKER_BYTES_MAX))
        except (ValueError, OSError):
            return None
    is_form = isinstance(content, dict) and isinstance(content.get("schema"), int) and "token" in content
    return content if is_form else None


def _check_ours(directory: Path) -> None:
    if directory.is_symlink():
        raise _refused(directory, "it is a symbolic link", "remove the link by hand")
    if not is_ours(directory):
        raise _refused(
            directory, f"it has no {MARKER}", "nothing was erased; remove it by hand if it is not needed"
        )


def _is_empty(directory: Path) -> bool:
    try:
        return not os.listdir(directory)  # noqa: PTH208 - names are all that is asked
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _erase(directory: Path, *, keep: str | None) -> None:
    inside = mounts_below(str(directory.resolve()), read_mounts())
    if inside:
        raise _refused(
            directory, f"something is mounted inside: {', '.join(inside[:_SHOWN_MAX])}", f"umount {inside[-1]}"
        )
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _cannot_remove(directory, error) from error
    try:
        _erase_open(descriptor, keep=keep)
    except OSError as error:
        raise _cannot_remove(directory, error) from error
    finally:
        os.close(descriptor)


def _erase_open(descriptor: int, *, keep: str | None = None) -> None:
    """Erase below an open directory, each step relative to it, so that no renamed parent can lead elsewhere."""
    marker_last = sorted(os.listdir(descriptor), key=lambda name: name == MARKER)
    for name in marker_last:
        if name == keep:
            continue
        try:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                os.unlink(name, dir_fd=descriptor)
                continue
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            try:
                _erase_open(below)
            finally:
                os.close(below)
            os.rmdir(name, dir_fd=descriptor)
        except FileNotFoundError:
            continue  # somebody else removes it too: what matters is that it is gone


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
