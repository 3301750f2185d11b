"""Where a quota is written, for both versions of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from explain.cpu_quota import quota_files, write_quota


def test_version_2_has_one_file(tmp_path: Path) -> None:
    """Quota and period, in this order."""
    group = tmp_path / "docker" / "abc"
    group.mkdir(parents=True)
    (group / "cpu.max").touch()
    write_quota(quota_files("0::/docker/abc\n", tmp_path), 0.25)
    assert (group / "cpu.max").read_text() == "25000 100000"


def test_version_1_has_two(tmp_path: Path) -> None:
    """In the hierarchy of the CPU controller."""
    group = tmp_path / "cpu" / "docker" / "abc"
    group.mkdir(parents=True)
    for name in ("cpu.cfs_period_us", "cpu.cfs_quota_us"):
        (group / name).touch()
    write_quota(quota_files("5:memory:/x\n4:cpu,cpuacct:/docker/abc\n0::/\n", tmp_path), 1.5)
    assert (group / "cpu.cfs_quota_us").read_text() == "150000"
    assert (group / "cpu.cfs_period_us").read_text() == "100000"


def test_a_process_in_the_root_group_has_none(tmp_path: Path) -> None:
    """Its file is not there."""
    with pytest.raises(FileNotFoundError, match=r"cpu\.max"):
        quota_files("0::/\n", tmp_path)
