"""Copies a directory tree, by shared extents if the filesystem supports them, and syncs the copy."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import re
import stat
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from volbench.core.base import ownership, safe_files
from volbench.core.base.marker import MARKER
from volbench.core.base.mountinfo import mount_of_open_path, read_mounts
from volbench.errors import Refused, StepFailed, VolbenchError
from volbench.machine.volume.space import require_space
from volbench.machine.volume.trouble import volume_failure

CopyMethod = Literal["reflink", "copy_file_range", "sendfile"]
Progress = Callable[[int, int], None]
_libc = ctypes.CDLL(None, use_errno=True)
_FICLONE = 0x40049409
_CHUNK_BYTES = 4 << 20  # between two looks at whether another file has failed
_UNSUPPORTED_ERRORS = frozenset(
    {
        errno.EOPNOTSUPP,
        errno.EXDEV,
        errno.EINVAL,
        errno.ENOTTY,
        errno.ENOSYS,
        errno.EPERM,
        errno.EBADF,
        errno.ETXTBSY,
    }
)


@dataclass(frozen=True, kw_only=True)
class CopyStats:
    """The figures of a copy. `bytes` is the sum of file sizes; `method` the weakest that any file needed."""

    bytes: int
    files: int
    seconds: float
    method: CopyMethod


@dataclass(frozen=True, kw_only=True)
class _File:
    source: Path
    destination: Path
    size: int


def no_progress(done_bytes: int, total_bytes: int) -> None:
    """Ignore progress."""


def every_entry(name: str) -> bool:  # noqa: ARG001 - as others of its kind
    """Select everything."""
    return True


def copy_tree(
    source: Path,
    destination: Path,
    *,
    workers: int = 4,
    progress: Progress = no_progress,
    reflink: bool = True,
    select: Callable[[str], bool] = every_entry,
) -> CopyStats:
    """Copy a tree into a new or empty directory. On return it is on the device: its pages can be evicted.

    Modes and, for root, owners are preserved; holes stay holes; symbolic links are copied as links; sockets and
    pipes are skipped. A failed copy is removed.

    Args:
        destination: absent or empty; its parent exists.
        workers: files copied at the same time.
        progress: called with bytes done and bytes in all, from any thread, one call at a time.
        reflink: share extents if the filesystem supports that. The first write to each shared extent is then a
            copy on write, which a data directory on another volume does not have: False for equal conditions. Then
            copy_file_range is not used either, since XFS and Btrfs share extents for it.
        select: returns whether an entry of `source` itself is copied, by its name.

    Raises Refused for a destination that is not empty; MissingPrerequisite (volume_full, volume_read_only) or
    StepFailed (volume_gone, volume_error, source_gone), each with its `cause`.
    """
    started_s = time.monotonic()
    if not source.is_dir():
        raise StepFailed("the directory to copy does not exist", where=str(source), cause="source_gone")
    made = not destination.exists()
    if not made and any(destination.iterdir()):
        raise Refused("the destination of a copy is not empty", where=str(destination), cause="not_empty")
    try:
        directories, files = _make_directories(source, destination, select)
        total = sum(file.size for file in files)
        copier = _Copier(total=total, progress=progress, method="copy_file_range" if reflink else "sendfile")
        if not (reflink and copier.can_reflink(files)):
            require_space(destination, sum(_allocated(file.source) for file in files))
        _copy_all(copier, files, workers)
        _sync(destination, files, directories)
    except OSError as error:
        _undo_copy(destination, made=made)
        raise volume_failure(error, phase=f"copying {source} to {destination}") from error
    except BaseException:
        _undo_copy(destination, made=made)
        raise
    return CopyStats(bytes=total, files=len(files), seconds=time.monotonic() - started_s, method=copier.method)


class _Copier:
    """Copies one file at a time per thread; remembers which methods the two filesystems do not support."""

    def __init__(self, *, total: int, progress: Progress, method: CopyMethod) -> None:
        self.method = method
        self.failed = threading.Event()
        self._total = total
        self._done = 0
        self._progress = progress
        self._lock = threading.Lock()

    def can_reflink(self, files: Sequence[_File]) -> bool:
        """Try a reflink with the first file that is not empty, and remember the result."""
        first = next((file for file in files if file.size), None)
        if first is None:
            return False
        with first.source.open("rb") as source, first.destination.open("wb") as destination:
            if _reflink(source.fileno(), destination.fileno()):
                self.method = "reflink"
        return self.method == "reflink"

    def copy(self, file: _File) -> None:
        """Copy one file."""
        if self.failed.is_set():
            return
        descriptor = os.open(file.source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as source, file.destination.open("wb") as destination:
            status = os.fstat(source.fileno())
            _keep_owner_and_mode(destination.fileno(), status)
            if self.method == "reflink" and _reflink(source.fileno(), destination.fileno()):
                self._count(status.st_size)
            else:
                self._copy_data(source.fileno(), destination.fileno(), status.st_size)

    def _copy_data(self, source: int, destination: int, size: int) -> None:
        if self.method == "reflink":
            self.method = "copy_file_range"
        os.ftruncate(destination, size)
        offset = 0
        while offset < size and not self.failed.is_set():
            start, end = _next_data(source, offset, size)
            self._count(start - offset)
            self._copy_range(source, destination, start, end)
            offset = end

    def _copy_range(self, source: int, destination: int, start: int, end: int) -> None:
        while start < end and not self.failed.is_set():
            copied = self._copy_chunk(source, destination, start, min(_CHUNK_BYTES, end - start))
            if copied == 0:
                raise OSError(errno.EIO, "the source file became shorter while it was copied")
            self._count(copied)
            start += copied

    def _copy_chunk(self, source: int, destination: int, start: int, length: int) -> int:
        if self.method != "sendfile":
            try:
                copied = os.copy_file_range(source, destination, length, start, start)
                if copied > 0:
                    return copied
            except OSError as error:
                if error.errno not in _UNSUPPORTED_ERRORS:
                    raise
            self.method = "sendfile"  # some filesystems answer 0 instead of an error
        os.lseek(destination, start, os.SEEK_SET)
        return os.sendfile(destination, source, start, length)

    def _count(self, copied: int) -> None:
        with self._lock:
            self._done += copied
            self._progress(self._done, self._total)


def _make_directories(
    source: Path, destination: Path, select: Callable[[str], bool]
) -> tuple[list[Path], list[_File]]:
    """Create all directories and links, parents first; return the directories and the files to copy."""
    directories, files = [], []
    waiting = [(source, destination)]
    while waiting:
        source_dir, target_dir = waiting.pop()
        target_dir.mkdir(exist_ok=target_dir == destination)
        directories.append(target_dir)
        with os.scandir(source_dir) as entries:
            for entry in entries:
                if source_dir == source and not select(entry.name):
                    continue
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    waiting.append((Path(entry.path), target_dir / entry.name))
                elif stat.S_ISLNK(status.st_mode):
                    (target_dir / entry.name).symlink_to(os.readlink(entry.path))  # noqa: PTH115 - kept as it is
                elif stat.S_ISREG(status.st_mode) and entry.name != MARKER:
                    files.append(
                        _File(source=Path(entry.path), destination=target_dir / entry.name, size=status.st_size)
                    )
        descriptor = os.open(target_dir, os.O_RDONLY | os.O_DIRECTORY)
        try:
            status = source_dir.stat()
            _keep_owner_and_mode(descriptor, status, add=stat.S_IRWXU)
        finally:
            os.close(descriptor)
    return directories, files


def _copy_all(copier: _Copier, files: Sequence[_File], workers: int) -> None:
    largest_first = sorted(files, key=lambda file: file.size, reverse=True)
    with ThreadPoolExecutor(max_workers=max(1, workers), thread_name_prefix="copy") as pool:
        copies = [pool.submit(copier.copy, file) for file in largest_first]
        try:
            done, _ = wait(copies, return_when=FIRST_EXCEPTION)
            failures = [error for error in (copy.exception() for copy in done) if error is not None]
            if failures:
                raise failures[0]
        except BaseException:
            copier.failed.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _reflink(source: int, destination: int) -> bool:
    try:
        fcntl.ioctl(destination, _FICLONE, source)
    except OSError as error:
        if error.errno in _UNSUPPORTED_ERRORS:
            return False
        raise
    return True


def _next_data(source: int, offset: int, size: int) -> tuple[int, int]:
    """Return start and end of the next data extent; (size, size) if only a hole is left."""
    try:
        start = os.lseek(source, offset, os.SEEK_DATA)
        return start, min(size, os.lseek(source, start, os.SEEK_HOLE))
    except OSError as error:
        if error.errno == errno.ENXIO:
            return size, size
        if error.errno in _UNSUPPORTED_ERRORS:
            return offset, size
        raise


def _allocated(file: Path) -> int:
    status = file.stat()
    return min(status.st_size, status.st_blocks * 512)


def _keep_owner_and_mode(descriptor: int, status: os.stat_result, *, add: int = 0) -> None:
    if os.geteuid() == 0:
        os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode) | add)


def _sync(destination: Path, files: Sequence[_File], directories: Sequence[Path]) -> None:
    """Write everything back: the whole filesystem at once, which costs one journal commit instead of one a file.

    If that is not enough, file by file: syncfs(2) reports errors of the writeback only since Linux 5.8, and does
    not reach the process behind a FUSE mount.
    """
    descriptor = os.open(destination, os.O_RDONLY | os.O_DIRECTORY)
    try:
        code = _libc.syncfs(descriptor)
        if code != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(destination))
    finally:
        os.close(descriptor)
    if not _syncfs_reports_errors() or _is_fuse(destination):
        for path in (*(file.destination for file in files), *reversed(directories)):
            safe_files.sync_path(path)
    safe_files.sync_path(destination.parent)


def _syncfs_reports_errors() -> bool:
    numbers = re.match(r"(\d+)\.(\d+)", platform.release())
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= (5, 8)


def _is_fuse(path: Path) -> bool:
    mount = mount_of_open_path(path, read_mounts())
    return mount is None or mount.filesystem.startswith("fuse")


def _undo_copy(destination: Path, *, made: bool) -> None:
    """Remove what was written, as far as possible: the caller reports the original failure."""
    with suppress(VolbenchError, OSError):
        if made:
            ownership.discard(destination)
        else:
            ownership.discard_contents(destination)
