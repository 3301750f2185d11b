"""Device and server byte counters, from recorded files."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.core.records.facts import VolumeFacts
from volbench.machine.host.blockstats import device_read_bytes, disk_operations

DISKSTATS = """\
 259       0 nvme0n1 207289 19731 12253754 120542 209819 78182 17878000 531 0 284 988 35710 16 12 2949 49978 1964
 259       1 nvme0n1p1 100 0 800 1 0 0 0 0 0 0 0 0 0 0 0
   8       0 sda 10 0 20 30 40 50 60 70 0 80 90
"""

MOUNTSTATS = r"""device /dev/nvme0n1p1 mounted on / with fstype xfs
device fs-1.efs.amazonaws.com:/ mounted on /mnt/with\040space with fstype nfs4 statvers=1.1
	opts:	rw,vers=4.1,rsize=1048576
	age:	1234
	events:	1 2 3
	bytes:	11 22 33 44 5555 66 77 88
	RPC iostats version: 1.1  p/v: 100003/4 (nfs)
device 10.0.0.9:/x mounted on /mnt/x with fstype nfs statvers=1.1
	bytes:	1 2 3 4 9999 6 7 8
"""


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "self").mkdir()
    (tmp_path / "diskstats").write_text(DISKSTATS)
    (tmp_path / "self/mountstats").write_text(MOUNTSTATS)
    return tmp_path


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (VolumeFacts(path="/", device="nvme0n1p1", disk="nvme0n1"), 800 * 512),
        (VolumeFacts(path="/", device="nvme0n1", disk="nvme0n1"), 12253754 * 512),
        (VolumeFacts(path="/", device="nvme0n1p9", disk="nvme0n1"), 12253754 * 512),
        (VolumeFacts(path="/", device="sda", disk="sda"), 20 * 512),
        (VolumeFacts(path="/", device="sdz", disk="sdz"), None),
        (VolumeFacts(path="/", memory_backed=True), None),
        (VolumeFacts(path="/", nfs_server="a", mount_point="/mnt/with space"), 5555),
        (VolumeFacts(path="/", nfs_server="b", mount_point="/mnt/x"), 9999),
        (VolumeFacts(path="/", nfs_server="b", mount_point="/mnt"), None),
    ],
)
def test_counter(facts: VolumeFacts, expected: int | None, proc: Path) -> None:
    """The device's own counter, else its disk's; an NFS mount's server bytes; None where nothing counts."""
    assert device_read_bytes(facts, proc=proc) == expected


def test_no_proc(tmp_path: Path) -> None:
    """Files that are not there are no counter."""
    assert device_read_bytes(VolumeFacts(path="/", device="sda"), proc=tmp_path) is None
    assert device_read_bytes(VolumeFacts(path="/", nfs_server="a", mount_point="/"), proc=tmp_path) is None


def test_a_disk_s_operations_are_its_completed_reads_and_writes(proc: Path) -> None:
    assert disk_operations("nvme0n1", proc=proc) == 207289 + 209819
    assert disk_operations("nvme9n1", proc=proc) is None
    assert disk_operations("nvme0n1", proc=proc / "none") is None
