"""Files below directories that other users may write to: opened by descriptor, never through a link.

The kernel resolves a path at each use, so a user who may write to one of its directories can replace its target.
The functions here resolve a path once, without symbolic links below a directory that the caller trusts, and use
descriptors from then on. `openat2` does that in the kernel (Linux 5.6); without it, step by step.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

DOCUMENT_BYTES_MAX = 256 << 20
"""Largest JSON or JSON-lines file of a run that is read whole."""
_OPENAT2 = 437  # the same on every architecture
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x01, 0x02, 0x04, 0x08
_RETRIES = 32
_DEPTH_MAX = 64
"""Maximum of open descriptors while a tree is erased; deeper directories are moved up first."""
_ROUNDS_MAX = 1000
_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(directory: int, name: str, flags: int, mode: int = 0o600, *, same_mount: bool = False) -> int:
    """Open a relative path below an open directory and return the descriptor; no component may be a link.

    Args:
        name: one or more components, without `..`.
        same_mount: refuse to enter another mount.

    Raises OSError: ELOOP for a symbolic link, EXDEV for `..`, an absolute path or another mount.
    """
    if name.startswith("/") or ".." in name.split("/"):
        raise OSError(errno.EXDEV, "the path leads out of its directory", name)
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW
    if has_openat2():
        resolve = _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS | (_NO_XDEV if same_mount else 0)
        return _openat2(directory, name, flags, mode, resolve)
    return _open_by_steps(directory, name, flags, mode, same_mount=same_mount)


@functools.cache
def has_openat2() -> bool:
    """Return whether this kernel, and the sandbox around this process, support openat2."""
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(_openat2(root, ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, 0, _BENEATH))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


def open_directory(path: Path) -> int:
    """Open a directory whose parent is trusted. Raises OSError, ENOTDIR for a symbolic link in its place."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


@contextmanager
def held_directory(path: Path) -> Iterator[int]:
    """Yield the descriptor of a directory. Raise OSError as `open_directory`."""
    descriptor = open_directory(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def pinned_path(descriptor: int) -> Path:
    """Return a path to an open directory that survives renames, also for child processes."""
    return Path(f"/proc/{os.getpid()}/fd/{descriptor}")


def open_regular(directory: int, name: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """Open a regular file below an open directory; never wait for a pipe. Raise OSError for other files."""
    descriptor = open_beneath(directory, name, flags | os.O_NONBLOCK | os.O_NOCTTY, mode)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, f"not a regular file but a {kind_of(status.st_mode)}", name)
        if flags & os.O_ACCMODE != os.O_RDONLY and status.st_nlink > 1:
            raise OSError(errno.EMLINK, "the file has other names (hard links)", name)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(directory: int, name: str, *, bytes_max: int = DOCUMENT_BYTES_MAX) -> bytes:
    """Return the bytes of a regular file below an open directory. Raises OSError, EFBIG beyond `bytes_max`."""
    with os.fdopen(open_regular(directory, name), "rb") as file:
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise OSError(errno.EFBIG, f"the file is larger than {bytes_max} bytes", name)
    return content


def read_beside(path: Path, *, bytes_max: int = DOCUMENT_BYTES_MAX) -> bytes:
    """Return the bytes of a regular file in a directory that others may write to; no link is followed.

    The directory itself is reached as its path says. Raises OSError as `read_regular`.
    """
    with held_directory(path.parent.resolve()) as directory:
        return read_regular(directory, path.name, bytes_max=bytes_max)


def read_end(path: Path, *, bytes_max: int) -> bytes:
    """Return the last bytes of a regular file, as `read_beside` reaches it. Raises OSError."""
    with (
        held_directory(path.parent.resolve()) as directory,
        os.fdopen(open_regular(directory, path.name), "rb") as file,
    ):
        file.seek(max(0, os.fstat(file.fileno()).st_size - bytes_max))
        return file.read(bytes_max)


def open_pipe(path: Path) -> int:
    """Open a named pipe that somebody reads, to write to it, and return the descriptor; no link is followed.

    Raises OSError: ENXIO without a reader, ENOENT, EINVAL for another kind of file.
    """
    with held_directory(path.parent.resolve()) as directory:
        descriptor = open_beneath(directory, path.name, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISFIFO(mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"not a named pipe but a {kind_of(mode)}", str(path))
    return descriptor


def open_given(path: Path) -> BufferedReader:
    """Open a regular file that the user names, for reading; links are followed.

    A pipe would be waited for, and a device may have no end: both are refused. Raises OSError.
    """
    _require_regular(path.stat().st_mode, path)  # before it is opened, which for a device is an action
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _require_regular(os.fstat(descriptor).st_mode, path)
        return os.fdopen(descriptor, "rb")
    except OSError:
        os.close(descriptor)
        raise


def read_given(path: Path, *, bytes_max: int = DOCUMENT_BYTES_MAX) -> bytes:
    """Return the bytes of a file that the user names, see `open_given`. Raises OSError, EFBIG."""
    with open_given(path) as file:
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise OSError(errno.EFBIG, f"the file is larger than {bytes_max} bytes", str(path))
    return content


def _require_regular(mode: int, path: Path) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"not a regular file but a {kind_of(mode)}", str(path))


def write_new(directory: int, name: str, content: bytes, *, mode: int = 0o600, sync: bool = True) -> None:
    """Write a file below an open directory atomically: to a temporary name, then rename.

    An existing entry of that name is replaced, not followed or written to. `mode` is exact. Raises OSError.
    """
    partial = f".{name}.partial"
    with suppress(FileNotFoundError):
        os.unlink(partial, dir_fd=directory)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(partial, flags, mode, dir_fd=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            if sync:
                os.fsync(descriptor)
        os.rename(partial, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(partial, dir_fd=directory)
        raise
    if sync:
        os.fsync(directory)


def sync_path(path: Path) -> None:
    """fsync one file or directory. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def erase_below(directory: int, *, keep: frozenset[str] = frozenset(), last: str = "") -> None:
    """Erase everything below an open directory by descriptor: no link is followed, no mount entered.

    Args:
        keep: names in the directory itself that stay.
        last: name in the directory itself that goes after all others.

    Raises OSError: EXDEV if something is mounted inside, also during the work.
    """
    stay = keep | {last}
    for _ in range(_ROUNDS_MAX):  # again for what was too deep and was moved up
        if not set(os.listdir(directory)) - stay:
            break
        _erase(directory, directory, keep=stay, depth=0)
    else:
        raise OSError(errno.ENOTEMPTY, "another process keeps creating files in the directory")
    if last and last not in keep:
        with suppress(FileNotFoundError):
            _erase_entry(directory, last, directory, depth=0)


def mount_id(descriptor: int) -> int:
    """Return the kernel's number of the mount that an open file is on (`mnt_id` of proc_pid_fdinfo(5))."""
    text = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("mnt_id:"))


def untrusted_parent(path: Path, *, owners: frozenset[int] | None = None) -> str | None:
    """Return why other users could replace the target of a path, or None if nobody can.

    A user who may write to a directory above it can rename its entries, unless the directory is sticky.

    Args:
        path: absolute.
        owners: users whose directories are trusted; None: all users, so that only directories count to which others
            than their owner may write: everybody, or a group with another member.
    """
    for parent in path.parents:
        try:
            status = parent.stat()
        except OSError:
            continue
        if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            return f"every user may rename what is in {parent} (mode {stat.S_IMODE(status.st_mode):04o})"
        if status.st_mode & stat.S_IWGRP and not status.st_mode & stat.S_ISVTX:
            strangers = _members(status.st_gid) - (owners or frozenset({status.st_uid})) - {0}
            if strangers:
                return f"user {min(strangers)}, of the group {status.st_gid}, may rename what is in {parent}"
        if owners is not None and status.st_uid not in owners:
            return f"{parent} belongs to user {status.st_uid}, who may rename what is in it"
    return None


def _members(group: int) -> set[int]:
    """Return the users of a group: whose first group it is, and whom it lists."""
    members = {user.pw_uid for user in pwd.getpwall() if user.pw_gid == group}
    with suppress(KeyError):  # a number that nobody has given to a group or a user
        for name in grp.getgrgid(group).gr_mem:
            with suppress(KeyError):
                members.add(pwd.getpwnam(name).pw_uid)
    return members


def trusted_users() -> frozenset[int]:
    """Return the users whose files are as good as this process's own: itself, root, and who became root by sudo."""
    sudo_user = os.environ.get("SUDO_UID", "") if os.geteuid() == 0 else ""
    return frozenset({0, os.geteuid(), *([int(sudo_user)] if sudo_user.isdecimal() else [])})


def planted_entry(path: Path) -> str | None:
    """Return which entry of a path another user has put where everybody may make files, as in /tmp; else None.

    Who made it may exchange what is in it, or where it leads, at any moment. Looks at the path as it is named, and
    at the one to which its links lead.
    """
    trusted = trusted_users()
    named = path.absolute()
    real = Path(os.path.realpath(named))
    for entry in dict.fromkeys((named, *named.parents, real, *real.parents)):
        try:
            mode, owner = entry.parent.stat().st_mode, entry.lstat().st_uid
        except OSError:
            continue
        if mode & stat.S_IWOTH and owner not in trusted:
            return f"{entry} belongs to user {owner}, and every user may make files in {entry.parent}"
    return None


def open_own(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a file of this user by its path, to write to it or to lock it, and return the descriptor.

    Where other users may make files, a name can be theirs: a link, a pipe, a file with other names, or a file of
    another user is not opened. `flags` must not truncate. Raises OSError: ELOOP, EINVAL, EMLINK, EPERM.
    """
    with held_directory(path.absolute().parent.resolve()) as directory:
        descriptor = open_regular(directory, path.name, flags, mode)
        try:
            owner = os.fstat(descriptor).st_uid
            is_shared = os.fstat(directory).st_mode & (stat.S_IWOTH | stat.S_IWGRP)
            if is_shared and owner not in trusted_users():
                raise PermissionError(errno.EPERM, f"the file belongs to user {owner}", str(path))
        except OSError:
            os.close(descriptor)
            raise
    return descriptor


def kind_of(mode: int) -> str:
    """Name what a file is, by its mode."""
    kinds = {
        stat.S_IFREG: "regular file",
        stat.S_IFDIR: "directory",
        stat.S_IFLNK: "symbolic link",
        stat.S_IFIFO: "named pipe",
        stat.S_IFSOCK: "socket",
        stat.S_IFCHR: "device",
        stat.S_IFBLK: "device",
    }
    return kinds.get(stat.S_IFMT(mode), "file of an unknown kind")


def _openat2(directory: int, name: str, flags: int, mode: int, resolve: int) -> int:
    how = _OpenHow(flags=flags, mode=mode if flags & os.O_CREAT else 0, resolve=resolve)
    number = 0
    for _ in range(_RETRIES):
        descriptor = int(
            _libc.syscall(_OPENAT2, directory, os.fsencode(name), ctypes.byref(how), ctypes.sizeof(how))
        )
        if descriptor >= 0:
            return descriptor
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):  # EAGAIN: something was renamed while the path was walked
            break
    raise OSError(number, os.strerror(number), name)


def _open_by_steps(directory: int, name: str, flags: int, mode: int, *, same_mount: bool) -> int:
    *parents, last = [component for component in name.split("/") if component not in ("", ".")] or ["."]
    current = os.dup(directory)
    try:
        for component in parents:
            below = os.open(component, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=current)
            os.close(current)
            current = below
        descriptor = os.open(last, flags, mode, dir_fd=current)
    finally:
        os.close(current)
    if same_mount and mount_id(descriptor) != mount_id(directory):
        os.close(descriptor)
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), name)
    return descriptor


def _erase(directory: int, top: int, *, keep: frozenset[str], depth: int) -> None:
    for name in os.listdir(directory):
        if name in keep:
            continue
        with suppress(FileNotFoundError):  # another process may have removed it
            _erase_entry(directory, name, top, depth=depth)


def _erase_entry(directory: int, name: str, top: int, *, depth: int) -> None:
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(name, dir_fd=directory)
        return
    below = open_beneath(directory, name, os.O_RDONLY | os.O_DIRECTORY, same_mount=True)
    try:
        if depth >= _DEPTH_MAX:
            _hoist(below, top)
        _erase(below, top, keep=frozenset(), depth=depth + 1)
    finally:
        os.close(below)
    os.rmdir(name, dir_fd=directory)


def _hoist(directory: int, top: int) -> None:
    """Move the directories in a deep directory to the top, to be erased from there."""
    for name in os.listdir(directory):
        if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            os.rename(name, f".erase-{os.urandom(8).hex()}", src_dir_fd=directory, dst_dir_fd=top)
