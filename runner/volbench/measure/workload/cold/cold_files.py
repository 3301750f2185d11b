"""Makes files cold, proves it file by file, and says how cold the reads that followed were."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volbench.core.records.facts import VolumeFacts
from volbench.machine.volume.coldness import (
    ColdEvidence,
    Coldness,
    Residency,
    coldness_label,
    drop_caches,
    evict,
    resident_pages,
)
from volbench.machine.volume.deleted_inodes import sync_filesystem
from volbench.machine.volume.facts.discovery import cache_below
from volbench.measure.workload.files import stored_bytes, tree_files

DETAILED_FILES_MAX = 500
COLD_LABELS = ("true-cold", "file-cold", "client-cold")


@dataclass(frozen=True, kw_only=True)
class ColdFiles:
    """Files just evicted, with what was still in the page cache of each."""

    files: tuple[tuple[Path, Residency], ...]
    caches_dropped: bool

    @property
    def paths(self) -> list[Path]:
        """The files."""
        return [path for path, _ in self.files]

    @property
    def size_bytes(self) -> int:
        """Length of all files."""
        return sum(path.stat().st_size for path in self.paths)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the files that a device has to deliver; see `files.stored_bytes`."""
        return sum(stored_bytes(path) for path in self.paths)

    @property
    def pages(self) -> int:
        """Pages of all files."""
        return sum(residency.pages for _, residency in self.files)

    @property
    def resident(self) -> int | None:
        """Pages still in the page cache; None if unknown for a file."""
        counts = [residency.resident for _, residency in self.files if residency.resident is not None]
        return sum(counts) if len(counts) == len(self.files) else None


def make_cold(directory: Path) -> ColdFiles:
    """Sync and evict every file below a directory, then count the pages that are still in the page cache.

    Also drop the machine's caches if permitted: names and inodes are cached apart from file data. Counting opens
    every file, which caches names and inodes again, so they are dropped once more at the end. Raise OSError.
    """
    sync_filesystem(directory)  # names and inodes too; not the whole machine, whose other writers may be many
    paths = list(tree_files(directory))
    for path in paths:
        evict(path)
    drop_caches()
    files = tuple((path, resident_pages(path)) for path in paths)
    return ColdFiles(files=files, caches_dropped=drop_caches())


def label_of(cold: ColdFiles, facts: VolumeFacts, *, read_bytes: int, device_bytes: int | None) -> Coldness:
    """Return how cold a read of `read_bytes` was, judged by the bytes that the device delivered."""
    return coldness_label(
        ColdEvidence(
            pages=cold.pages,
            resident_before=cold.resident,
            file_bytes=read_bytes,
            device_bytes=device_bytes,
            cache_below=cache_below(facts),
            memory_backed=facts.memory_backed,
            caches_dropped=cold.caches_dropped,
        )
    )


def cold_details(
    cold: ColdFiles, label: Coldness, *, read_bytes: int, device_bytes: int | None, relative_to: Path
) -> dict[str, Any]:
    """Return the evidence file by file, of at most DETAILED_FILES_MAX files, and the number of omitted files."""
    return {
        "label": label.label,
        "reason": label.reason,
        "files": len(cold.files),
        "pages": cold.pages,
        "resident_pages_before": cold.resident,
        "machine_caches_dropped": cold.caches_dropped,
        "read_bytes": read_bytes,
        "device_bytes": device_bytes,
        "by_file": [
            _file_details(path, residency, relative_to) for path, residency in cold.files[:DETAILED_FILES_MAX]
        ],
        "files_left_out": max(0, len(cold.files) - DETAILED_FILES_MAX),
    }


def _file_details(path: Path, residency: Residency, relative_to: Path) -> dict[str, Any]:
    details: dict[str, Any] = {
        "file": str(path.relative_to(relative_to)),
        "pages": residency.pages,
        "resident_before": residency.resident,
        "method": residency.method,
    }
    if residency.reason:
        details["reason"] = residency.reason
    return details


def why_not_cold(label: Coldness, *, subject: str) -> tuple[str, ...]:
    """Return the reason why a step is not valid as a cold read; empty if it was cold."""
    if label.label in COLD_LABELS:
        return ()
    return (f"{subject} was not cold but {label.label}: {label.reason}",)


def difference(before: int | None, after: int | None) -> int | None:
    """Return a counter's increase; None if a reading is unknown."""
    return None if before is None or after is None else after - before
