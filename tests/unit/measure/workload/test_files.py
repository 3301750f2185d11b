"""Files of steps."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from volbench.errors import MissingPrerequisite, StepFailed
from volbench.measure.workload.cold.file_reader import cat_files, read_files
from volbench.measure.workload.files import require_step_space, stored_bytes, sync_tree, tree_bytes, tree_files


def read(paths: list[Path], **changes: object) -> list[tuple[str, int]]:
    arguments: dict[str, object] = {
        "readers": 2,
        "block_size_bytes": 4096,
        "timeout_s": 10,
        "cancelled": threading.Event(),
        "on_progress": lambda _: None,
    }
    return [(file.path.name, file.size_bytes) for file in read_files(paths, **{**arguments, **changes})]  # type: ignore[arg-type]


def test_every_file_is_read_to_its_end(tmp_path: Path) -> None:
    """Empty ones, odd sizes and several readers, in the order asked for."""
    sizes = {"a": 0, "b": 1, "c": 4096, "d": 100_001}
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(b"x" * size)
    assert dict(read(list(tree_files(tmp_path)))) == sizes
    assert tree_bytes(tmp_path) == sum(sizes.values())


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    """Not a file of size 0."""
    with pytest.raises(FileNotFoundError):
        read([tmp_path / "none"])


def test_reading_ends_when_cancelled_or_too_late(tmp_path: Path) -> None:
    """Between two blocks."""
    (tmp_path / "a").write_bytes(b"x" * 10_000)
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(StepFailed, match="cancelled"):
        read([tmp_path / "a"], cancelled=cancelled)
    with pytest.raises(StepFailed, match="timeout"):
        read([tmp_path / "a"], timeout_s=-1)


def test_holes_are_not_stored(tmp_path: Path) -> None:
    """What was never written reads as zeros and needs no device."""
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as file:
        file.write(b"x" * 65536)
        file.truncate(10 << 20)
    full = tmp_path / "full"
    full.write_bytes(b"x" * 70_000)
    sync_tree(tmp_path)
    assert stored_bytes(sparse) == 65536
    assert stored_bytes(full) == 70_000


def test_links_are_not_followed(tmp_path: Path) -> None:
    """Bytes behind them belong to somebody else."""
    (tmp_path / "in").mkdir()
    (tmp_path / "out").write_bytes(b"xyz")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    assert tree_bytes(tmp_path / "in") == 0


def test_room_is_asked_for_before(tmp_path: Path) -> None:
    """More than there is: refused with both numbers."""
    stat = os.statvfs(tmp_path)
    with pytest.raises(MissingPrerequisite, match="not enough free space for the dump") as caught:
        require_step_space(tmp_path, stat.f_bavail * stat.f_frsize + 1, purpose="the dump")
    assert "MiB free" in caught.value.evidence
    require_step_space(tmp_path, 0, purpose="nothing")


def test_cat_reads_every_file_and_says_what_it_cannot(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b", "-c")]
    for path in paths:
        path.write_bytes(b"x" * 70_000)
    cat_files(paths, timeout_s=60, cancelled=threading.Event(), cwd=tmp_path)
    missing = tmp_path / "missing"
    with pytest.raises(FileNotFoundError):
        cat_files([missing], timeout_s=60, cancelled=threading.Event(), cwd=tmp_path)
    with pytest.raises(StepFailed, match="cat cannot read the files"):
        cat_files([tmp_path], timeout_s=60, cancelled=threading.Event(), cwd=tmp_path)
