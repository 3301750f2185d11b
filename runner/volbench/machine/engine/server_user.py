"""The user that a server of this machine runs as when volbench runs as root: one who owns nothing else.

Not `mysql`: that one owns the data of a server in production. The number has no account, so that no other program
runs as it; it stays with the data directory. In a user namespace without such numbers, root is an unprivileged user
outside, and the server runs as root there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from volbench.core.base import ownership, programs
from volbench.core.base.confinement import USERS, unprivileged_user
from volbench.core.base.python import isolated_python_command
from volbench.errors import MissingPrerequisite, Refused
from volbench.machine.engine.enclosure import closed_parent

_ENCLOSURE = Path(__file__).with_name("enclosure.py")


def server_user(data_dir: Path) -> int | None:
    """Return the user for a server of this machine; None: the server runs as this process's user.

    A data directory that has been handed to such a user keeps it.
    """
    user = unprivileged_user()
    if user is None:
        return None
    try:
        owner = data_dir.stat().st_uid
    except OSError:
        return user
    return owner if owner in USERS else user


def enclosed(user: int, data_dir: Path, other_directories: Sequence[Path], argv: Sequence[str]) -> list[str]:
    """Return the command that becomes the user and runs a server, which may write to these directories alone.

    They are the user's then. Raises MissingPrerequisite, Refused.
    """
    user = hand_to_user(data_dir, user)
    for directory in other_directories:
        hand_to_user(directory, user)
    directories = (data_dir, *other_directories)
    if not has_mount_namespaces():
        open_parents(directories, user)
    return [*isolated_python_command(_ENCLOSURE), str(user), *map(str, directories), "--", *argv]


@cache
def has_mount_namespaces() -> bool:
    """Return whether this root may make a mount namespace: in a container, it mostly may not."""
    done = programs.run([*isolated_python_command(_ENCLOSURE), "--probe"], capture_output=True, timeout=60)
    return done.returncode == 0


def open_parents(directories: Iterable[Path], user: int) -> None:
    """Let a user enter directories without a mount namespace: volbench's own ones on the way there are opened.

    Raises MissingPrerequisite if another one is closed.
    """
    for directory in directories:
        while (closed := closed_parent(str(directory), user)) is not None:
            if not ownership.is_owned(Path(closed)):
                raise MissingPrerequisite(
                    f"the server's user {user} may not enter {closed}, and no server runs as root",
                    where=f"server start: {directory}",
                    evidence="this machine allows no mount namespace",
                    next_step="run volbench as another user than root; or put volumes, TMPDIR and VOLBENCH_CACHE "
                    "where every user may enter, such as VOLBENCH_CACHE=/var/cache/volbench",
                )
            Path(closed).chmod(Path(closed).stat().st_mode | 0o111)


def hand_to_user(directory: Path, user: int) -> int:
    """Make a user the owner of a directory and all that is in it.

    Returns the owner: where root may change none, as on an NFS export with root_squash, the one whom the file
    server makes of root. Raises MissingPrerequisite if that is root, Refused for a file with another name
    elsewhere.
    """
    try:
        for _, directories, files, descriptor in os.fwalk(directory):
            for name in (".", *directories, *files):
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                if status.st_uid == user and status.st_gid == user:
                    continue
                if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                    raise Refused(
                        "a file of the data directory has another name (hard link)",
                        where="server start",
                        evidence=str(directory / name),
                    )
                os.chown(name, user, user, dir_fd=descriptor, follow_symlinks=False)
    except PermissionError as error:
        owner = directory.stat().st_uid
        if owner:
            return owner
        raise MissingPrerequisite(
            "this file system lets root give files to no other user, and no server runs as root",
            where=f"server start: {directory}",
            evidence=str(error),
            next_step="run volbench as another user than root, or use a file system that keeps owners",
        ) from error
    return user
