"""Becomes a server's user in a mount namespace of its own, then the server: a program that the supervisor starts.

    python -I -S enclosure.py USER DIRECTORY... -- PROGRAM ARGUMENT...

The server may write to the directories, and to no other file of this machine. It may enter them also where a parent
such as /root is closed to it: there, in this namespace alone, an empty directory takes the parent's place, and the
server's directories are in it under their own paths. Nothing is mounted for others, and with the process all is
gone. Standard library only, since it is started without the package: the interpreter takes 15 ms.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from collections.abc import Sequence

_CLONE_NEWNS = 0x20000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000
_MOUNT_SETATTR = 442
"""The same on every architecture; Linux 5.12."""
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MOUNT_ATTR_RDONLY = 1
_PR_SET_NO_NEW_PRIVS = 38
_SPACE = b"size=1m,nr_inodes=1k,mode=0755"
_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def closed_parent(path: str, user: int) -> str | None:
    """Return the uppermost directory above a path that a user in no group of others cannot enter; None if none."""
    components = os.path.realpath(path).split("/")[1:-1]
    for number in range(len(components) + 1):
        parent = "/" + "/".join(components[:number])
        status = os.stat(parent)
        of_others = stat.S_IXGRP if status.st_gid == user else stat.S_IXOTH
        if not status.st_mode & (stat.S_IXUSR if status.st_uid == user else of_others):
            return parent
    return None


def main(arguments: Sequence[str]) -> None:
    """Enclose this process, and become the program. It does not return. Raises OSError."""
    if arguments[0] == "--probe":
        _enter_namespace([], [], set())
        return
    end = arguments.index("--")
    user, directories, command = int(arguments[0]), arguments[1:end], list(arguments[end + 1 :])
    program = _program_path(command[0])
    paths = [os.path.realpath(directory) for directory in directories]
    readable = {path for path in _installation(program) if closed_parent(path, user) is not None}
    closed = {parent for path in (*paths, *readable) if (parent := closed_parent(path, user)) is not None}
    try:
        _enter_namespace(paths, sorted(readable), {parent for parent in closed if not _is_below(parent, closed)})
    except OSError as error:
        if closed:
            raise PermissionError(
                f"user {user} may not enter {min(closed)}, and there is no mount namespace"
            ) from error
        _say(f"no mount namespace for the server: {error}")
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    os.execv(program, command)  # noqa: S606 - as the supervisor would


def _installation(program: str) -> set[str]:
    """Return the directories of a program: with its `share` and `lib` where it is in a `bin`."""
    folders = {os.path.dirname(program), os.path.dirname(os.path.realpath(program))}
    return {
        parent
        if os.path.basename(folder) in {"bin", "sbin", "libexec"}
        and os.stat(parent := os.path.dirname(folder)).st_mode & stat.S_IXOTH
        else folder
        for folder in folders
    }


def _program_path(name: str) -> str:
    """Return the path of a program; found now, since the interpreter's own modules may be out of sight later."""
    directories = os.environ.get("PATH", os.defpath).split(":")
    paths = [name] if "/" in name else [f"{directory}/{name}" for directory in directories if directory[:1] == "/"]
    return next((path for path in paths if os.access(path, os.X_OK)), paths[-1])


def _is_below(path: str, paths: set[str]) -> bool:
    return any(path != parent and path.startswith(f"{parent.rstrip('/')}/") for parent in paths)


def _say(text: str) -> None:
    """Write to the server's log."""
    os.write(2, f"volbench: {text}\n".encode())


def _enter_namespace(writable: Sequence[str], readable: Sequence[str], closed: set[str]) -> None:
    """Make all of this machine read-only but some directories, which are visible instead of what is closed.

    Raises OSError.
    """
    _check(_libc.unshare(_CLONE_NEWNS))
    _mount(None, "/", None, _MS_REC | _MS_SLAVE)
    paths = [*readable, *writable]
    descriptors = [os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for path in paths]
    links = [link for path in writable for link in _links_into(path)]
    for parent in closed:
        _mount("volbench", parent, "tmpfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, _SPACE)
    umask = os.umask(0o022)
    for path, descriptor in zip(paths, descriptors, strict=True):
        os.makedirs(path, mode=0o755, exist_ok=True)
        _mount(f"/proc/self/fd/{descriptor}", path, None, _MS_BIND)
    for link, target in links:
        if not os.path.lexists(link):
            os.symlink(target, link)
    os.umask(umask)
    try:
        _set_attributes("/", _MountAttributes(attr_set=_MOUNT_ATTR_RDONLY), _AT_RECURSIVE)
        for path in writable:
            _set_attributes(path, _MountAttributes(attr_clr=_MOUNT_ATTR_RDONLY), 0)
    except OSError as error:  # Linux before 5.12: the user's rights alone keep the server from other files
        _say(f"the server sees a writable file system: {error}")


def _links_into(directory: str) -> list[tuple[str, str]]:
    """Return the links beside a directory that lead into it, with their targets."""
    parent, name = os.path.split(directory)
    with os.scandir(parent) as entries:
        links = [(entry.path, os.readlink(entry.path)) for entry in entries if entry.is_symlink()]
    return [(link, target) for link, target in links if target.startswith(f"{name}/")]


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: bytes | None = None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    _check(_libc.mount(*encoded, ctypes.c_ulong(flags), data))


def _set_attributes(path: str, attributes: _MountAttributes, flags: int) -> None:
    _check(
        _libc.syscall(
            _MOUNT_SETATTR, _AT_FDCWD, os.fsencode(path), flags, ctypes.byref(attributes), ctypes.sizeof(attributes)
        )
    )


def _check(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    main(sys.argv[1:])
