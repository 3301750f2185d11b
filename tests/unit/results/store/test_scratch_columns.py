"""Columns in files without a name: what is read is what was written, and neither takes memory."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from volbench.results.store import scratch_columns
from volbench.results.store.scratch_columns import ScratchColumn

NUMBERS = 8 << 20
PIECE = 1 << 20


def resident_bytes() -> int:
    """Memory of this process, mapped files included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_long_column_takes_no_memory() -> None:
    """64 MiB are written at two ends in turn, and read again."""
    opened, before = descriptors(), resident_bytes()
    column = ScratchColumn(NUMBERS, np.float64)
    assert column.is_on_disk
    for begin in range(0, NUMBERS // 2, PIECE):
        for at in (begin, NUMBERS - begin - PIECE):
            column.array[at : at + PIECE] = np.arange(at, at + PIECE)
        column.release()
    assert resident_bytes() - before < NUMBERS * 8 / 2
    for begin in range(0, NUMBERS, PIECE):
        assert np.array_equal(column.read(begin, begin + PIECE), np.arange(begin, begin + PIECE))
    assert resident_bytes() - before < NUMBERS * 8 / 2
    del column
    assert descriptors() == opened


def test_a_file_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch_columns, "SCRATCH", str(tmp_path))
    monkeypatch.setattr(scratch_columns, "ON_DISK_FROM", 2)
    assert ScratchColumn(2, np.uint16).is_on_disk
    assert not ScratchColumn(1, np.uint16).is_on_disk
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lacks", ["directory", "room"])
def test_without_a_file_a_column_is_in_memory(lacks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, begin: int, length: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(scratch_columns, "ON_DISK_FROM", 2)
    if lacks == "directory":
        monkeypatch.setattr(scratch_columns, "SCRATCH", str(tmp_path / "absent"))
    else:
        monkeypatch.setattr(os, "posix_fallocate", refuse)
    opened = descriptors()
    column = ScratchColumn(3, np.uint16)
    assert not column.is_on_disk
    assert descriptors() == opened
    column.array[:] = [1, 2, 3]
    column.release()
    assert column.read(1, 3).tolist() == [2, 3]
