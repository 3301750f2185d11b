"""The user's own files in containers: read-only, as a copy where their modes forbid the containers' user to read.

Each is mounted below one directory that every user may enter, so who may enter the directories above it on the
machine does not matter. No mode of the user's is changed.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from volbench.core.base import safe_files
from volbench.core.base.text import size
from volbench.core.records.cell import CellSpec
from volbench.core.records.own_files import own_files, scripts_of, with_places
from volbench.core.records.own_places import inside, outside
from volbench.errors import UsageError
from volbench.machine.placement.interface import JobKind
from volbench.machine.volume.copying import copy_tree
from volbench.machine.volume.space import require_space

SERVER_UID = 999
"""The mysql user of the official image; used when the orchestrator is root."""
COPIED_BYTES_MAX = 1 << 30
"""Of one file or directory: a larger one would take minutes, and the space of the machine's disk."""
_DATA_FILE = "ibdata1"
"""Of a data directory: a copy without its server's help is no backup, and a server may run on it."""


@dataclass(frozen=True, kw_only=True)
class OwnMount:
    """A file or directory of this machine, and where a container has it."""

    source: Path
    target: str


def containers_uid() -> int:
    """Return the user, and the group, of a cell's containers: this user, for root the images' mysql user."""
    return os.getuid() or SERVER_UID


def in_containers(cell: CellSpec) -> CellSpec:
    """Return the cell with its files where its containers have them."""
    return with_places(cell, {str(path): inside(str(path)) for path in own_files(cell)})


def own_mounts(cell: CellSpec, kind: JobKind, uid: int, copies: Callable[[], Path]) -> list[OwnMount]:
    """Return what the agent of a cell that `in_containers` returned mounts.

    A script comes with its directory, where that can be read: it may read other files there. The dataset's file is
    that of the agent alone that loads it.

    Args:
        uid: of the containers.
        copies: makes an empty directory for copies and returns it; called if there are any.

    Raises UsageError for a file that cannot be read, and for one that is too large to be copied.
    """
    paths = [Path(outside(str(path))) for path in own_files(cell, with_dataset=kind == "prepare")]
    data = {path.parent for path in paths if path.suffix != ".lua"}
    sources: dict[Path, None] = {}
    for path in paths:
        if path.suffix != ".lua":
            sources[path] = None
            continue
        scripts = scripts_of(path)
        is_plain_script = path.parent not in data and all(
            _is_plain(script, uid) for script in (path.parent, *scripts)
        )
        sources |= dict.fromkeys([path.parent] if is_plain_script else scripts)
    directory: Path | None = None
    mounts = []
    for number, path in enumerate(sources):
        source = Path(os.path.realpath(path))
        if not _is_readable(source, uid):
            check_readable(path, uid, where="the user's own files")
            directory = directory or copies()
            source = _copied(source, directory / str(number), uid)
        mounts.append(OwnMount(source=source, target=inside(str(path))))
    return mounts


def check_readable(path: Path, uid: int, *, where: str) -> None:
    """Raise UsageError for what the containers' user may not read, and what is too large to be copied for him."""
    source = Path(os.path.realpath(path))
    closed = next((entry for entry in _entries(source) if not _may_read(entry, uid)), None)
    if closed is None:
        return
    copied = sum(entry.lstat().st_size for entry in _entries(source) if entry.is_file())
    is_data = (source / _DATA_FILE).exists()
    if copied <= COPIED_BYTES_MAX and not is_data:
        return
    status = closed.lstat()
    reason = (
        "a data directory is not copied"
        if is_data
        else f"{size(copied)}, copied are {size(COPIED_BYTES_MAX)} at most"
    )
    raise UsageError(
        "the containers' user cannot read the file",
        where=where,
        evidence=f"{closed} has mode {stat.S_IMODE(status.st_mode):04o} and is of user {status.st_uid}, the"
        f" containers' user is {uid}; {reason}",
        next_step=f"chmod {'-R o+rX' if source.is_dir() else 'o+r'} {path}, or choose --target local",
    )


def _entries(path: Path) -> Iterator[Path]:
    """Yield a file; a directory and all in it but links, whose targets a container does not have."""
    yield path
    if path.is_dir():
        for directory, names, files in os.walk(path):
            for name in (*names, *files):
                entry = Path(directory, name)
                if not entry.is_symlink():
                    yield entry


def _is_readable(path: Path, uid: int) -> bool:
    return all(_may_read(entry, uid) for entry in _entries(path))


def _is_plain(path: Path, uid: int) -> bool:
    """Return whether a container's user may read a file or list a directory, and it is no link to another place."""
    return not path.is_symlink() and _may_read(path, uid)


def _may_read(path: Path, uid: int) -> bool:
    """Return what the mode says; an access list may say more, and then a copy is made in vain."""
    try:
        status = path.stat()
    except OSError as error:
        raise unreadable(path, error) from error
    if status.st_uid == uid:
        granted = status.st_mode >> 6
    else:
        granted = status.st_mode >> 3 if status.st_gid == uid else status.st_mode
    needed = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(status.st_mode) else 0)
    return granted & needed == needed


def _copied(source: Path, destination: Path, uid: int) -> Path:
    """Return a copy that the containers' user owns."""
    try:
        if source.is_dir():
            copy_tree(source, destination)
        else:
            require_space(destination.parent, source.stat().st_size, purpose="copies of your own files")
            with safe_files.open_given(source) as opened, destination.open("xb") as copy:
                shutil.copyfileobj(opened, copy)
        for entry in _entries(destination):
            entry.chmod(0o700 if entry.is_dir() else 0o600)
            if os.getuid() == 0:
                os.chown(entry, uid, uid, follow_symlinks=False)
    except OSError as error:
        raise unreadable(source, error) from error
    return destination


def unreadable(path: Path, error: OSError) -> UsageError:
    """Return the error of a user's file that cannot be read."""
    return UsageError("a file of your own cannot be read", where=str(path), evidence=str(error))
