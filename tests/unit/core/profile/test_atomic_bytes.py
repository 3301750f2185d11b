"""`atomic_bytes` of a profile: where a power cut tears the writes under way."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.core.profile.resolve import resolve
from volbench.errors import UsageError
from volbench.machine.volume.emulated.requirements import MKFS

PATHS = {"directory": Path("/d"), "mount": Path("/m"), "backing": Path("/b")}


def test_a_volume_tears_nothing_unless_it_is_asked_to() -> None:
    """The key is absent then, so that an earlier daemon takes the configuration."""
    assert "atomic_bytes" not in resolve("ebs-gp3").daemon_config(**PATHS)


@pytest.mark.parametrize(("text", "size"), [("4KiB", 4096), ("16KiB", 16384)])
def test_the_daemon_is_told_the_size(text: str, size: int) -> None:
    resolved = resolve("ebs-gp3", {"atomic_bytes": text})
    assert resolved.daemon_config(**PATHS)["atomic_bytes"] == size
    assert resolved.parameters["atomic_bytes"] == text


@pytest.mark.parametrize(
    ("profile", "size", "named"),
    [
        ("ebs-gp3", "5000", "it is one of"),
        ("ebs-gp3", "2MiB", "it is one of"),
        ("efs-elastic", "4KiB", "a block device that is durable when it acknowledges"),
        ("fsx-openzfs", "4KiB", "a block device that is durable when it acknowledges"),
    ],
)
def test_what_cannot_be_torn_so_is_refused(profile: str, size: str, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        resolve(profile, {"atomic_bytes": size})


def test_a_file_system_with_clusters_of_a_page_is_an_ext4() -> None:
    assert resolve("ebs-gp3", {"filesystem": "ext4-bigalloc"}).filesystem == "ext4-bigalloc"
    assert MKFS["ext4-bigalloc"][0] == "mkfs.ext4"
