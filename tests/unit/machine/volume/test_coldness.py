"""Coldness: pages are evicted and counted for real; only what is proven is called cold."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from volbench.machine.volume import coldness
from volbench.machine.volume.coldness import ColdEvidence, coldness_label, evict, resident_pages
from volbench.machine.volume.facts.discovery import discover

PAGES = 64
COLD = {"pages": 100, "resident_before": 0, "file_bytes": 1000, "device_bytes": 1000, "caches_dropped": True}


@pytest.fixture
def file() -> Iterator[Path]:
    """A file on a disk: tmp_path may be memory."""
    path = Path(f"/var/tmp/volbench-cold-{os.getpid()}")
    path.write_bytes(b"x" * (PAGES * mmap.PAGESIZE - 7))
    yield path
    path.unlink()


def is_on_disk(path: Path) -> bool:
    facts = discover(path)
    return facts.device is not None and not facts.memory_backed


@pytest.mark.parametrize("method", ["cachestat", "mincore"])
def test_evicted_file_is_not_resident(file: Path, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file just written is in memory, all of it; evicted (dirty pages too), none of it; both methods agree."""
    if not is_on_disk(file):
        pytest.skip("/var/tmp is not on a disk")
    if method == "mincore":
        monkeypatch.setattr(coldness, "_cachestat", lambda *_: (None, "not asked"))
    before = resident_pages(file)
    if before.method != method:
        pytest.skip(f"this kernel answers by {before.method}: {before.reason}")
    assert (before.pages, before.resident) == (PAGES, PAGES)
    evict(file)
    assert resident_pages(file).resident == 0


def test_looking_does_not_warm(file: Path) -> None:
    """Asking twice gives the same answer: no page is read by asking."""
    if not is_on_disk(file):
        pytest.skip("/var/tmp is not on a disk")
    evict(file)
    assert resident_pages(file) == resident_pages(file)
    with file.open("rb") as open_file:
        os.posix_fadvise(open_file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(open_file.fileno(), 1, 0)
    partly = resident_pages(file).resident
    assert partly is not None
    assert 1 <= partly < PAGES


def test_memory_cannot_be_evicted() -> None:
    """A file on tmpfs stays resident, whatever one advises."""
    path = Path(f"/dev/shm/volbench-cold-{os.getpid()}")
    path.write_bytes(b"x" * mmap.PAGESIZE)
    try:
        evict(path)
        assert resident_pages(path).resident == 1
    finally:
        path.unlink()


def test_empty_file_and_directory(tmp_path: Path) -> None:
    """An empty file has no page to be resident; a directory is no file to tell it of."""
    (tmp_path / "empty").touch()
    assert resident_pages(tmp_path / "empty").resident == 0
    messages = resident_pages(tmp_path)
    assert messages.resident is None
    assert messages.reason == "not a regular file"


def test_neither_method_gives_a_reason(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not known is None with both reasons, never 0."""
    monkeypatch.setattr(coldness, "_cachestat", lambda *_: (None, "Function not implemented"))
    monkeypatch.setattr(coldness, "_mincore", lambda *_: (None, "Cannot allocate memory"))
    messages = resident_pages(file)
    assert messages.resident is None
    assert "Function not implemented" in messages.reason
    assert "Cannot allocate memory" in messages.reason


def test_drop_caches_says_whether_it_worked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the switch is not writable (container), the answer is False and nothing is raised."""
    monkeypatch.setattr(coldness, "DROP_CACHES", tmp_path / "no" / "drop_caches")
    monkeypatch.setattr(os, "sync", lambda: None)
    assert not coldness.drop_caches()
    monkeypatch.setattr(coldness, "DROP_CACHES", tmp_path / "drop_caches")
    assert coldness.drop_caches()
    assert (tmp_path / "drop_caches").read_text() == "3\n"


@pytest.mark.parametrize(
    ("change", "label", "reason"),
    [
        ({}, "true-cold", "100.0%"),
        ({"device_bytes": 950}, "true-cold", "95.0%"),
        ({"caches_dropped": False}, "file-cold", "other caches could not be dropped"),
        ({"caches_dropped": False, "resident_before": 100}, "warm", "100.0%"),
        ({"caches_dropped": False, "cache_below": "a server"}, "client-cold", "a server"),
        ({"device_bytes": 949}, "lukewarm", "only 94.9%"),
        ({"device_bytes": 0}, "lukewarm", "only 0.0%"),
        ({"device_bytes": 5000}, "true-cold", "500.0%"),
        ({"device_bytes": None}, "lukewarm", "no counter"),
        ({"resident_before": None}, "lukewarm", "is unknown"),
        ({"resident_before": 1}, "true-cold", "1.0%"),
        ({"resident_before": 2}, "lukewarm", "2.0%"),
        ({"resident_before": 95}, "warm", "95.0%"),
        ({"resident_before": 100, "device_bytes": 0}, "warm", "100.0%"),
        ({"cache_below": "the NFS server x has caches"}, "client-cold", "NFS server x"),
        ({"cache_below": "a server", "device_bytes": None}, "client-cold", "a server"),
        ({"cache_below": "a server", "device_bytes": 10}, "lukewarm", "only 1.0%"),
        ({"cache_below": "a server", "resident_before": 50}, "lukewarm", "50.0%"),
        ({"memory_backed": True}, "warm", "are never cold"),
        ({"memory_backed": True, "resident_before": None}, "warm", "are never cold"),
        ({"file_bytes": 0, "pages": 0, "device_bytes": 0}, "lukewarm", "nothing was read"),
    ],
)
def test_label(change: dict[str, Any], label: str, reason: str) -> None:
    """The label follows from the evidence, and the reason quotes it."""
    messages = coldness_label(ColdEvidence(**(COLD | change)))
    assert messages.label == label
    assert reason in messages.reason
