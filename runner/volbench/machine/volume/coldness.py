"""Cold reads: evict a file, prove that no page of it is resident, and label how cold a read was."""

from __future__ import annotations

import ctypes
import mmap
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from volbench.machine.volume.node_helper import ask_to_drop_caches, helper_socket

ColdLabel = Literal["true-cold", "file-cold", "client-cold", "lukewarm", "warm"]
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
DEVICE_SHARE_MIN = 0.95
RESIDENT_SHARE_MAX = 0.01
_WARM_SHARE_MIN = 0.95
_SYS_CACHESTAT = 451  # the same on every architecture but Alpha
_libc = ctypes.CDLL(None, use_errno=True)


class _CachestatRange(ctypes.Structure):
    _fields_ = (("off", ctypes.c_uint64), ("len", ctypes.c_uint64))


class _Cachestat(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("nr_cache", "nr_dirty", "nr_writeback", "nr_evicted", "nr_recently_evicted")
    )


@dataclass(frozen=True, kw_only=True)
class Residency:
    """How much of a file is in the page cache. `resident` None: unknown, for `reason`."""

    pages: int
    resident: int | None
    method: Literal["cachestat", "mincore", "none"]
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class ColdEvidence:
    """Counters before and after the reads that claim to be cold; sums over all files.

    Args:
        pages, resident_before: pages of the files, and those in the page cache just before; None: unknown.
        file_bytes: bytes read from the files.
        device_bytes: bytes that the device (NFS: the server) delivered; None: no counter.
        cache_below: why another cache may have served the device (see `facts.cache_below`); None: none is known.
        memory_backed: the volume is main memory.
        caches_dropped: the whole machine's caches were dropped, names and inodes among them.
    """

    pages: int
    resident_before: int | None
    file_bytes: int
    device_bytes: int | None
    cache_below: str | None = None
    memory_backed: bool = False
    caches_dropped: bool = False


@dataclass(frozen=True, kw_only=True)
class Coldness:
    """The label and its reason."""

    label: ColdLabel
    reason: str


def evict(path: Path) -> None:
    """Write a file's dirty pages back and drop all its clean, unmapped pages. Needs no root. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def resident_pages(path: Path) -> Residency:
    """Count the pages of a regular file in the page cache, by cachestat(2), else mincore(2); read none of them.

    Raises OSError if the file cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        pages = -(-status.st_size // mmap.PAGESIZE)
        if not stat.S_ISREG(status.st_mode):
            return Residency(pages=0, resident=None, method="none", reason="not a regular file")
        if pages == 0:
            return Residency(pages=0, resident=0, method="cachestat")
        cached, cachestat_reason = _cachestat(descriptor)
        if cached is not None:
            return Residency(pages=pages, resident=min(cached, pages), method="cachestat")
        if not (os.geteuid() in (0, status.st_uid) or os.access(path, os.W_OK)):
            # For other users the kernel reports all pages as resident.
            reason = f"cachestat: {cachestat_reason}; mincore: correct only for the file's owner or writer"
            return Residency(pages=pages, resident=None, method="none", reason=reason)
        resident, mincore_reason = _mincore(descriptor, status.st_size, pages)
        if resident is not None:
            return Residency(pages=pages, resident=resident, method="mincore")
        return Residency(
            pages=pages,
            resident=None,
            method="none",
            reason=f"cachestat: {cachestat_reason}; mincore: {mincore_reason}",
        )
    finally:
        os.close(descriptor)


def drop_caches() -> bool:
    """Drop the whole machine's clean caches; dirty pages stay.

    In a pod, ask the node's helper if there is one. Returns False without permission: not root, or a container with
    a read-only /proc/sys.
    """
    try:
        DROP_CACHES.write_text("3\n", encoding="ascii")
    except OSError:
        helper = helper_socket()
        return helper is not None and ask_to_drop_caches(helper)
    return True


def coldness_label(evidence: ColdEvidence) -> Coldness:
    """Return how cold the reads were; only proven reads are called cold.

    true-cold: no page was resident, the machine's caches were dropped, and the local device delivered >= 95 % of
    the bytes; file-cold: the same without that drop, so that names and inodes may have been cached; client-cold:
    with another cache between the device and this host; warm: served from memory; lukewarm: between these, or not
    proven.
    """
    if evidence.memory_backed:
        return Coldness(label="warm", reason="the volume is main memory: its reads are never cold")
    if evidence.file_bytes == 0:
        return Coldness(label="lukewarm", reason="nothing was read, so nothing is proven")
    resident_share = _share(evidence.resident_before, evidence.pages)
    if resident_share is None:
        return Coldness(label="lukewarm", reason="the number of resident pages before the read is unknown")
    before = f"{resident_share:.1%} of the pages were resident before"
    if resident_share > RESIDENT_SHARE_MAX:
        return Coldness(label="warm" if resident_share >= _WARM_SHARE_MIN else "lukewarm", reason=before)
    return _label_by_device(before, evidence)


def _label_by_device(before: str, evidence: ColdEvidence) -> Coldness:
    device_share = _share(evidence.device_bytes, evidence.file_bytes)
    if device_share is not None and device_share < DEVICE_SHARE_MIN:
        short = f"{before}, but the device delivered only {device_share:.1%} of the bytes"
        return Coldness(label="lukewarm", reason=short)
    if evidence.cache_below is not None:
        return Coldness(label="client-cold", reason=f"{before}; {evidence.cache_below}")
    if device_share is None:
        return Coldness(label="lukewarm", reason=f"{before}, but no counter shows what the device delivered")
    reason = f"{before}, and the device delivered {device_share:.1%} of the bytes"
    if not evidence.caches_dropped:
        return Coldness(label="file-cold", reason=f"{reason}; the machine's other caches could not be dropped")
    return Coldness(label="true-cold", reason=reason)


def _share(amount: int | None, total: int) -> float | None:
    if amount is None:
        return None
    return amount / total if total > 0 else 0.0


def _cachestat(descriptor: int) -> tuple[int | None, str]:
    range_all, counts = _CachestatRange(0, 0), _Cachestat()
    code = _libc.syscall(
        ctypes.c_long(_SYS_CACHESTAT),
        ctypes.c_int(descriptor),
        ctypes.byref(range_all),
        ctypes.byref(counts),
        ctypes.c_uint(0),
    )
    if code != 0:
        return None, os.strerror(ctypes.get_errno())
    return int(counts.nr_cache), ""


def _mincore(descriptor: int, size: int, pages: int) -> tuple[int | None, str]:
    """Count resident pages by a private mapping, whose pages are those of the cache; no byte is read."""
    try:
        with mmap.mmap(descriptor, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE) as mapping:
            vector = (ctypes.c_ubyte * pages)()
            start = (ctypes.c_char * size).from_buffer(mapping)
            try:
                code = _libc.mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), vector)
            finally:
                del start
            if code != 0:
                return None, os.strerror(ctypes.get_errno())
            return sum(byte & 1 for byte in vector), ""
    except (OSError, ValueError, MemoryError) as error:
        return None, str(error)
